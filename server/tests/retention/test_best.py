"""The best checkpoint by the primary metric of the job's method: it is marked, and it stays."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import Connection, select, update

from server.tests.retention.yard import Yard, open_yard
from starforge.contract.ids import AttemptId, JobId
from starforge.recipes.catalog import load_catalog
from starforge_console.domain.points import Columns
from starforge_console.ledger.endings import note_finalised
from starforge_console.ledger.points import add_points
from starforge_console.ledger.tables import jobs

METHOD = "trl/sft"
STEPS = (10, 20, 30, 40, 50)


def give_method(yard: Yard, job: JobId) -> None:
    """Let the job be one of a method whose runs are compared."""

    def change(connection: Connection) -> None:
        spec = str(connection.execute(select(jobs.c.spec).where(jobs.c.id == job)).scalar())
        connection.execute(update(jobs).where(jobs.c.id == job).values(spec=spec.replace("custom/custom", METHOD)))

    yard.console.ledger.write_now(change)


def report(yard: Yard, job: JobId, values: Mapping[int, float]) -> None:
    primary = load_catalog()[METHOD].primary_metric
    assert primary is not None
    assert primary.better == "lower"
    columns = Columns.empty()
    for step, value in values.items():
        columns.add(step, value, 1.0)
    yard.console.services.series.write_now(lambda c: add_points(c, job, 1, {primary.key: columns}))


def tell(yard: Yard, attempt: AttemptId) -> None:
    checkpoints = [{"step": step, "path": f"ckpt/step-{step}", "committed": True, "bytes": step} for step in STEPS]
    outputs = {"artifacts": [], "checkpoints": checkpoints}
    yard.console.ledger.write_now(lambda c: note_finalised(c, attempt, 1.0, outputs, 6))


def test_the_best_checkpoint_stays_beside_the_last_and_is_marked(tmp_path: Path) -> None:
    with open_yard(tmp_path) as yard:
        job, attempt = yard.end(steps=STEPS)
        give_method(yard, job)
        tell(yard, attempt)
        report(yard, job, {5: 9.0, 10: 3.0, 19: 0.5, 25: 4.0, 30: 2.0, 40: 2.5, 50: float("nan")})
        yard.later(8)
        asyncio.run(yard.collector.collect("ada"))
        assert yard.checkpoints(attempt) == ["step-20", "step-30", "step-40", "step-50"]
        yard.later(-8)
        told = yard.console.client(yard.headers).get(f"/api/v1/jobs/{job}/outputs").json()["checkpoints"]
        assert [(one["step"], one["value"], one["best"]) for one in told] == [
            (10, 3.0, False),
            (20, 0.5, True),
            (30, 2.0, False),
            (40, 2.5, False),
            (50, None, False),
        ]


def test_a_job_whose_method_names_no_metric_has_no_best(tmp_path: Path) -> None:
    with open_yard(tmp_path) as yard:
        job, attempt = yard.end(steps=STEPS)
        tell(yard, attempt)
        yard.later(8)
        asyncio.run(yard.collector.collect("ada"))
        assert yard.checkpoints(attempt) == ["step-30", "step-40", "step-50"]
        yard.later(-8)
        told = yard.console.client(yard.headers).get(f"/api/v1/jobs/{job}/outputs").json()["checkpoints"]
        assert {(one["value"], one["best"]) for one in told} == {(None, False)}

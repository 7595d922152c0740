"""Why a job waits: place, rules and numbers per machine, and changes that the next pass proves."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, select

from server.tests.scheduler.support import FLEET, Site, open_site, run
from starforge.contract.ids import JobId
from starforge.contract.states import JobState
from starforge_console.domain.alternatives import Alternative, Change
from starforge_console.domain.gpu_hours import HOUR_S
from starforge_console.domain.quota import Holder
from starforge_console.domain.waiting import describe_waiting
from starforge_console.executors.scripting import FakeNode
from starforge_console.ledger.maintenance import begin_maintenance
from starforge_console.ledger.moves import Guard
from starforge_console.ledger.quotas import change_parts
from starforge_console.ledger.tables import jobs
from starforge_console.scheduler.explain import Explainer, Explanation

SERIES = st.sampled_from([None, "h200", "l40s"])
JOBS = st.lists(st.tuples(st.integers(1, 4), SERIES, st.sampled_from(["ada", "bob"])), max_size=8)

ASKED = st.tuples(st.integers(1, 8), SERIES, st.sampled_from([None, FLEET]))


def nodes() -> list[FakeNode]:
    """Two machines of two series."""
    return [FakeNode(name="n1", gpus=4, series="h200"), FakeNode(name="n2", gpus=2, series="l40s")]


async def explain(site: Site, job: JobId) -> Explanation | None:
    return await Explainer(site.loops.deps.snapshot_sources, lambda: site.views[-1]).explain(job)


def test_each_machine_is_told_with_its_rule_and_numbers_and_what_would_start_the_job(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, *nodes()) as site:
            await site.submit(gpus=3, series="h200")
            await site.dequeue()
            job = await site.submit(gpus=4, series="h200")
            await site.dequeue()
            found = await explain(site, job)
            assert found is not None
            told = {one.node: one.why for one in found.nodes}
            assert told["n1"].startswith("1 of 4 h200 GPUs free, 4 asked for")
            assert set(told) == {"n1", "n2"}
            assert [(one.change, one.value) for one in found.starts_with] == [(Change.GPUS, "1")]
            assert (await site.job(job)).note == describe_waiting(found.reasons)

    run(go())


def test_a_job_that_runs_waits_for_nothing_and_one_that_has_room_starts_next(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            running, _ = await site.running()
            assert await explain(site, running) is None
            fits = await site.submit()
            assert await explain(site, fits) == Explanation()
            await site.dequeue()
            assert (await site.job(fits)).state == JobState.PENDING

    run(go())


def test_hours_that_are_used_are_told_with_when_they_come_free_and_no_machine_or_number_of_gpus_mends_it(
    tmp_path: Path,
) -> None:
    async def go() -> None:
        async with open_site(tmp_path, *nodes()) as site:
            await site.ledger.write(lambda c: change_parts(c, Holder("user", "ada"), {"gpu_hours": 1}))
            _, attempt = await site.running()
            site.clock.at += 1.5 * HOUR_S
            site.end(attempt)
            await site.reconcile()
            job = await site.submit()
            await site.dequeue()
            found = await explain(site, job)
            assert found is not None
            (why,) = found.reasons
            assert why.places == ("quota of user ada",)
            assert why.reason.startswith("1.5 of 1 GPU-hour of the last 24 hours used: it can start once 0.6 of them")
            assert found.starts_with == []
            assert (await site.job(job)).note == describe_waiting(found.reasons)

    run(go())


def test_in_a_maintenance_nothing_would_start_it(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            await site.dequeue()
            job, guard = await site.submit(gpus=8), Guard(now=site.clock.now(), monotonic=0.0)
            await site.ledger.write(lambda c: begin_maintenance(c, "root", "cables", guard))
            found = await explain(site, job)
            assert found is not None
            assert "in maintenance by root (cables)" in found.reasons[0].reason
            assert found.starts_with == []

    run(go())


def test_to_ask_changes_nothing(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job = await site.submit(gpus=2)
            site.clock.at += 1.0
            await site.submit()
            await site.dequeue()
            large = await site.submit(gpus=2)
            before = await site.ledger.read(_dump)
            await explain(site, large)
            assert await site.ledger.read(_dump) == before
            assert (await site.job(job)).state == JobState.PENDING

    run(go())


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(JOBS, ASKED, st.sampled_from(["ada", "bob"]), st.integers(0, 3))
def test_the_next_pass_places_what_is_submitted_with_a_change_that_was_named(
    tmp_path_factory: pytest.TempPathFactory,
    queue: list[tuple[int, str | None, str]],
    asked: tuple[int, str | None, str | None],
    user: str,
    which: int,
) -> None:
    gpus, series, fleet = asked

    async def go() -> None:
        async with open_site(tmp_path_factory.mktemp("site"), *nodes()) as site:
            for count, wanted, owner in queue:
                await site.submit(gpus=count, series=wanted, user=owner)
                site.clock.at += 1.0
            await site.dequeue()
            job = await site.submit(gpus=gpus, series=series, user=user, fleet=fleet)
            found = await explain(site, job)
            assert found is not None
            for one in found.starts_with[which : which + 1]:
                await site.stop(job)
                again = await site.submit(**_change(one, gpus, series, fleet), user=user)
                await site.dequeue()
                assert (await site.job(again)).state == JobState.PENDING, one

    run(go())


def _change(one: Alternative, gpus: int, series: str | None, fleet: str | None) -> dict[str, Any]:
    """What to submit in the job's place."""
    match one.change:
        case Change.GPUS:
            return {"gpus": int(one.value), "series": series, "fleet": fleet}
        case Change.SERIES:
            return {"gpus": gpus, "series": None if one.value == "any" else one.value, "fleet": fleet}
        case Change.FLEET:
            return {"gpus": gpus, "series": series, "fleet": one.value}


def _dump(connection: Connection) -> list[object]:
    return [tuple(row) for row in connection.execute(select(jobs).order_by(jobs.c.id)).all()]

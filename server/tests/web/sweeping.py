"""Short ways to a sweep over HTTP."""

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.testclient import TestClient

from server.tests.web.support import ConsoleUnderTest, build_submission
from starforge.recipes.catalog import load_catalog
from starforge_console.domain.points import Columns
from starforge_console.ledger.points import add_points

GRID = ({"lr": 0.1, "layers": 2}, {"lr": 0.1, "layers": 4}, {"lr": 0.01, "layers": 2}, {"lr": 0.01, "layers": 4})
SFT = load_catalog()["trl/sft"]


def build_sweep(
    combinations: Sequence[Mapping[str, object]] = GRID, name: str | None = None, **spec: object
) -> dict[str, object]:
    named = {} if name is None else {"name": name}
    return {**build_submission(**spec), "combinations": list(combinations), **named}


def build_sft(**hyperparameters: object) -> dict[str, Any]:
    """Members of a spec whose method has a primary metric: the lower, the better."""
    version = SFT.framework_versions[-1]
    recipe = SFT.at(version)
    return {
        "recipe": {"name": SFT.name, "version": SFT.version, "digest": SFT.digest},
        "framework": {"kind": SFT.framework, "version": version, "image": "train:1"},
        "entry": {"kind": recipe.entry.kind, "value": "experiments/first"},
        "model": "models/tiny",
        "data": {"train": "data/train.jsonl"},
        "hyperparameters": hyperparameters,
    }


def post(client: TestClient, body: Mapping[str, object], key: str | None = None) -> Any:
    headers = {} if key is None else {"Idempotency-Key": key}
    return client.post("/api/v1/sweeps", json=body, headers=headers)


def sweep(console: ConsoleUnderTest, client: TestClient, body: Mapping[str, object] | None = None) -> dict[str, Any]:
    console.keep_workspace()
    answer = post(client, body or build_sweep())
    assert answer.status_code == 201, answer.text
    told: dict[str, Any] = answer.json()
    return told


def report(console: ConsoleUnderTest, job: str, key: str, values: Sequence[float]) -> None:
    steps = range(len(values))
    points = {key: Columns(array("q", steps), array("d", values), array("d", [float(step) for step in steps]))}
    console.services.series.write_now(lambda c: add_points(c, job, 1, points))

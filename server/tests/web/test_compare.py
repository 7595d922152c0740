"""Curves over HTTP: searched, as CSV, of one attempt alone, and several runs side by side."""

import csv
import io
import math
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from server.tests.web.support import ConsoleUnderTest, build_submission
from starforge.contract.comparing import RUNS_AT_MOST
from starforge.contract.jobspec import JobSpec
from starforge_console.domain.points import Columns
from starforge_console.ledger.points import add_points
from starforge_console.web.compare import build_settings


def _submit(console: ConsoleUnderTest, headers: dict[str, str], **spec: object) -> str:
    console.keep_workspace()
    answer = console.client(headers).post("/api/v1/jobs", json=build_submission(**spec))
    assert answer.status_code == 201, answer.text
    return str(answer.json()["job"])


def _report(
    console: ConsoleUnderTest, job: str, values: Mapping[str, Sequence[float]], *, attempt: int = 1, first: int = 0
) -> None:
    points = {}
    for key, numbers in values.items():
        steps = range(first, first + len(numbers))
        points[key] = Columns(array("q", steps), array("d", numbers), array("d", [100.5 + step for step in steps]))
    console.services.series.write_now(lambda c: add_points(c, job, attempt, points))


def _get(console: ConsoleUnderTest, headers: dict[str, str], path: str, **query: Any) -> Any:
    answer = console.client(headers).get(f"/api/v1{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_keys_of_a_run_are_searched_and_come_a_page_at_a_time(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = _submit(console, headers)
    _report(console, job, {f"layer.{number:04}/norm": [1.0] for number in range(1000)} | {"loss": [1.0, 2.0]})
    path = f"/jobs/{job}/metrics"
    assert len(_get(console, headers, path)["keys"]) == 1001
    found = _get(console, headers, path, q="LAYER.00", limit=60)
    assert (len(found["keys"]), found["total"], found["next"]) == (60, 1001, "layer.0059/norm")
    rest = _get(console, headers, path, q="LAYER.00", limit=60, after=found["next"])
    assert (next(iter(rest["keys"])), len(rest["keys"]), rest["next"]) == ("layer.0060/norm", 40, None)
    assert _get(console, headers, path, q="%")["keys"] == {}


def test_a_resumed_run_shows_both_attempts(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = _submit(console, headers)
    _report(console, job, {"train/loss": [1.0] * 10})
    _report(console, job, {"train/loss": [2.0] * 10}, attempt=2, first=6)
    path = f"/jobs/{job}/metrics/train/loss"
    assert _get(console, headers, path)["values"] == [1.0] * 6 + [2.0] * 10
    assert _get(console, headers, path, attempt=1)["values"] == [1.0] * 10
    assert console.client(headers).get(f"/api/v1{path}?attempt=3").status_code == 404


def test_a_part_of_a_curve_is_asked_for_by_its_steps(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = _submit(console, headers)
    _report(console, job, {"loss": [float(step) for step in range(5000)]})
    path = f"/jobs/{job}/metrics/loss"
    part = _get(console, headers, path, points=100, from_step=1000, to_step=1049)
    assert (part["steps"], part["total_points"]) == (list(range(1000, 1050)), 50)
    assert _get(console, headers, path, points=100, from_step=4990)["steps"] == list(range(4990, 5000))
    assert _get(console, headers, path, from_step=5000)["steps"] == []
    refused = console.client(headers).get(f"/api/v1{path}", params={"from_step": 2, "to_step": 1})
    assert refused.status_code == 422
    assert "steps 2 to 1 are none" in refused.text
    far = console.client(headers).get(f"/api/v1{path}", params={"to_step": 1 << 63})
    assert far.status_code == 422


def test_all_points_come_as_csv_superseded_ones_too(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = _submit(console, headers)
    _report(console, job, {'odd,"key"': [0.1, math.nan], "loss": [1.0, math.inf]})
    _report(console, job, {"loss": [-math.inf]}, attempt=2, first=1)
    answer = console.client(headers).get(f"/api/v1/jobs/{job}/metrics.csv")
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["content-disposition"] == f'attachment; filename="{job}-metrics.csv"'
    assert list(csv.reader(io.StringIO(answer.text))) == [
        ["key", "attempt", "step", "time", "value"],
        ["loss", "1", "0", "100.5", "1.0"],
        ["loss", "1", "1", "101.5", "inf"],
        ["loss", "2", "1", "101.5", "-inf"],
        ['odd,"key"', "1", "0", "100.5", "0.1"],
        ['odd,"key"', "1", "1", "101.5", "nan"],
    ]
    chosen = console.client(headers).get(f"/api/v1/jobs/{job}/metrics.csv", params={"key": ["loss", "none"]})
    assert chosen.text.count("\n") == 4


@pytest.mark.parametrize("key", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "-a\r=1", '-"\r\n,=1'])
def test_no_key_is_a_formula_to_a_spreadsheet(console: ConsoleUnderTest, key: str) -> None:
    headers = console.add_user("ann")
    job = _submit(console, headers)
    _report(console, job, {key: [1.0], "a=b": [2.0]})
    answer = console.client(headers).get(f"/api/v1/jobs/{job}/metrics.csv", params={"key": [key, "a=b"]})
    rows = list(csv.reader(io.StringIO(answer.text, newline="")))
    assert [row[0] for row in rows] == ["key", f"'{key}", "a=b"]


def test_a_long_curve_is_written_whole(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = _submit(console, headers)
    _report(console, job, {"loss": [float(step) for step in range(30_000)]})
    rows = list(csv.DictReader(io.StringIO(console.client(headers).get(f"/api/v1/jobs/{job}/metrics.csv").text)))
    assert [float(row["value"]) for row in rows] == [float(step) for step in range(30_000)]


def test_fifty_runs_are_compared_in_one_request_of_constant_size(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    jobs = [_submit(console, headers, hyperparameters={"lr": number}) for number in range(RUNS_AT_MOST)]
    for number, job in enumerate(jobs):
        _report(console, job, {"loss": [number + 1 / (1 + step) for step in range(5000)], f"own{number}": [1.0]})
    found = _get(console, headers, "/compare", job=jobs, key="loss", points=100)
    assert [run["id"] for run in found["runs"]] == jobs
    assert [curve["job"] for curve in found["curves"]] == jobs
    assert all(90 <= len(curve["steps"]) <= 100 for curve in found["curves"])
    assert (found["keys"], found["key_count"], found["primary"]) == (["loss"], RUNS_AT_MOST + 1, None)
    last = found["curves"][3]
    assert (last["high"], last["high_step"], last["low_step"]) == (4.0, 0, 4999)
    assert last["low"] == last["last"] == 3 + 1 / 5000
    settings = {one["name"]: one for one in found["settings"]}
    assert settings["lr"] == {"name": "lr", "values": list(range(RUNS_AT_MOST)), "differs": True}
    assert settings["image"]["differs"] is False


def test_without_a_key_the_metric_is_chosen_that_all_runs_share(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    first, second = (_submit(console, headers) for _ in range(2))
    _report(console, first, {"loss": [1.0], "reward": [1.0, 2.0]})
    _report(console, second, {"reward": [math.nan, math.inf]})
    found = _get(console, headers, "/compare", job=[first, second, first])
    assert found["keys"] == ["reward"]
    assert [(one["last"], one["low"], one["high"]) for one in found["curves"]] == [(2.0, 1.0, 2.0), ("inf", None, None)]
    nothing = _get(console, headers, "/compare", job=_submit(console, headers))
    assert (nothing["keys"], nothing["curves"], nothing["key_count"]) == ([], [], 0)


def test_a_comparison_that_cannot_be_made_says_why(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = _submit(console, headers)
    client = console.client(headers)
    missing = client.get("/api/v1/compare", params={"job": [job, "jaaaaaaaaa"]})
    assert (missing.status_code, missing.json()["title"]) == (404, "there is no job jaaaaaaaaa")
    assert client.get("/api/v1/compare").status_code == 422
    assert client.get("/api/v1/compare", params={"job": [job] * (RUNS_AT_MOST + 1)}).status_code == 422
    jobs = [job, *(_submit(console, headers) for _ in range(20))]
    many = client.get("/api/v1/compare", params={"job": jobs, "key": [f"k{number}" for number in range(20)]})
    assert (many.status_code, many.json()["title"]) == (422, "21 runs and 20 metrics are 420 curves")
    assert console.client().get("/api/v1/compare", params={"job": job}).status_code == 401


@pytest.mark.parametrize(
    ("first", "second", "differs"),
    [
        ({"a": {"b": 1}}, {"a": {"b": 2}}, {"a.b"}),
        ({"a": 1}, {"a": True}, {"a"}),
        ({"a": 1}, {"a": 1.0}, {"a"}),
        ({"a": [1, 2]}, {"a": [1, 2]}, set()),
        ({"a": None}, {}, set()),
        ({"a": {}}, {"a": {"b": 1}}, {"a", "a.b"}),
        ({"a": {"b": {"c": {"d": {"e": 1}}}}}, {"a": {"b": {"c": {"d": {"e": 2}}}}}, {"a.b.c.d"}),
    ],
)
def test_settings_that_differ_are_marked(first: object, second: object, differs: set[str]) -> None:
    specs = [JobSpec.model_validate(build_submission(hyperparameters=one)["spec"]) for one in (first, second)]
    assert {one.name for one in build_settings(specs) if one.differs} == differs

"""`sf compare` and `sf job metrics`: numbers of one run and of several, as tables, plots, JSON and CSV."""

import pytest

from core.tests.cli.conftest import Sf
from core.tests.client.server import TOKEN, ConsoleState, serve

RUN = {
    "project": "demo",
    "user": "ada",
    "state": "SUCCEEDED",
    "reason": "exited_zero",
    "submitted_at": 1.0,
    "state_since": 2.0,
    "desired": "run",
    "gpus": 0,
    "attempt": 1,
    "note": "",
    "fleet": None,
}


def _curve(job: str, key: str, *values: float | str) -> dict[str, object]:
    numbers = [value for value in values if not isinstance(value, str)]
    return {
        "job": job,
        "key": key,
        "steps": list(range(len(values))),
        "values": list(values),
        "times": [0.0] * len(values),
        "total_points": len(values),
        "last": values[-1],
        "low": min(numbers, default=None),
        "high": max(numbers, default=None),
    }


def _comparison(primary: object = None) -> dict[str, object]:
    return {
        "runs": [{**RUN, "id": "j1", "name": "first"}, {**RUN, "id": "j2", "name": "second"}],
        "keys": ["loss"],
        "key_count": 3,
        "primary": primary,
        "curves": [_curve("j1", "loss", 2.0, 0.5, 0.75)],
        "settings": [
            {"name": "lr", "values": [1e-5, None], "differs": True},
            {"name": "image", "values": ["a", "a"], "differs": False},
        ],
    }


def test_runs_are_compared_in_a_table_with_what_differs(sf: Sf, state: ConsoleState) -> None:
    state.answers["GET /compare"] = _comparison()
    with serve(state) as url:
        sf("login", "--server", url, stdin=f"{TOKEN}\n")
        lines = sf("compare", "j1", "j2").out.splitlines()
        assert lines[0].split() == ["RUN", "NAME", "STATE", "loss", "LOWEST", "HIGHEST"]
        assert lines[1].split() == ["j1", "first", "SUCCEEDED", "0.75", "0.5", "2"]
        assert lines[2].split() == ["j2", "second", "SUCCEEDED", "-", "-", "-"]
        assert [line.split() for line in lines[4:]] == [["SETTING", "j1", "j2"], ["*", "lr", "1e-05", "-"]]
        assert "image" in sf("compare", "j1", "j2", "--all").out
        assert sf("compare", "j1", "j2", "--json").json["settings"][0]["differs"] is True


def test_a_metric_that_no_run_reported_is_named(sf: Sf, state: ConsoleState) -> None:
    state.answers["GET /compare"] = {**_comparison(), "keys": ["loss", "nope"]}
    with serve(state) as url:
        sf("login", "--server", url, stdin=f"{TOKEN}\n")
        result = sf("compare", "j1", "j2", "--metric", "loss", "--metric", "nope")
        assert "none of the runs has reported 'nope'" in result.err
        assert "sf job metrics j1" in result.err
        assert "'loss'" not in result.err


@pytest.mark.parametrize(("better", "best"), [("lower", "0.5"), ("higher", "2")])
def test_the_best_value_is_told_of_the_primary_metric(sf: Sf, state: ConsoleState, better: str, best: str) -> None:
    state.answers["GET /compare"] = _comparison({"key": "loss", "better": better})
    with serve(state) as url:
        sf("login", "--server", url, stdin=f"{TOKEN}\n")
        lines = sf("compare", "j1", "j2").out.splitlines()
        assert lines[0].split()[-2:] == ["loss", "BEST"]
        assert lines[1].split()[-2:] == ["0.75", best]


def test_the_curves_of_runs_are_drawn_when_asked_for(sf: Sf, state: ConsoleState) -> None:
    state.answers["GET /compare"] = _comparison()
    with serve(state) as url:
        sf("login", "--server", url, stdin=f"{TOKEN}\n")
        assert "first loss (3 points)  last 0.75 at step 2" in sf("compare", "j1", "j2", "--plot").out
        assert "points)" not in sf("compare", "j1", "j2").out, "piped, nothing is drawn"


def _with_metrics(state: ConsoleState) -> str:
    job = "j1"
    state.answers[f"GET /jobs/{job}/metrics"] = {
        "keys": {"eval/acc": 3, "loss": 20, "system/cpu_percent": 9},
        "primary": None,
        "total": 3,
        "next": None,
    }
    return job


def test_the_metrics_of_a_job_are_listed_the_most_telling_first(sf: Sf, state: ConsoleState) -> None:
    job = _with_metrics(state)
    curves = [_curve(job, "loss", 2.0, "nan"), _curve(job, "eval/acc", 0.5), _curve(job, "system/cpu_percent", 99.0)]
    state.answers["GET /compare"] = {**_comparison(), "curves": curves}
    with serve(state) as url:
        sf("login", "--server", url, stdin=f"{TOKEN}\n")
        rows = [line.split() for line in sf("job", "metrics", job).out.splitlines()]
        assert rows == [
            ["METRIC", "POINTS", "LAST", "LOWEST", "HIGHEST"],
            ["loss", "20", "nan", "2", "2"],
            ["eval/acc", "3", "0.5", "0.5", "0.5"],
            ["system/cpu_percent", "9", "99", "99", "99"],
        ]
        answer = sf("job", "metrics", job, "--json").json
        assert (answer["total"], answer["curves"]) == (3, [])


def test_a_metric_is_drawn_by_its_name_and_a_wrong_name_is_told(sf: Sf, state: ConsoleState) -> None:
    job = _with_metrics(state)
    curve = {name: value for name, value in _curve(job, "loss", 2.0, 1.0).items() if name not in {"job", "last"}}
    state.answers[f"GET /jobs/{job}/metrics/loss"] = curve
    with serve(state) as url:
        sf("login", "--server", url, stdin=f"{TOKEN}\n")
        assert "loss (2 points)" in sf("job", "metrics", job, "--key", "loss").out
        assert sf("job", "metrics", job, "--key", "loss", "--json").json["curves"][0]["values"] == [2.0, 1.0]
        wrong = sf("job", "metrics", job, "--key", "los")
        assert wrong.code == 1
        assert "loss" in wrong.err


def test_every_point_comes_as_csv(sf: Sf, state: ConsoleState) -> None:
    job = _with_metrics(state)
    content = b"key,attempt,step,time,value\nloss,1,0,0.0,2.0\n"
    state.answers[f"GET /jobs/{job}/metrics.csv"] = content
    with serve(state) as url:
        sf("login", "--server", url, stdin=f"{TOKEN}\n")
        assert sf("job", "metrics", job, "--csv", "--key", "loss").out == content.decode()
        assert sf("job", "metrics", job, "--csv").out == content.decode()


def test_more_metrics_than_one_request_names_are_refused_with_the_way_out(sf: Sf, state: ConsoleState) -> None:
    state.answers["GET /jobs/j1/metrics"] = {"keys": {f"k{number}": 1 for number in range(201)}, "primary": None}
    with serve(state) as url:
        sf("login", "--server", url, stdin=f"{TOKEN}\n")
        refused = sf("job", "metrics", "j1", "--csv", "--find", "k")
        assert refused.code != 0
        assert "201 metrics are asked for" in refused.err
        assert "narrow --find" in refused.err

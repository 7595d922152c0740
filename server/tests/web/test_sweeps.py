"""Sweeps over HTTP: admitted whole or not at all, once, shown with the best run first, and stopped together."""

import random

import pytest

from server.tests.web.support import ConsoleUnderTest, build_submission
from server.tests.web.sweeping import GRID, SFT, build_sft, build_sweep, post, report, sweep
from starforge.contract.canonical import Json, digest_json
from starforge.contract.combinations import COMBINATIONS_AT_MOST, PARTS_AT_MOST
from starforge.contract.ids import is_sweep_id
from starforge.contract.jobspec import JobSpec, digest_of


def test_a_sweep_is_one_queued_job_a_combination(console: ConsoleUnderTest) -> None:
    client = console.client(console.add_user("ann"))
    told = sweep(console, client, build_sweep(name="rates"))
    assert is_sweep_id(told["sweep"])
    assert [one["combination"] for one in told["jobs"]] == list(GRID)
    assert len({one["spec_digest"] for one in told["jobs"]}) == len(GRID)
    for one in told["jobs"]:
        shown = client.get(f"/api/v1/jobs/{one['job']}").json()
        assert shown["job"]["state"] == "QUEUED"
        assert shown["job"]["sweep"] == {
            "id": told["sweep"],
            "name": "rates",
            "combination": one["combination"],
        }
        assert shown["spec"]["spec"]["hyperparameters"] == one["combination"]
        assert (shown["spec_digest"], shown["admission"]["job"]) == (one["spec_digest"], one["job"])


def test_the_jobs_of_a_sweep_are_queued_in_the_order_of_its_combinations(console: ConsoleUnderTest) -> None:
    client = console.client(console.add_user("ann"))
    rates = [{"lr": number / 100} for number in range(1, 9)]
    told = sweep(console, client, build_sweep(name="rates", combinations=rates))
    queued = client.get("/api/v1/queue").json()["items"]
    assert [one["job"]["id"] for one in queued] == [one["job"] for one in told["jobs"]]


def test_a_job_of_a_sweep_has_the_digest_that_the_same_submission_alone_has(console: ConsoleUnderTest) -> None:
    client = console.client(console.add_user("ann"))
    config: dict[str, Json] = {"image": "python:3.11", "hyperparameters": {"lr": 1.0, "optim": {"name": "adam"}}}
    provenance = {"commit": "0" * 40, "config_digest": digest_json(config)}
    hyperparameters = {"lr": 1.0, "optim": {"name": "adam"}}
    body = build_sweep(
        [{"lr": 1e-05, "optim.beta": 0.9}, {"lr": 1, "optim.beta": 0.9}],
        hyperparameters=hyperparameters,
        provenance=provenance,
    )
    told = sweep(console, client, {**body, "config": config})
    alone: dict[str, Json] = {"lr": 1e-05, "optim": {"name": "adam", "beta": 0.9}}
    set_config: dict[str, Json] = {"image": "python:3.11", "hyperparameters": alone}
    expected = build_submission(
        hyperparameters=alone, provenance={"commit": "0" * 40, "config_digest": digest_json(set_config)}
    )
    assert told["jobs"][0]["spec_digest"] == digest_of(JobSpec.model_validate(expected["spec"]))
    detail = client.get(f"/api/v1/jobs/{told['jobs'][0]['job']}").json()
    assert detail["lineage"]["config"] == set_config
    assert told["warnings"] == []


def test_the_same_key_gives_the_same_sweep_and_doubles_no_job(console: ConsoleUnderTest) -> None:
    console.keep_workspace()
    client = console.client(console.add_user("ann"))
    first = post(client, build_sweep(), "once").json()
    again = post(client, build_sweep(), "once")
    assert again.status_code == 201
    assert again.json()["repeated"]
    assert (again.json()["sweep"], again.json()["jobs"]) == (first["sweep"], first["jobs"])
    assert len(client.get("/api/v1/jobs").json()["items"]) == len(GRID)
    assert post(client, build_sweep(GRID[:2]), "once").status_code == 409
    assert post(client, build_sweep(), "twice").json()["sweep"] != first["sweep"]


def test_a_key_stands_for_its_sweep_as_long_as_one_of_its_jobs_is_there(console: ConsoleUnderTest) -> None:
    console.keep_workspace()
    client = console.client(console.add_user("ann"))
    first = post(client, build_sweep(), "once").json()
    for one in first["jobs"][:-1]:
        client.post(f"/api/v1/jobs/{one['job']}/stop")
        assert client.delete(f"/api/v1/jobs/{one['job']}").status_code == 204
    again = post(client, build_sweep(), "once").json()
    assert (again["sweep"], again["jobs"]) == (first["sweep"], first["jobs"][-1:])


def test_what_one_combination_is_refused_for_is_said_with_its_name_and_nothing_is_kept(
    console: ConsoleUnderTest,
) -> None:
    console.keep_workspace()
    client = console.client(console.add_user("ann"))
    rates = [{"learning_rate": rate} for rate in (1e-4, "slow", "fast")]
    body = build_sweep(rates, placement={"fleet": "locale"}, **build_sft(max_steps=5))
    decided = client.post("/api/v1/sweeps/admission", json=body)
    assert decided.status_code == 200
    assert decided.json()["sweep"] is None
    answer = post(client, body)
    assert answer.status_code == 422
    assert answer.json()["refusals"] == decided.json()["refusals"]
    said = [(one["gate"], one["code"], one["what"]) for one in answer.json()["refusals"]]
    assert [(gate, code) for gate, code, _ in said] == [("topology", "fleet_unknown"), *[("catalog", "value_type")] * 2]
    assert said[0][2] == "there is no fleet 'locale'"
    assert said[1][2].endswith("(1 of 3 combinations: learning_rate=slow)")
    assert said[2][2].endswith("(1 of 3 combinations: learning_rate=fast)")
    assert client.get("/api/v1/jobs").json()["items"] == []
    assert client.get("/api/v1/sweeps").json()["items"] == []


def test_a_trial_keeps_nothing_and_needs_no_workspace(console: ConsoleUnderTest) -> None:
    client = console.client(console.add_user("ann"))
    told = client.post("/api/v1/sweeps/admission", json=build_sweep()).json()
    assert [one["job"] for one in told["jobs"]] == [None] * len(GRID)
    assert told["refusals"] == []
    assert len(told["warnings"]) == 1
    assert client.get("/api/v1/jobs").json()["items"] == []


@pytest.mark.parametrize(
    ("combinations", "says"),
    [
        ([], "at least 1"),
        ([{}], "1 to 16 keys"),
        ([{"a": 1}, {"b": 1}], "the same keys"),
        ([{"a": 1}, {"a": 1}], "there twice"),
        ([{"a..b": 1}], "is empty"),
        ([{"depth.a": 1}], "holds no map"),
        ([{"a": {}, "a.b": 1}], "inside another"),
        ([{"a": None}, {"a": 1}], "a value is null"),
        ([{"a": number} for number in range(COMBINATIONS_AT_MOST + 1)], "at most 200"),
        ([{str(number): 1 for number in range(17)}], "1 to 16 keys"),
        ([{".".join("a" * (PARTS_AT_MOST + 1)): 1}], "lies in 32 maps"),
        ([{".".join("a" * 5000): 1}], "lies in 4999 maps"),
    ],
)
def test_what_is_no_sweep_is_refused_by_name(
    console: ConsoleUnderTest, combinations: list[dict[str, object]], says: str
) -> None:
    console.keep_workspace()
    body = build_sweep(combinations, hyperparameters={"depth": 3})
    answer = post(console.client(console.add_user("ann")), body)
    assert answer.status_code == 422
    assert says in answer.text


def test_a_key_may_lie_as_deep_as_is_said(console: ConsoleUnderTest) -> None:
    client = console.client(console.add_user("ann"))
    told = sweep(console, client, build_sweep([{".".join("a" * PARTS_AT_MOST): 1}]))
    assert client.get(f"/api/v1/sweeps/{told['sweep']}").status_code == 200


@pytest.mark.parametrize("name", ["a\0", " a", "a\n", ""])
def test_what_is_no_name_of_a_sweep_is_refused(console: ConsoleUnderTest, name: str) -> None:
    console.keep_workspace()
    answer = post(console.client(console.add_user("ann")), build_sweep(name=name))
    assert (answer.status_code, "body.name" in answer.text) == (422, True)


def test_values_that_only_python_takes_for_the_same_are_two_combinations(console: ConsoleUnderTest) -> None:
    told = sweep(console, console.client(console.add_user("ann")), build_sweep([{"a": 1}, {"a": True}, {"a": 1.5}]))
    assert [one["combination"]["a"] for one in told["jobs"]] == [1, True, 1.5]


@pytest.mark.parametrize(
    ("count", "hyperparameters"),
    [(COMBINATIONS_AT_MOST, {"words": "x" * 200_000}), (COMBINATIONS_AT_MOST, {"many": list(range(2000))})],
    ids=["bytes", "values"],
)
def test_a_sweep_that_would_keep_too_much_is_refused_before_it_is_built(
    console: ConsoleUnderTest, count: int, hyperparameters: dict[str, object]
) -> None:
    console.keep_workspace()
    client = console.client(console.add_user("ann"))
    body = build_sweep([{"seed": number} for number in range(count)], hyperparameters=hyperparameters)
    for path in ("/api/v1/sweeps", "/api/v1/sweeps/admission"):
        answer = client.post(path, json=body)
        assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
        assert f"{count} jobs" in answer.json()["detail"]
    assert post(client, build_sweep([{"seed": 1}], hyperparameters=hyperparameters)).status_code == 201


def test_the_largest_sweep_is_admitted_and_shown(console: ConsoleUnderTest) -> None:
    client = console.client(console.add_user("ann"))
    told = sweep(console, client, build_sweep([{"a": number} for number in range(COMBINATIONS_AT_MOST)]))
    shown = client.get(f"/api/v1/sweeps/{told['sweep']}").json()
    assert [run["job"]["sweep"]["combination"]["a"] for run in shown["runs"]] == list(range(COMBINATIONS_AT_MOST))
    assert shown["sweep"]["states"] == {"QUEUED": COMBINATIONS_AT_MOST}


def test_the_best_run_by_the_methods_primary_metric_comes_first(console: ConsoleUnderTest) -> None:
    client = console.client(console.add_user("ann"))
    combinations = [{"learning_rate": rate} for rate in (1e-3, 1e-4, 1e-5, 1e-6)]
    told = sweep(console, client, build_sweep(combinations, **build_sft(max_steps=5)))
    jobs = [one["job"] for one in told["jobs"]]
    assert SFT.primary_metric is not None
    key = SFT.primary_metric.key
    sign = 1 if SFT.primary_metric.better == "lower" else -1
    report(console, jobs[0], key, [3.0, sign * 0.9, 2.0])
    report(console, jobs[1], key, [float("nan")])
    report(console, jobs[3], key, [3.0, 1.0, sign * 0.5])
    shown = client.get(f"/api/v1/sweeps/{told['sweep']}").json()
    assert [run["job"]["id"] for run in shown["runs"]] == [jobs[3], jobs[0], jobs[1], jobs[2]]
    assert [run["best"] for run in shown["runs"]] == [sign * 0.5, sign * 0.9, None, None]
    assert [run["best_step"] for run in shown["runs"]] == [2, 1, None, None]
    assert shown["primary"]["key"] == key


def test_all_jobs_of_a_sweep_are_stopped_in_one_action_that_may_be_repeated(console: ConsoleUnderTest) -> None:
    ann, bob = console.client(console.add_user("ann")), console.client(console.add_user("bob"))
    told = sweep(console, ann)
    other = sweep(console, ann, build_sweep(name="other"))
    path = f"/api/v1/sweeps/{told['sweep']}"
    ann.post(f"/api/v1/jobs/{told['jobs'][0]['job']}/stop")
    assert bob.post(f"{path}/stop").status_code == 403
    assert ann.get(path).json()["sweep"]["active"] == len(GRID) - 1
    stopped = ann.post(f"{path}/stop", json={"note": "the first is good enough"})
    assert stopped.status_code == 202
    assert stopped.json() == {"sweep": told["sweep"], "asked": len(GRID) - 1, "ended": 1, "refusals": []}
    assert ann.get(path).json()["sweep"]["states"] == {"STOPPED": len(GRID)}
    detail = ann.get(f"/api/v1/jobs/{told['jobs'][1]['job']}").json()
    assert "the first is good enough" in str(detail["events"])
    assert ann.post(f"{path}/stop").json()["asked"] == 0
    assert ann.get(f"/api/v1/sweeps/{other['sweep']}").json()["sweep"]["states"] == {"QUEUED": len(GRID)}
    assert ann.post("/api/v1/sweeps/swabcdefghi/stop").status_code == 404


def test_sweeps_are_listed_newest_first_a_page_at_a_time_and_filtered(console: ConsoleUnderTest) -> None:
    ann, bob = console.client(console.add_user("ann")), console.client(console.add_user("bob"))
    made = [sweep(console, ann, build_sweep(name=f"s{number}"))["sweep"] for number in range(3)]
    sweep(console, bob)
    page = ann.get("/api/v1/sweeps", params={"user": "ann", "limit": 2}).json()
    assert [one["id"] for one in page["items"]] == [made[2], made[1]]
    rest = ann.get("/api/v1/sweeps", params={"user": "ann", "limit": 2, "cursor": page["next"]}).json()
    assert ([one["id"] for one in rest["items"]], rest["next"]) == ([made[0]], None)
    assert ann.get("/api/v1/sweeps", params={"project": "none"}).json()["items"] == []
    assert ann.get("/api/v1/sweeps", params={"cursor": "x"}).status_code == 422
    (newest, *_) = page["items"]
    assert (newest["name"], newest["experiment"], newest["keys"], newest["size"]) == (
        "s2",
        "first",
        ["lr", "layers"],
        4,
    )


def test_the_list_of_jobs_is_filtered_by_sweep(console: ConsoleUnderTest) -> None:
    client = console.client(console.add_user("ann"))
    told = sweep(console, client)
    sweep(console, client)
    found = client.get("/api/v1/jobs", params={"sweep": told["sweep"]}).json()["items"]
    assert {one["id"] for one in found} == {one["job"] for one in told["jobs"]}
    assert client.get("/api/v1/job-counts", params={"sweep": told["sweep"]}).json()["active"] == len(GRID)


def test_a_sweep_goes_with_the_last_of_its_jobs(console: ConsoleUnderTest) -> None:
    client = console.client(console.add_user("ann"))
    told = sweep(console, client)
    client.post(f"/api/v1/sweeps/{told['sweep']}/stop")
    jobs = [one["job"] for one in told["jobs"]]
    random.shuffle(jobs)
    for left, job in enumerate(reversed(jobs)):
        assert client.get(f"/api/v1/sweeps/{told['sweep']}").json()["sweep"]["states"] == {"STOPPED": len(jobs) - left}
        assert client.delete(f"/api/v1/jobs/{job}").status_code == 204
    assert client.get(f"/api/v1/sweeps/{told['sweep']}").status_code == 404

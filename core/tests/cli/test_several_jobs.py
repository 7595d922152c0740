"""`sf job pause`, `resume`, `retry` and `stop` of several jobs: a result for each, and an exit code for refusals."""

import pytest

from core.tests.cli.conftest import Sf
from core.tests.client.server import ConsoleState

pytestmark = pytest.mark.usefixtures("server", "project")


def submit(sf: Sf, count: int) -> list[str]:
    return [sf("submit", "first", "--profile", "cpu").out.strip() for _ in range(count)]


def test_several_jobs_are_paused_and_go_on_with_a_line_each(sf: Sf, state: ConsoleState) -> None:
    first, second = submit(sf, 2)
    paused = sf("job", "pause", first, second, first)
    assert (paused.code, paused.out.count("pausing")) == (0, 2)
    assert {state.jobs[job].view.desired for job in (first, second)} == {"pause"}
    resumed = sf("job", "resume", first, second, "--json")
    assert resumed.code == 0
    assert [(one["id"], one["job"]["desired"], one["error"]) for one in resumed.json["jobs"]] == [
        (first, "run", None),
        (second, "run", None),
    ]


@pytest.mark.parametrize("more", [[], ["--json"]], ids=str)
def test_one_that_is_refused_keeps_no_other_from_its_pause(sf: Sf, state: ConsoleState, more: list[str]) -> None:
    risky, safe = submit(sf, 2)
    state.at_risk.add(risky)
    done = sf("job", "pause", "no-such", risky, safe, *more)
    assert done.code == 1
    assert state.jobs[safe].view.desired == "pause"
    assert state.jobs[risky].view.desired == "run"
    if more:
        told = {one["id"]: (one["job"] is not None, (one["error"] or {}).get("code")) for one in done.json["jobs"]}
        assert told == {"no-such": (False, "not_found"), risky: (False, "progress_at_risk"), safe: (True, None)}
    else:
        assert f"pausing {safe}" in done.out
        assert "12 min would be lost" in done.err
        assert "no-such" in done.err


def test_several_jobs_are_stopped_and_those_that_ended_stay_as_they_are(sf: Sf, state: ConsoleState) -> None:
    ended, living = submit(sf, 2)
    state.move(ended, "SUCCEEDED", "exited_zero")
    done = sf("job", "stop", ended, living)
    assert done.code == 0
    assert f"{ended} ended already" in done.out
    assert f"stopping {living}" in done.out
    assert [seen.path for seen in state.seen if seen.path.endswith("/stop")] == [f"/jobs/{living}/stop"]


def test_several_jobs_are_tried_again_and_one_that_is_refused_keeps_no_other(sf: Sf, state: ConsoleState) -> None:
    failed, stopped = submit(sf, 2)
    state.move(failed, "FAILED", "exited_nonzero")
    state.move(stopped, "STOPPED", "stop_confirmed")
    done = sf("job", "retry", failed, "no-such", stopped, "--json")
    assert done.code == 1
    assert [(one["id"], (one["job"] or {}).get("state")) for one in done.json["jobs"]] == [
        (failed, "QUEUED"),
        ("no-such", None),
        (stopped, "QUEUED"),
    ]


def test_a_single_job_is_answered_as_ever(sf: Sf) -> None:
    (job,) = submit(sf, 1)
    assert sf("job", "stop", job, "--json").json["job"]["id"] == job
    refused = sf("job", "stop", "no-such", "--json")
    assert (refused.code, refused.json["error"]["code"]) == (1, "not_found")


def test_without_a_job_the_command_says_how_it_is_written(sf: Sf) -> None:
    refused = sf("job", "pause")
    assert refused.code == 2
    assert "JOB" in refused.err

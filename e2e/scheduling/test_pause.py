"""Real jobs are paused and go on: by their user, with a machine that is drained, and for maintenance."""

import json

import pytest

from e2e.scheduling.training import TRAIN, ask, begun_at, checkpoints
from e2e.support.console import wait_for
from e2e.support.farm import Farm
from e2e.support.work import UNTIL_TOLD, Work

pytestmark = [pytest.mark.engine, pytest.mark.timeout(400)]

LIMIT_S = 90.0


def wait_checkpoint(work: Work, job: str) -> None:
    wait_for(lambda: checkpoints(work, job), f"job {job} to commit a checkpoint", LIMIT_S)


def wait_begun(work: Work, job: str, times: int) -> None:
    wait_for(lambda: len(begun_at(work, job)) == times, f"attempt {times} of job {job} to begin", LIMIT_S)


def running(work: Work) -> str:
    job = work.submit(TRAIN, 8)
    work.wait_started(job, limit_s=LIMIT_S)
    wait_checkpoint(work, job)
    return job


def test_a_paused_training_gives_its_gpus_to_another_and_goes_on_from_its_checkpoint(work: Work, fleet: Farm) -> None:
    other_machine = fleet.machines[1].name
    work.order(other_machine, "drain")
    job = running(work)
    waiting = work.submit("true", 8)
    ask(work, job, "pause", note="until noon")
    work.probe.wait_state(job, "PAUSED", limit_s=LIMIT_S)
    newest = checkpoints(work, job)[-1]
    assert work.wait_end(waiting, LIMIT_S)["job"]["state"] == "SUCCEEDED"
    ask(work, job, "resume")
    work.wait_started(job, 2, LIMIT_S)
    wait_begun(work, job, 2)
    assert begun_at(work, job) == [0, newest]
    work.tell(job)
    detail = work.wait_end(job, LIMIT_S)
    assert (detail["job"]["state"], detail["job"]["attempt"]) == ("SUCCEEDED", 2)
    assert work.probe.reasons(job)[3:6] == ["started", "pause_confirmed", "resumed"]
    work.order(other_machine, "undrain")


def test_a_job_without_a_checkpoint_is_only_paused_with_yes_and_begins_anew(work: Work) -> None:
    job = work.submit(UNTIL_TOLD)
    work.wait_started(job, limit_s=LIMIT_S)
    sf = work.console.sf
    refused = sf("job", "pause", job, "--json", may_fail=True)
    assert json.loads(refused.stdout)["error"]["code"] == "progress_at_risk"
    assert "no checkpoint so far" in refused.stderr + refused.stdout
    sf("job", "pause", job, "--yes", "--grace", "1")
    work.probe.wait_state(job, "PAUSED", limit_s=LIMIT_S)
    assert "QUEUED" in sf("job", "resume", job).stdout
    work.wait_started(job, 2, LIMIT_S)
    work.tell(job)
    assert work.wait_end(job, LIMIT_S)["job"]["state"] == "SUCCEEDED"


def test_a_drain_with_pause_moves_what_runs_to_the_other_machine(work: Work, fleet: Farm) -> None:
    job = running(work)
    there = work.node_of(job)
    elsewhere = next(machine.name for machine in fleet.machines if machine.name != there)
    told = work.console.sf("node", "drain", there, "--pause", "--why", "a fan", "--json")
    assert json.loads(told.stdout)["jobs"] == [job]
    work.wait_started(job, 2, LIMIT_S)
    wait_begun(work, job, 2)
    assert work.node_of(job) == elsewhere
    assert begun_at(work, job)[1] > 1
    assert work.probe.reasons(job)[4:6] == ["drained", "resumed"]
    work.order(there, "undrain")
    work.tell(job)
    assert work.wait_end(job, LIMIT_S)["job"]["state"] == "SUCCEEDED"


def test_a_training_moves_there_and_back_while_one_machine_after_the_other_is_mended(work: Work, fleet: Farm) -> None:
    job = running(work)
    begun = [work.node_of(job)]
    for times in (2, 3):
        there = begun[-1]
        work.console.sf("node", "drain", there, "--pause", "--why", "a new kernel")
        wait_begun(work, job, times)
        work.wait_started(job, times, LIMIT_S)
        begun.append(work.node_of(job))
        work.order(there, "undrain")
    assert begun == [begun[0], *(one.name for one in fleet.machines if one.name != begun[0]), begun[0]]
    first, second, third = begun_at(work, job)
    assert first < second < third, "it has lost nothing on its way"
    kept = checkpoints(work, job)
    assert {second, third} <= set(kept)
    work.tell(job)
    assert work.wait_end(job, LIMIT_S)["job"]["state"] == "SUCCEEDED"


def test_maintenance_empties_the_machines_survives_a_restart_and_fills_them_again(work: Work) -> None:
    mine, theirs = running(work), running(work)
    ask(work, mine, "pause")
    work.probe.wait_state(mine, "PAUSED", limit_s=LIMIT_S)
    sf = work.console.sf
    sf("admin", "maintenance", "drain", "--reason", "new disks")
    work.probe.wait_state(theirs, "PAUSED", limit_s=LIMIT_S)
    waiting = work.submit("true")
    work.console.restart()
    work.wait_note(waiting, "new disks", LIMIT_S)
    status = json.loads(sf("admin", "maintenance", "status", "--json").stdout)
    assert (status["running"], status["paused"], status["queued"]) == (0, 1, 1)
    assert work.probe.state(theirs) == "PAUSED"
    sf("admin", "maintenance", "resume")
    work.wait_started(theirs, 2, LIMIT_S)
    assert work.wait_end(waiting, LIMIT_S)["job"]["state"] == "SUCCEEDED"
    assert work.probe.state(mine) == "PAUSED"
    for job in (theirs, mine):
        if job == mine:
            ask(work, job, "resume")
            work.wait_started(job, 2, LIMIT_S)
        work.tell(job)
        assert work.wait_end(job, LIMIT_S)["job"]["state"] == "SUCCEEDED"

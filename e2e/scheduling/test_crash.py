"""An engine crashes under a training: it goes on in a new attempt from its checkpoint, and no GPU is given twice."""

import pytest

from e2e.scheduling.training import TRAIN, begun_at, checkpoints
from e2e.support.console import wait_for
from e2e.support.farm import Farm
from e2e.support.invariants import watching
from e2e.support.work import Work

pytestmark = [pytest.mark.engine, pytest.mark.timeout(400)]

LIMIT_S = 90.0
GPUS = 8
"""All that a machine has."""


def test_a_training_goes_on_from_its_checkpoint_after_its_engine_crashed(work: Work, fleet: Farm) -> None:
    first = fleet.machines[0]
    with watching(fleet) as watch, work.only(first):
        job = work.submit(TRAIN, GPUS)
        work.wait_started(job, limit_s=LIMIT_S)
        wait_for(lambda: checkpoints(work, job), "a checkpoint", LIMIT_S)
        waiting = work.submit("true", GPUS)

        first.engine.kill()
        work.wait_note(job, f"waiting for {first.name}", LIMIT_S)
        assert (work.probe.state(job), len(work.starts(job))) == ("RUNNING", 1), "not knowing changes nothing"
        assert work.probe.state(waiting) == "QUEUED"

        first.engine.start()
        work.wait_reason(job, "interrupted", LIMIT_S)
        wait_for(lambda: len(begun_at(work, job)) == 2, "the second attempt to begin", LIMIT_S)
        work.wait_started(job, 2, LIMIT_S)
        begun, kept = begun_at(work, job), checkpoints(work, job)
        assert begun[0] == 0
        assert begun[1] == max(step for step in kept if step <= begun[1]) >= kept[0]
        work.tell(job)
        detail = work.wait_end(job, LIMIT_S)
        assert work.wait_end(waiting, LIMIT_S)["job"]["state"] == "SUCCEEDED"
    assert (detail["job"]["state"], len(detail["attempts"])) == ("SUCCEEDED", 2)
    assert [one["costs_retry"] for one in detail["attempts"]] == [False, False], "its user has not paid for it"
    assert (watch.faults, watch.busiest) == ([], GPUS)

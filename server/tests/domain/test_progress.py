"""What a job would lose by a pause."""

import pytest

from starforge_console.domain.progress import Cause, Loss, Work, build_work, find_loss

RAN = Work(ran_s=720.0, checkpoints=0, runs_now=True)


@pytest.mark.parametrize(
    ("work", "writes", "resumes", "lost"),
    [
        (RAN, True, True, Cause.NO_CHECKPOINT_YET),
        (RAN, False, True, Cause.WRITES_NONE),
        (RAN, True, False, Cause.NEVER_RESUMES),
        (Work(ran_s=720.0, checkpoints=1, runs_now=True), True, True, None),
        (Work(ran_s=720.0, checkpoints=1, runs_now=True), True, False, Cause.NEVER_RESUMES),
        (Work(ran_s=720.0, checkpoints=0, runs_now=False), True, True, None),
        (Work(ran_s=720.0, checkpoints=0, runs_now=False), True, False, None),
    ],
)
def test_only_what_runs_and_keeps_nothing_loses_its_work(
    work: Work, *, writes: bool, resumes: bool, lost: Cause | None
) -> None:
    found = find_loss(work, writes_checkpoints=writes, resumes=resumes)
    assert found == (None if lost is None else Loss(work_s=720.0, cause=lost))


def test_the_work_of_a_job_is_that_of_all_its_attempts() -> None:
    spans = [(10.0, 40.0), (None, 50.0), (60.0, None)]
    assert build_work(spans, 2, 100.0) == Work(ran_s=70.0, checkpoints=2, runs_now=True)
    assert build_work(spans[:2], 0, 100.0).runs_now is False


def test_a_clock_that_was_set_back_makes_no_work_negative() -> None:
    assert build_work([(60.0, None)], 0, 10.0).ran_s == 0.0


def test_a_loss_says_why_and_how_much() -> None:
    told = Loss(work_s=720.0, cause=Cause.WRITES_NONE).said
    assert told.startswith("its method writes no checkpoints: ")
    assert "12 min of work would be lost" in told

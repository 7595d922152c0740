"""What may go of ended jobs: nothing that anybody may still need, and everything else once its time is over."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from starforge.contract.states import ENDED, JobState
from starforge_console.domain.retention import (
    AttemptFacts,
    Better,
    CheckpointFacts,
    FileFacts,
    JobFacts,
    Kind,
    Removal,
    Terms,
    decide_files,
    decide_job,
    find_best,
    find_hold,
    find_values,
)

DAY = 86_400.0
TERMS = Terms()


def checkpoint(step: int, *, committed: bool = True, value: float | None = None) -> CheckpointFacts:
    return CheckpointFacts(path=f"step-{step}", step=step, committed=committed, value=value)


def attempt(number: int = 1, **facts: object) -> AttemptFacts:
    told = {"is_read": True, "is_clean": True, "has_work": True, "has_log": True, **facts}
    return AttemptFacts(id=f"ja-{number}-x", number=number, **told)  # type: ignore[arg-type]  # a test's own words


def job(*attempts: AttemptFacts, **facts: object) -> JobFacts:
    told = {"state": JobState.SUCCEEDED, "reason": "exited_zero", "retry_at": None, "ended_at": 0.0, **facts}
    return JobFacts(**{"id": "ja", "is_parent": False, "attempts": attempts or (attempt(),), **told})  # type: ignore[arg-type]  # the same


def kinds(found: object) -> list[tuple[Kind, str]]:
    return [(one.kind, one.name) for one in found]  # type: ignore[attr-defined]  # a sequence of removals


def gone(*attempts: AttemptFacts, better: Better | None = None) -> list[tuple[int, str]]:
    found = decide_job(job(*attempts), replace(TERMS, work_s=1e9, log_s=1e9), 30 * DAY, better)
    return [(one.number, one.name) for one in found]


def test_the_work_of_an_ended_job_goes_after_a_week_and_its_log_after_ninety_days() -> None:
    assert decide_job(job(), TERMS, 7 * DAY - 1) == ()
    assert kinds(decide_job(job(), TERMS, 7 * DAY)) == [(Kind.WORK, "")]
    assert kinds(decide_job(job(), TERMS, 90 * DAY)) == [(Kind.WORK, ""), (Kind.LOG, "")]


def test_each_removal_says_why() -> None:
    (work,) = decide_job(job(), TERMS, 8 * DAY)
    assert work.why == "its job ended 8 d ago"


@pytest.mark.parametrize(
    "facts",
    [
        {"state": JobState.RUNNING, "ended_at": None},
        {"state": JobState.QUEUED, "ended_at": None},
        {"state": JobState.PAUSED, "ended_at": None},
        {"state": JobState.FAILED, "retry_at": 5.0},
        {"state": JobState.STOPPED, "reason": "window_closed"},
        {"is_parent": True},
    ],
)
def test_nothing_goes_of_a_job_that_runs_goes_on_or_is_started_from(facts: dict[str, object]) -> None:
    many = attempt(checkpoints=tuple(map(checkpoint, range(10))))
    assert decide_job(job(many, **facts), TERMS, 1000 * DAY) == ()


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"state": JobState.FAILED, "reason": "node_lost", "retry_at": 5.0}, "it is FAILED and will be retried"),
        (
            {"state": JobState.STOPPED, "reason": "window_closed", "retry_at": 5.0},
            "it is STOPPED and goes on by itself",
        ),
        ({"state": JobState.RUNNING, "ended_at": None}, "it is RUNNING"),
    ],
)
def test_what_holds_a_job_is_said_as_it_is(facts: dict[str, object], why: str) -> None:
    assert find_hold(job(**facts)) == why


def test_nothing_goes_of_an_attempt_whose_spool_was_not_read_to_its_end() -> None:
    assert decide_job(job(attempt(is_read=False, is_clean=False)), TERMS, 1000 * DAY) == ()


def test_of_an_attempt_whose_container_is_there_still_only_the_container_goes() -> None:
    held = attempt(is_clean=False, checkpoints=tuple(map(checkpoint, range(10))))
    assert kinds(decide_job(job(held), TERMS, 1000 * DAY)) == [(Kind.CONTAINER, "")]


def test_the_last_three_checkpoints_stay() -> None:
    assert gone(attempt(checkpoints=tuple(map(checkpoint, (10, 20, 30, 40, 50))))) == [(1, "step-20"), (1, "step-10")]


def test_a_job_with_three_checkpoints_keeps_them_all() -> None:
    assert gone(attempt(checkpoints=tuple(map(checkpoint, (10, 20, 30))))) == []


def test_the_best_checkpoint_stays_too() -> None:
    found = attempt(checkpoints=tuple(checkpoint(step, value=abs(step - 20.0)) for step in (10, 20, 30, 40, 50)))
    assert gone(found, better="lower") == [(1, "step-10")]
    assert gone(found, better="higher") == [(1, "step-20"), (1, "step-10")]


def test_the_newest_attempt_comes_first_as_it_does_for_a_resume() -> None:
    older = attempt(1, checkpoints=(checkpoint(300), checkpoint(400)))
    newer = attempt(2, checkpoints=(checkpoint(10), checkpoint(20)))
    assert gone(older, newer) == [(1, "step-300")]


def test_what_is_not_committed_goes_only_where_enough_newer_ones_are_committed() -> None:
    rest = (checkpoint(5, committed=False), checkpoint(60, committed=False))
    whole = tuple(map(checkpoint, (10, 20, 30)))
    assert gone(attempt(checkpoints=(*rest, *whole))) == [(1, "step-5")]
    assert gone(attempt(checkpoints=(*rest, *whole[:2]))) == []


def test_a_folder_that_holds_a_kept_checkpoint_stays() -> None:
    outer = CheckpointFacts(path="a", step=1, committed=True)
    inner = [CheckpointFacts(path=f"a/{step}", step=step, committed=True) for step in (2, 3, 4)]
    whole = CheckpointFacts(path="", step=0, committed=True)
    assert gone(attempt(checkpoints=(outer, whole, *inner))) == []


def test_checkpoints_stay_for_a_week_all_of_them() -> None:
    many = attempt(has_work=False, checkpoints=tuple(map(checkpoint, range(9))))
    assert decide_job(job(many), TERMS, 7 * DAY - 1) == ()
    assert len(decide_job(job(many), TERMS, 7 * DAY)) == 6


def test_a_blob_goes_when_nothing_refers_to_it_and_nobody_used_it_for_its_time() -> None:
    old, fresh = (
        FileFacts(name=name, bytes=1, used_at=at, is_referenced=False) for name, at in (("o", 0.0), ("f", 9.0))
    )
    held = replace(old, name="h", is_referenced=True)
    assert [one.name for one in decide_files(Kind.BLOB, [old, fresh, held], 10.0, 10.0)] == ["o"]


def test_the_value_of_a_checkpoint_is_that_of_the_last_point_at_or_before_its_step() -> None:
    assert find_values([1, 5, 9], [2, 4, 6, 9], [0.5, 0.4, "nan", 0.2]) == {5: 0.4, 9: 0.2}


@pytest.mark.parametrize("diverged", ["nan", "inf", float("nan"), float("inf")])
def test_a_checkpoint_at_which_the_training_had_diverged_has_no_value(diverged: float | str) -> None:
    assert find_values([7], [2, 6], [0.5, diverged]) == {}


def test_without_a_value_or_a_direction_there_is_no_best() -> None:
    assert find_best([checkpoint(1)], "lower") is None
    assert find_best([checkpoint(1, value=1.0)], None) is None


CHECKPOINTS = st.builds(
    CheckpointFacts,
    path=st.sampled_from(["", "a", "a/b", "a/b/c", "b", "c-1", "c-2", "c-3", "c-4", "d", "e", "f/g"]),
    step=st.integers(0, 6),
    committed=st.booleans(),
    value=st.none() | st.floats(-2, 2),
)
ATTEMPTS = st.builds(
    AttemptFacts,
    id=st.just("x"),
    number=st.just(0),
    is_read=st.booleans(),
    is_clean=st.booleans(),
    has_work=st.booleans(),
    has_log=st.booleans(),
    checkpoints=st.lists(CHECKPOINTS, max_size=8, unique_by=lambda one: one.path).map(tuple),
)
JOBS = st.builds(
    JobFacts,
    id=st.just("j"),
    state=st.sampled_from(list(JobState)),
    reason=st.sampled_from(["exited_zero", "window_closed", "stop_confirmed"]),
    retry_at=st.none() | st.just(1.0),
    ended_at=st.none() | st.just(0.0),
    is_parent=st.booleans(),
    attempts=st.lists(ATTEMPTS, max_size=4).map(
        lambda some: tuple(replace(one, id=f"a{number}", number=number) for number, one in enumerate(some, 1))
    ),
)


def survivors(job: JobFacts, found: list[Removal]) -> list[tuple[int, CheckpointFacts]]:
    """The checkpoints that are there when what was found has gone, with whatever lay below it."""
    away = [(one.number, one.name) for one in found if one.kind is Kind.CHECKPOINT]
    return [
        (attempt.number, one)
        for attempt in job.attempts
        for one in attempt.checkpoints
        if not any(number == attempt.number and f"{one.path}/".startswith(f"{name}/") for number, name in away)
    ]


def resume_order(job: JobFacts) -> list[tuple[int, CheckpointFacts]]:
    every = [(attempt.number, one) for attempt in job.attempts for one in attempt.checkpoints if one.committed]
    return sorted(every, key=lambda pair: (-pair[0], -pair[1].step, pair[1].path))


@given(
    job=JOBS,
    kept=st.integers(1, 4),
    ago=st.floats(0, 200 * DAY),
    better=st.none() | st.sampled_from(["lower", "higher"]),
)
def test_nothing_that_anybody_may_need_ever_goes(job: JobFacts, kept: int, ago: float, better: Better | None) -> None:
    found = list(decide_job(job, replace(TERMS, checkpoints_kept=kept), ago, better))
    if (
        job.state not in ENDED
        or job.retry_at is not None
        or job.is_parent
        or (job.reason == "window_closed" and (job.state is JobState.STOPPED))
    ):
        assert found == []
        return
    left, order = survivors(job, found), resume_order(job)
    assert all(pair in left for pair in order[:kept])
    best = find_best([one for _, one in order], better)
    assert best is None or any(one is best for _, one in left)
    if len(order) < kept:
        assert len(left) == sum(len(attempt.checkpoints) for attempt in job.attempts)
    for one in found:
        (of,) = [attempt for attempt in job.attempts if attempt.id == one.attempt]
        assert of.is_read
        assert of.is_clean or one.kind is Kind.CONTAINER


@given(job=JOBS, ago=st.floats(0, 200 * DAY))
def test_when_it_has_gone_nothing_more_goes(job: JobFacts, ago: float) -> None:
    found = list(decide_job(job, TERMS, ago, "lower"))
    left = survivors(job, found)
    after = replace(
        job,
        attempts=tuple(
            replace(
                attempt,
                has_work=attempt.has_work and (Kind.WORK, attempt.id) not in {(one.kind, one.attempt) for one in found},
                has_log=attempt.has_log and (Kind.LOG, attempt.id) not in {(one.kind, one.attempt) for one in found},
                is_clean=attempt.is_clean,
                checkpoints=tuple(one for number, one in left if number == attempt.number),
            )
            for attempt in job.attempts
        ),
    )
    again = [one for one in decide_job(after, TERMS, ago, "lower") if one.kind is not Kind.CONTAINER]
    assert again == []

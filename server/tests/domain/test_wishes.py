"""What a wish does to a job, case by case."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from starforge.contract.states import HOLDS_A_PLACE, TRANSITIONS, DesiredState, JobState, Reason, advance
from starforge_console.domain.wishes import (
    Answer,
    Ask,
    AtOnce,
    GoOnAfter,
    Nothing,
    Refuse,
    Standing,
    StayAsItIs,
    Wish,
    confirmed_end,
    decide_resume,
    decide_retry_by_user,
    decide_wish,
    fenced_end,
)

S, D, R = JobState, DesiredState, Reason
STOP, PAUSE = Wish(desired=D.STOP), Wish(desired=D.PAUSE)
DRAIN = Wish(desired=D.PAUSE, wished_for=R.DRAINED, goes_on=True)
CLOSE = Wish(desired=D.STOP, wished_for=R.WINDOW_CLOSED, goes_on=True)

RUNS = Standing(state=S.RUNNING, desired=D.RUN)
PAUSING = Standing(state=S.RUNNING, desired=D.PAUSE)
PAUSING_THEN_ON = Standing(state=S.RUNNING, desired=D.PAUSE, goes_on=True)
STOPPING = Standing(state=S.RUNNING, desired=D.STOP)
DRAINING = Standing(state=S.RUNNING, desired=D.PAUSE, wished_for=R.DRAINED, goes_on=True)
CLOSING = Standing(state=S.RUNNING, desired=D.STOP, wished_for=R.WINDOW_CLOSED, goes_on=True)
CLOSING_FOR_GOOD = Standing(state=S.RUNNING, desired=D.STOP, wished_for=R.WINDOW_CLOSED)
QUEUED = Standing(state=S.QUEUED, desired=D.RUN)
PAUSED = Standing(state=S.PAUSED, desired=D.PAUSE)
DRAINED = Standing(state=S.PAUSED, desired=D.PAUSE, wished_for=R.DRAINED, goes_on=True)
STOPPED = Standing(state=S.STOPPED, desired=D.STOP)
CLOSED = Standing(state=S.STOPPED, desired=D.STOP, wished_for=R.WINDOW_CLOSED, goes_on=True, will_retry=True)
FAILED = Standing(state=S.FAILED, desired=D.RUN)
RETRYING = Standing(state=S.FAILED, desired=D.RUN, will_retry=True)
SUCCEEDED = Standing(state=S.SUCCEEDED, desired=D.RUN)
_LIVING = (RUNS, PAUSING, PAUSING_THEN_ON, STOPPING, DRAINING, CLOSING, CLOSING_FOR_GOOD)
ALL = (*_LIVING, QUEUED, PAUSED, DRAINED, STOPPED, CLOSED, FAILED, RETRYING, SUCCEEDED)


@pytest.mark.parametrize(
    ("job", "stop", "pause", "resume", "retry"),
    [
        (RUNS, Ask(), Ask(), Nothing(), Refuse),
        (PAUSING, Ask(), Nothing(), GoOnAfter(), Refuse),
        (PAUSING_THEN_ON, Ask(), Ask(), Nothing(), Refuse),
        (STOPPING, Nothing(), Refuse, Refuse, Refuse),
        (DRAINING, Ask(), Ask(), Nothing(), Refuse),
        (CLOSING, Ask(), Ask(), Nothing(), Refuse),
        (CLOSING_FOR_GOOD, Ask(), Ask(), GoOnAfter(), Refuse),
        (QUEUED, AtOnce((R.STOP_REQUESTED,)), AtOnce((R.PAUSE_REQUESTED,)), Nothing(), Refuse),
        (PAUSED, AtOnce((R.STOP_REQUESTED,)), Nothing(), AtOnce((R.RESUMED,)), Refuse),
        (DRAINED, AtOnce((R.STOP_REQUESTED,)), StayAsItIs(), AtOnce((R.RESUMED,)), Refuse),
        (STOPPED, Nothing(), Refuse, Refuse, AtOnce((R.CONTINUED,))),
        (CLOSED, StayAsItIs(), Refuse, Refuse, AtOnce((R.CONTINUED,))),
        (FAILED, Nothing(), Refuse, Refuse, AtOnce((R.RETRIED_BY_USER,))),
        (RETRYING, StayAsItIs(), AtOnce((R.RETRIED, R.PAUSE_REQUESTED)), Nothing(), AtOnce((R.RETRIED_BY_USER,))),
        (SUCCEEDED, Nothing(), Refuse, Refuse, Refuse),
    ],
)
def test_a_users_wish_does_what_the_table_says(
    job: Standing,
    stop: Answer | type[Refuse],
    pause: Answer | type[Refuse],
    resume: Answer | type[Refuse],
    retry: Answer | type[Refuse],
) -> None:
    answers = (decide_wish(job, STOP), decide_wish(job, PAUSE), decide_resume(job), decide_retry_by_user(job))
    for answer, wanted in zip(answers, (stop, pause, resume, retry), strict=True):
        assert isinstance(answer, Refuse) if wanted is Refuse else answer == wanted


@pytest.mark.parametrize("wish", [DRAIN, CLOSE])
@pytest.mark.parametrize("job", ALL)
def test_the_platform_asks_only_what_runs_undisturbed(job: Standing, wish: Wish) -> None:
    assert decide_wish(job, wish) == (Ask() if job is RUNS else Nothing())


standings = st.builds(
    Standing,
    state=st.sampled_from(JobState),
    desired=st.sampled_from(DesiredState),
    wished_for=st.sampled_from([None, R.DRAINED, R.WINDOW_CLOSED]),
    goes_on=st.booleans(),
    will_retry=st.booleans(),
)


@given(job=standings, wish=st.sampled_from([STOP, PAUSE, DRAIN, CLOSE]))
def test_whatever_is_done_at_once_is_in_the_table_and_never_to_a_living_attempt(job: Standing, wish: Wish) -> None:
    for answer in (decide_wish(job, wish), decide_resume(job), decide_retry_by_user(job)):
        if isinstance(answer, AtOnce):
            assert job.state not in HOLDS_A_PLACE
            state = job.state
            for reason in answer.reasons:
                state = advance(state, reason)
        if isinstance(answer, Ask | GoOnAfter):
            assert job.state in HOLDS_A_PLACE


@given(job=standings, wish=st.sampled_from([PAUSE, DRAIN, CLOSE]))
def test_nothing_changes_a_stop_that_a_user_wished_of_a_living_attempt(job: Standing, wish: Wish) -> None:
    stopping = dataclasses.replace(job, state=S.RUNNING, desired=D.STOP, wished_for=None, will_retry=False)
    assert isinstance(decide_wish(stopping, wish), Nothing | Refuse)
    assert isinstance(decide_resume(stopping), Nothing | Refuse)


@given(desired=st.sampled_from([D.STOP, D.PAUSE]), platform=st.booleans(), state=st.sampled_from(sorted(HOLDS_A_PLACE)))
def test_every_wish_has_an_end_that_the_table_knows(desired: DesiredState, *, platform: bool, state: JobState) -> None:
    wished_for = {D.STOP: R.WINDOW_CLOSED, D.PAUSE: R.DRAINED}[desired] if platform else None
    end = fenced_end if state is S.SUBMITTED else confirmed_end
    after = TRANSITIONS[state, end(desired, wished_for)]
    if state is S.SUBMITTED and platform:
        assert after is S.QUEUED
    else:
        assert after is (S.STOPPED if desired is D.STOP else S.PAUSED)

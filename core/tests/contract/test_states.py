"""The transition table is the specification."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from starforge.contract.states import ENDED, HOLDS_A_PLACE, TRANSITIONS, JobState, Reason, advance
from starforge.errors import IllegalTransition


def test_every_edge_of_the_table_is_taken_by_advance() -> None:
    for (state, reason), to in TRANSITIONS.items():
        assert advance(state, reason) is to


@given(state=st.none() | st.sampled_from(JobState), reason=st.sampled_from(Reason))
def test_what_the_table_does_not_hold_is_refused(state: JobState | None, reason: Reason) -> None:
    if (state, reason) in TRANSITIONS:
        return
    with pytest.raises(IllegalTransition, match="history: a > b"):
        advance(state, reason, ["a", "b"])


def test_success_is_final() -> None:
    assert not [edge for edge in TRANSITIONS if edge[0] is JobState.SUCCEEDED]


def test_every_state_is_reached_from_the_start() -> None:
    reached: set[JobState | None] = {None}
    while True:
        more = {to for (state, _), to in TRANSITIONS.items() if state in reached} - reached
        if not more:
            break
        reached |= more
    assert reached == {None, *JobState}


def test_success_is_only_entered_from_running() -> None:
    assert {state for (state, _), to in TRANSITIONS.items() if to is JobState.SUCCEEDED} == {JobState.RUNNING}


def test_failed_and_stopped_change_only_to_queued() -> None:
    for state in (JobState.FAILED, JobState.STOPPED):
        assert {to for (before, _), to in TRANSITIONS.items() if before is state} == {JobState.QUEUED}


def test_nothing_that_holds_a_place_has_ended() -> None:
    assert not HOLDS_A_PLACE & ENDED


def test_every_reason_stands_in_the_table() -> None:
    assert {reason for _, reason in TRANSITIONS} == set(Reason)

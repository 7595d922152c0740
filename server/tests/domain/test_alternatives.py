"""What would start a job now: every answer is true of the next pass, and the best of each kind is named."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.tests.domain.fleet_model import FLEET, Fleet, build_node, job_id, pools_of, queued
from starforge_console.domain.alternatives import Change, find_alternatives
from starforge_console.domain.job import QueuedJob
from starforge_console.domain.quota import Holder, Limit, Member, Quotas, Usage
from starforge_console.domain.schedule import Snapshot, Start, decide_queue

LONG = 1_000_000.0
SERIES = st.sampled_from([None, "h200", "l40s"])
SHAPES = st.lists(st.tuples(st.integers(1, 8), SERIES, st.integers(0, 1)), max_size=12)


def busy_fleet(*jobs: tuple[int, str | None, int]) -> Fleet:
    """Two machines of two series on which these jobs run or wait."""
    fleet = Fleet.of(build_node("a", 8), build_node("b", 4, "l40s"))
    for number, (gpus, series, user) in enumerate(jobs):
        job = queued(number, gpus, series, user_id=user)
        fleet.queue[job.id] = job
    fleet.run_pass(lambda _: LONG)
    fleet.now = 100.0
    return fleet


def asked_otherwise(job: QueuedJob, change: Change, value: str) -> QueuedJob:
    """The job as its user would submit it again."""
    pool, wanted = job.pools[0], None if value == "any" else value
    again = queued(500, pool.gpus_per_node, pool.series, user_id=job.user_id, fleet=job.fleet)
    match change:
        case Change.GPUS:
            return again._replace(pools=pools_of(int(value), pool.series))
        case Change.SERIES:
            return again._replace(pools=pools_of(pool.gpus_per_node, wanted))
        case Change.FLEET:
            return again._replace(fleet=value)


def starts(snapshot: Snapshot, job: QueuedJob) -> bool:
    decided = {one.job.id: one for one in decide_queue(snapshot)}
    return isinstance(decided[job.id], Start)


def test_the_most_gpus_that_would_start_it_and_other_series_are_named() -> None:
    fleet = busy_fleet((5, "h200", 0))
    job = queued(9, 4, "h200")
    found = find_alternatives(fleet.snapshot(), job)
    told = [(one.change, one.value, one.target.node) for one in found]
    assert told == [(Change.GPUS, "3", "a"), (Change.SERIES, "any", "b"), (Change.SERIES, "l40s", "b")]


def test_of_the_counts_of_gpus_that_it_may_be_submitted_with_the_largest_is_named() -> None:
    fleet = busy_fleet((5, "h200", 0))
    found = find_alternatives(fleet.snapshot(), queued(9, 4, "h200"), lambda count: 4 % count == 0)
    assert [one.value for one in found if one.change is Change.GPUS] == ["2"]


def test_another_fleet_is_named_where_the_job_names_one() -> None:
    fleet = busy_fleet((8, "h200", 0))
    other = replace(Fleet.of(build_node("z", 8)).view, fleet="spare")
    snapshot = fleet.snapshot()
    both = replace(
        snapshot, views={**snapshot.views, "spare": other}, place={**snapshot.place, "spare": snapshot.place[FLEET]}
    )
    found = find_alternatives(both, queued(9, 8, "h200", fleet=FLEET))
    assert [(one.change, one.value, one.target.node) for one in found] == [(Change.FLEET, "spare", "z")]


def test_nothing_is_named_that_a_quota_would_hold() -> None:
    fleet = busy_fleet((5, "h200", 0))
    members = {1: Member("ann", None)}
    none = Usage(Quotas(limits={Holder("user", "ann"): Limit(gpus=0)}, members=members))
    assert find_alternatives(fleet.snapshot(none), queued(9, 4, "h200", user_id=1)) == []
    few = Usage(Quotas(limits={Holder("user", "ann"): Limit(gpus=2)}, members=members))
    found = find_alternatives(fleet.snapshot(few), queued(9, 4, "h200", user_id=1))
    assert [(one.change, one.value) for one in found] == [(Change.GPUS, "2")]


@pytest.mark.parametrize(("lasts_s", "found"), [(None, []), (60.0, ["spare"])])
def test_a_fleet_that_requires_a_time_limit_is_named_for_a_job_that_has_one_alone(
    lasts_s: float | None, found: list[str]
) -> None:
    fleet = busy_fleet((8, "h200", 0))
    other = replace(Fleet.of(build_node("z", 8)).view, fleet="spare")
    snapshot = fleet.snapshot()
    both = replace(
        snapshot,
        views={**snapshot.views, "spare": other},
        place={**snapshot.place, "spare": snapshot.place[FLEET]},
        releases={"spare": []},
    )
    told = find_alternatives(both, queued(9, 8, "h200", fleet=FLEET, lasts_s=lasts_s))
    assert [one.value for one in told if one.change is Change.FLEET] == found


@settings(deadline=None)
@given(SHAPES, st.integers(1, 20), SERIES, st.integers(0, 1), st.sampled_from([None, FLEET]))
def test_what_is_named_starts_in_the_next_pass_once_it_is_done(
    shapes: list[tuple[int, str | None, int]], gpus: int, series: str | None, user: int, named: str | None
) -> None:
    fleet = busy_fleet(*shapes)
    job = queued(50, gpus, series, user_id=user, fleet=named)
    fleet.queue[job.id] = job
    for one in find_alternatives(fleet.snapshot(), job):
        del fleet.queue[job_id(50)]
        again = asked_otherwise(job, one.change, one.value)
        fleet.queue[again.id] = again
        assert starts(fleet.snapshot(), again)
        del fleet.queue[again.id]
        fleet.queue[job.id] = job

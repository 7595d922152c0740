"""A pass of the queue: order, room that is given once, and jobs that wait for more than others take."""

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.tests.domain.fleet_model import FLEET, Fleet, build_node, drain, job_id, pools_of, queued
from starforge.contract.ids import JobId
from starforge.contract.launch import PoolRequest
from starforge_console.domain.fair_share import Share
from starforge_console.domain.job import QueuedJob
from starforge_console.domain.order import order_queue
from starforge_console.domain.placement import place_on_one_node
from starforge_console.domain.quota import Holder, Limit, Member, Quotas, Usage
from starforge_console.domain.reservation import PASSED_AT_MOST
from starforge_console.domain.schedule import Snapshot, Start, Waits, decide_queue
from starforge_console.domain.waiting import WaitReason

SERIES = st.sampled_from([None, "h200", "l40s"])
JOBS = st.lists(st.tuples(st.integers(1, 8), SERIES, st.integers(1, 50), st.integers(1, 100)), min_size=1, max_size=25)
LONG = 1_000_000.0


def fill(fleet: Fleet, *jobs: QueuedJob) -> None:
    for job in jobs:
        fleet.queue[job.id] = job


def names(starts: list[Start]) -> list[str]:
    return [start.job.id for start in starts]


def decide(fleet: Fleet, **parts: object) -> tuple[list[Start], list[Waits]]:
    decisions = list(decide_queue(replace(fleet.snapshot(), **parts)))  # type: ignore[arg-type]  # fields by name
    return [one for one in decisions if isinstance(one, Start)], [one for one in decisions if isinstance(one, Waits)]


def test_moved_jobs_go_first_then_priority_then_who_had_less_then_age() -> None:
    shares = {1: Share(50.0, 1.0), 2: Share(10.0, 4.0), 3: Share(10.0, 6.0)}
    jobs = [
        queued(0, 1, user_id=1),
        queued(1, 1, user_id=3),
        queued(2, 1, user_id=2),
        queued(3, 1, user_id=2),
        queued(4, 1, user_id=4),
        queued(5, 1, user_id=1, priority=10),
        queued(6, 1, user_id=1, ahead=1),
        queued(7, 1, user_id=4, ahead=-1, priority=10),
    ]
    assert [int(job.submitted_at) for job in order_queue(jobs, shares)] == [6, 5, 4, 2, 3, 1, 0, 7]


def test_who_had_less_of_late_gets_what_is_free() -> None:
    fleet = Fleet.of(build_node("a", 1))
    fill(fleet, queued(0, 1, user_id=1), queued(1, 1, user_id=2))
    assert names(decide(fleet)[0]) == [job_id(0)]
    assert names(decide(fleet, shares={1: Share(9.0, 9.0)})[0]) == [job_id(1)]


def test_a_full_fleet_starts_nothing_and_says_why_for_each_job() -> None:
    fleet = Fleet.of(build_node("a", 2))
    fill(fleet, queued(0, 2), queued(1, 1), queued(2, 1))
    assert names(list(fleet.run_pass(lambda _: LONG))) == [job_id(0)]
    assert fleet.run_pass(lambda _: LONG) == []
    assert {wait.text.split(",")[0] for wait in fleet.waits.values()} == {"a: 0 of 2 GPUs free"}


def test_what_a_job_lacks_of_its_quota_does_not_keep_the_next_ones_back() -> None:
    fleet = Fleet.of(build_node("a", 4))
    fill(fleet, queued(0, 2, user_id=1), queued(1, 1, user_id=2))
    quotas = Quotas(limits={Holder("user", "ann"): Limit(gpus=1)}, members={1: Member("ann", None)})
    starts, waits = decide(fleet, usage=Usage(quotas))
    assert (names(starts), [wait.job.id for wait in waits]) == ([job_id(1)], [job_id(0)])


def test_a_quota_counts_what_starts_in_the_same_pass() -> None:
    fleet = Fleet.of(build_node("a", 8))
    fill(fleet, *(queued(number, 2, user_id=1) for number in range(3)))
    quotas = Quotas(limits={Holder("user", "ann"): Limit(gpus=4)}, members={1: Member("ann", None)})
    usage = Usage(quotas)
    assert len(decide(fleet, usage=usage)[0]) == 2
    assert len(decide(fleet, usage=usage)[0]) == 2, "deciding is no use of what is decided on"


def test_what_holds_a_job_is_told_beside_its_quota() -> None:
    fleet = Fleet.of(build_node("a", 8))
    fill(fleet, queued(0, 2))
    starts, (wait,) = decide(fleet, explain_hold=lambda _: [WaitReason("its model is on its way")])
    assert (starts, wait.text) == ([], "its model is on its way")


def test_a_job_of_one_series_keeps_none_of_another_idle() -> None:
    fleet = Fleet.of(build_node("a", 8), build_node("b", 4, "l40s"))
    fill(fleet, queued(0, 1, "h200"))
    fleet.run_pass(lambda _: LONG)
    fill(fleet, queued(1, 8, "h200", passed=PASSED_AT_MOST), queued(2, 1, "l40s"), queued(3, 1, "h200"), queued(4, 1))
    assert names(list(fleet.run_pass(lambda _: LONG))) == [job_id(2), job_id(4)]
    assert "kept for" in fleet.waits[job_id(3)].text
    assert "takes no other job until this one has started" in fleet.waits[job_id(1)].text


@pytest.mark.parametrize("lasts_s", [50.0, 60.0, 61.0, None])
def test_a_job_starts_before_a_reserved_one_only_if_it_is_over_by_then(lasts_s: float | None) -> None:
    fleet = Fleet.of(build_node("a", 8), limited=True)
    fill(fleet, queued(0, 6, lasts_s=60.0))
    fleet.run_pass(lambda _: 60.0)
    fill(fleet, queued(1, 8, lasts_s=100.0), queued(2, 2, lasts_s=lasts_s))
    starts = fleet.run_pass(lambda _: LONG)
    in_time = lasts_s is not None and lasts_s <= 60.0
    assert names(list(starts)) == ([job_id(2)] if in_time else [])
    assert "f/a: has room for it by 1970-01-01 00:01 UTC at the latest" in fleet.waits[job_id(1)].text
    assert [wait.starts_by for wait in fleet.waits[job_id(1)].reasons][-1] == 60.0
    assert in_time or f"kept for {job_id(1)}" in fleet.waits[job_id(2)].text


def test_all_that_are_over_before_a_reserved_job_starts_may_start_in_one_pass() -> None:
    fleet = Fleet.of(build_node("a", 8), limited=True)
    fill(fleet, queued(0, 5, lasts_s=60.0))
    fleet.run_pass(lambda _: 60.0)
    fill(fleet, queued(1, 8, lasts_s=100.0), *(queued(number, 1, lasts_s=50.0) for number in (2, 3, 4)))
    assert names(list(fleet.run_pass(lambda _: LONG))) == [job_id(2), job_id(3), job_id(4)]


@pytest.mark.parametrize("lasts_s", [1e12, 1e300])
def test_a_time_limit_beyond_every_calendar_ends_no_pass(lasts_s: float) -> None:
    fleet = Fleet.of(build_node("a", 8), limited=True)
    fill(fleet, queued(0, 6, lasts_s=lasts_s))
    fleet.run_pass(lambda _: LONG)
    fill(fleet, queued(1, 8, lasts_s=60.0), queued(2, 2, lasts_s=60.0))
    assert names(list(fleet.run_pass(lambda _: LONG))) == [job_id(2)]
    assert fleet.waits[job_id(1)].text.startswith("a: 2 of 8 GPUs free")


def test_a_job_that_leaves_a_reserved_one_its_room_may_last_longer() -> None:
    fleet = Fleet.of(build_node("a", 8), build_node("b", 2), limited=True)
    fill(fleet, queued(0, 7, lasts_s=60.0))
    fleet.run_pass(lambda _: 60.0)
    fill(fleet, queued(1, 4, lasts_s=100.0), *(queued(number, 1, lasts_s=9e9) for number in range(2, 8)))
    # One beside the first on machine a, for four are left for the reserved job when the first ends; two on machine b.
    assert names(list(fleet.run_pass(lambda _: LONG))) == [job_id(number) for number in (2, 3, 4)]
    assert job_id(1) in fleet.waits


def test_a_job_that_would_delay_a_reserved_one_on_one_machine_starts_on_the_next() -> None:
    fleet = Fleet.of(build_node("a", 2), build_node("b", 1), build_node("c", 1), limited=True)
    fill(fleet, queued(0, 1, lasts_s=60.0))
    fleet.run_pass(lambda _: 60.0)
    late = [queued(number, 1, lasts_s=9e9) for number in (2, 3, 4)]
    fill(fleet, queued(1, 2, lasts_s=60.0), *late)
    assert names(decide(fleet, faulty={late[0].id: {"b"}})[0]) == [job_id(2), job_id(3)]
    assert [start.target.node for start in decide(fleet, faulty={late[0].id: {"b"}})[0]] == ["c", "b"]
    assert [start.target.node for start in decide(fleet, faulty={late[0].id: {"a"}})[0]] == ["b", "c"]


def test_a_job_that_no_end_would_help_keeps_nobody_back() -> None:
    fleet = Fleet.of(build_node("a", 4), build_node("b", 8))
    fleet.view = drain(fleet.view, "b", "drained")
    fill(fleet, queued(0, 8, passed=PASSED_AT_MOST), queued(1, 4))
    assert names(list(fleet.run_pass(lambda _: LONG))) == [job_id(1)]


def test_a_job_is_passed_a_bounded_number_of_times_also_within_one_pass() -> None:
    fleet = Fleet.of(build_node("a", 64))
    fill(fleet, queued(0, 1))
    fleet.run_pass(lambda _: LONG)
    fill(fleet, queued(1, 64), *(queued(number, 1) for number in range(2, 60)))
    assert len(fleet.run_pass(lambda _: LONG)) == PASSED_AT_MOST
    assert fleet.queue[job_id(1)].passed == PASSED_AT_MOST


@pytest.mark.parametrize(("large", "small"), [(8, 0), (0, 1), (0, 0), (8, 1)])
def test_a_job_that_lacks_cpus_alone_is_not_passed_for_ever_whoever_takes_them(large: int, small: int) -> None:
    fleet = Fleet.of(replace(build_node("a", 16), cpus=16.0))
    head, stream = queued(2, large, pools=pools_with_cpus(large, 12.0)), pools_with_cpus(small, 6.0)
    for number in range(2):
        fill(fleet, queued(number, small, pools=stream))
        fleet.run_pass(lambda _: 10.0)
        fleet.now += 5.0  # so that always one of two goes on
    fill(fleet, head)
    for number in range(3, 100):
        fill(fleet, queued(number, small, pools=stream))
        fleet.advance()
        if head.id in names(list(fleet.run_pass(lambda _: 10.0))):
            return
    pytest.fail("it was passed by all that came")


def pools_with_cpus(gpus: int, cpus: float) -> tuple[PoolRequest, ...]:
    return (replace(pools_of(gpus)[0], cpus=cpus),)


@settings(deadline=None)
@given(JOBS)
def test_the_same_snapshot_is_decided_alike_twice(jobs: list[tuple[int, str | None, int, int]]) -> None:
    fleet = Fleet.of(build_node("a", 8), build_node("b", 4, "l40s"))
    fill(fleet, *(queued(number, gpus, series) for number, (gpus, series, _, _) in enumerate(jobs)))
    snapshot = fleet.snapshot()
    first, second = list(decide_queue(snapshot)), list(decide_queue(snapshot))
    assert first == second
    assert sorted(one.job.id for one in first) == sorted(fleet.queue), "a job without a decision, or with two"


@settings(deadline=None, max_examples=200)
@given(
    jobs=st.lists(st.tuples(st.integers(1, 2), st.sampled_from([1.0, 50.0]), st.integers(1, 2)), min_size=4),
    limited=st.booleans(),
    most=st.sampled_from([None, 1, 2]),
)
def test_jobs_that_are_alike_are_decided_on_as_each_by_itself(
    jobs: list[tuple[int, float, int]], *, limited: bool, most: int | None
) -> None:
    fleet = Fleet.of(build_node("a", 2), build_node("b", 1), limited=limited)
    usage = Usage(Quotas(limits={Holder("user", "ada"): Limit(jobs=most)}, members={1: Member("ada", None)}))
    alike = [queued(number, gpus, lasts_s=lasts_s, user_id=user) for number, (gpus, lasts_s, user) in enumerate(jobs)]
    fill(fleet, *alike)
    together = places(fleet, usage)
    # Pools and inputs that are equal and not the same are not known to be alike.
    fill(fleet, *(job._replace(pools=tuple(map(replace, job.pools)), inputs={}) for job in alike))
    assert places(fleet, usage) == together


def places(fleet: Fleet, usage: Usage) -> dict[str, str | None]:
    """On which machine each job starts; None where it waits."""
    starts, waits = decide(fleet, usage=usage)
    return {one.job.id: one.target.node for one in starts} | {one.job.id: None for one in waits}


@settings(deadline=None)
@given(JOBS, st.integers(0, 10))
def test_nobody_starts_later_than_it_was_promised(jobs: list[tuple[int, str | None, int, int]], late: int) -> None:
    fleet = Fleet.of(build_node("a", 8), build_node("b", 8), build_node("c", 4, "l40s"), limited=True)
    coming = [
        queued(number, gpus, series, lasts_s=float(limit)) for number, (gpus, series, limit, _) in enumerate(jobs)
    ]
    share = {job.id: part / 100 for job, (_, _, _, part) in zip(coming, jobs, strict=True)}
    promised: dict[str, float] = {}
    late = min(late, len(jobs))
    fill(fleet, *coming[late:])
    while True:
        for start in fleet.run_pass(partial(run_part, share)):
            assert fleet.now <= promised.get(start.job.id, fleet.now), "a reservation was broken"
        fleet_promises(fleet, promised)
        if late:
            late -= 1  # jobs that come later stand behind those that wait: their numbers say so
            fill(fleet, renumber(coming[late], len(jobs) + len(jobs) - late))
            share[job_id(2 * len(jobs) - late)] = share[coming[late].id]
        elif not fleet.advance():
            break
    assert all(is_too_large(job) for job in fleet.queue.values()), "a job was never started"


def is_too_large(job: QueuedJob) -> bool:
    return job.pools[0].series == "l40s" and job.pools[0].gpus_per_node > 4


def run_part(share: dict[JobId, float], job: QueuedJob) -> float:
    assert job.lasts_s is not None
    return job.lasts_s * share[job.id]


def renumber(job: QueuedJob, number: int) -> QueuedJob:
    return job._replace(id=job_id(number), submitted_at=float(number))


def fleet_promises(fleet: Fleet, promised: dict[str, float]) -> None:
    """Notes what the first in the queue of those that compete is promised; `promised` keeps the first word."""
    first = next(iter(order_queue(fleet.queue.values())), None)
    for job, wait in fleet.waits.items():
        if first is not None and job == first.id and "has room for it by" in wait.text:
            promised.setdefault(job, bound_of(fleet, first))


def bound_of(fleet: Fleet, job: QueuedJob) -> float:
    """When the job could start at the latest if nothing else started before it."""
    alone = Fleet(fleet.view, limited=True, now=fleet.now, running=dict(fleet.running))
    alone.running = {one: (what, node, until, until) for one, (what, node, _, until) in fleet.running.items()}
    fill(alone, job)
    while not alone.run_pass(lambda _: LONG):
        assert alone.advance()
    return alone.now


@settings(deadline=None)
@given(JOBS)
def test_every_job_that_fits_an_empty_machine_starts_in_the_end(jobs: list[tuple[int, str | None, int, int]]) -> None:
    fleet = Fleet.of(build_node("a", 8), build_node("c", 4, "l40s"))
    fill(fleet, *(queued(number, gpus, series) for number, (gpus, series, _, _) in enumerate(jobs)))
    fleet.run_pass(lambda job: 1.0 + len(job.id))
    while fleet.advance():
        fleet.run_pass(lambda job: 1.0 + len(job.id))
    assert all(is_too_large(job) for job in fleet.queue.values())


def test_a_job_that_its_fleet_does_not_serve_waits_and_says_so() -> None:
    snapshot = Snapshot(queued=[queued(0, 1, fleet="gone")], views={}, place={FLEET: place_on_one_node})
    (wait,) = decide_queue(snapshot)
    assert isinstance(wait, Waits)
    assert "not served here any more" in wait.text

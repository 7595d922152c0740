"""Pause and resume: the GPUs go back, the job keeps its id, and whoever wished the pause decides how it goes on."""

from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import select

from server.tests.ledger.builders import guard
from server.tests.scheduler.support import FLEET, Site, make_record, open_site, run
from starforge.contract.executor import Target
from starforge.contract.ids import JobId, new_attempt_id
from starforge.contract.states import DesiredState, JobState, Reason
from starforge.errors import Conflict
from starforge_console.domain.quota import Holder
from starforge_console.domain.tokens import hash_token
from starforge_console.domain.wishes import Wish
from starforge_console.executors.scripting import FakeNode, Script
from starforge_console.ledger.maintenance import (
    begin_maintenance,
    count_in_maintenance,
    end_maintenance,
    find_maintenance,
    pause_holding,
)
from starforge_console.ledger.queue import NewAttempt, dequeue, list_queued
from starforge_console.ledger.quotas import change_parts
from starforge_console.ledger.tables import jobs
from starforge_console.ledger.wishes import wish_retry

PAUSE = Wish(desired=DesiredState.PAUSE)
DRAIN = Wish(desired=DesiredState.PAUSE, wished_for=Reason.DRAINED, goes_on=True)
CLOSE = Wish(desired=DesiredState.STOP, wished_for=Reason.WINDOW_CLOSED, goes_on=True)
PAUSED = (JobState.PAUSED, Reason.PAUSE_CONFIRMED)
DRAINED = (JobState.PAUSED, Reason.DRAINED)


async def settle(site: Site) -> None:
    """Two rounds: one that tells, one that sees the end."""
    await site.reconcile()
    await site.reconcile()


async def begin(site: Site, reason: str = "") -> list[JobId]:
    _, asked = await site.ledger.write(lambda c: begin_maintenance(c, "root", reason, guard(site.clock.now())))
    return asked


async def goes_on(site: Site, job: JobId) -> bool:
    return bool(await site.ledger.read(lambda c: c.execute(select(jobs.c.goes_on).where(jobs.c.id == job)).scalar()))


def test_a_paused_job_gives_its_gpus_back_and_resumes_as_the_same_run_with_a_new_attempt(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, FakeNode(name="n1", gpus=1)) as site:
            job, first = await site.running()
            other = await site.submit()
            await site.wish(job, PAUSE)
            assert (await site.job(job)).state == JobState.RUNNING
            await settle(site)
            assert await site.state(job) == PAUSED
            assert site.assembly.told == [(first, "pause")]
            await site.dequeue()
            assert (await site.job(other)).state == JobState.PENDING
            await site.resume(job)
            assert await site.state(job) == (JobState.QUEUED, Reason.RESUMED)
            await site.reconcile()
            site.end(await site.attempt(other))
            await site.reconcile()
            await site.dequeue()
            assert (await site.job(job)).state == JobState.PENDING
            assert [attempt.number for attempt in await site.attempts(job)] == [1, 2]
            assert (await site.job(job)).desired == DesiredState.RUN

    run(go())


def test_a_queued_job_is_paused_at_once_and_is_not_started(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job = await site.submit()
            await site.wish(job, PAUSE)
            assert await site.state(job) == (JobState.PAUSED, Reason.PAUSE_REQUESTED)
            await site.dequeue()
            assert site.fleet.starts == {}
            await site.resume(job)
            await site.dequeue()
            assert (await site.job(job)).state == JobState.PENDING

    run(go())


def test_a_job_that_is_resumed_before_its_pause_is_confirmed_is_paused_first_and_then_goes_on(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job, _ = await site.running()
            await site.wish(job, PAUSE)
            await site.reconcile()
            assert await site.resume(job)
            assert not await site.resume(job)
            await site.reconcile()
            assert await site.state(job) == PAUSED
            await site.dequeue()
            assert (await site.job(job)).state == JobState.PENDING
            assert len(await site.attempts(job)) == 2

    run(go())


def test_a_stop_while_it_pauses_stops_it_and_a_pause_while_it_stops_is_refused(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job, _ = await site.running()
            await site.wish(job, PAUSE)
            await site.stop(job)
            with pytest.raises(Conflict, match="being stopped"):
                await site.wish(job, PAUSE)
            await settle(site)
            assert await site.state(job) == (JobState.STOPPED, Reason.STOP_CONFIRMED)

    run(go())


def test_a_hurried_stop_is_not_slowed_down_by_a_patient_one(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job, _ = await site.running()
            await site.wish(job, Wish(desired=DesiredState.PAUSE, grace_s=5.0))
            await site.wish(job, Wish(desired=DesiredState.STOP, grace_s=500.0))
            (found,) = await site.in_flight()
            assert found.stop_by == site.clock.now() + 5.0

    run(go())


def test_a_job_that_was_not_launched_yet_is_paused_once_the_door_is_closed(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, script=Script(prepare_steps=None, pull_bytes=10)) as site:
            job = await site.submit()
            await site.dequeue()
            await site.wish(job, PAUSE)
            await site.reconcile()
            assert await site.state(job) == PAUSED
            assert site.fleet.starts == {}

    run(go())


def test_drained_jobs_go_on_by_themselves_elsewhere(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, FakeNode(name="n1", gpus=1), FakeNode(name="n2", gpus=1)) as site:
            job, _ = await site.running()
            node = (await site.attempts(job))[-1].node
            asked = await site.ledger.write(lambda c: pause_holding(c, node, "n1 drains", guard(site.clock.now())))
            assert asked == [job]
            await settle(site)
            assert await site.state(job) == DRAINED
            await site.dequeue()
            assert (await site.reasons(job))[-3:] == ["resumed", "dequeued", "launched"]

    run(go())


def test_only_jobs_of_the_drained_machine_are_asked(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            await site.running()
            assert await site.ledger.write(lambda c: pause_holding(c, "n9", "n9 drains", guard())) == []

    run(go())


def test_a_user_who_pauses_a_drained_job_keeps_it_paused(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            before, _ = await site.running()
            after, _ = await site.running()
            for job in (before, after):
                await site.wish(job, DRAIN)
            await site.wish(before, PAUSE)
            await settle(site)
            assert await site.state(before) == PAUSED
            assert await site.state(after) == DRAINED
            await site.wish(after, PAUSE)
            await site.dequeue()
            assert {(await site.job(job)).state for job in (before, after)} == {JobState.PAUSED}

    run(go())


def test_a_window_that_closes_on_a_pausing_job_changes_nothing(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job, _ = await site.running()
            await site.wish(job, PAUSE)
            assert not await site.wish(job, CLOSE)
            await settle(site)
            assert await site.state(job) == PAUSED

    run(go())


def test_a_window_that_closes_stops_a_running_job_until_it_opens_unless_a_user_stops_it(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job, _ = await site.running()
            await site.wish(job, CLOSE)
            await settle(site)
            assert await site.state(job) == (JobState.STOPPED, Reason.WINDOW_CLOSED)
            assert await goes_on(site, job)
            assert await site.wish(job, Wish(desired=DesiredState.STOP))
            assert not await goes_on(site, job)

    run(go())


def test_what_was_not_launched_yet_when_it_is_drained_goes_back_to_the_queue(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            site.fleet.before_launch.is_closed = True
            job = await site.submit()
            await site.loops.dequeue.run_once()
            await site.fleet.before_launch.reached.wait()
            await site.wish(job, DRAIN)
            await site.restart()
            assert await site.state(job) == (JobState.QUEUED, Reason.NO_CAPACITY)
            assert not await goes_on(site, job)
            assert (await site.job(job)).desired == DesiredState.RUN

    run(go())


def test_what_fails_while_it_is_drained_is_retried_and_what_a_user_paused_is_not(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            drained, first = await site.running(retries=1)
            paused, second = await site.running(retries=1)
            await site.wish(drained, DRAIN)
            await site.wish(paused, PAUSE)
            for attempt in (first, second):
                site.end(attempt, 1)
            await site.reconcile()
            assert await site.state(drained) == (JobState.FAILED, Reason.EXITED_NONZERO)
            assert (await site.job(drained)).retry_at is not None
            assert await site.state(paused) == (JobState.FAILED, Reason.EXITED_NONZERO)
            assert (await site.job(paused)).retry_at is None

    run(go())


def test_what_infrastructure_ends_before_its_pause_could_is_paused(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            paused, first = await site.running()
            resumed, second = await site.running()
            for job, attempt in ((paused, first), (resumed, second)):
                await site.wish(job, PAUSE)
                site.fleet.finish(attempt, 0)  # without the record that a runner leaves
            await site.resume(resumed)
            await site.reconcile()
            assert await site.state(paused) == (JobState.PAUSED, Reason.PAUSE_REQUESTED)
            assert (await site.reasons(paused))[-3:] == ["interrupted", "retried", "pause_requested"]
            assert (await site.attempts(paused))[-1].reason == "interrupted"
            assert await site.state(resumed) == (JobState.FAILED, Reason.INTERRUPTED)
            assert (await site.job(resumed)).retry_at is not None
            await site.dequeue()
            assert (await site.job(paused)).state == JobState.PAUSED

    run(go())


def test_what_completes_while_it_is_paused_has_succeeded(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, script=Script(stop_steps=None)) as site:
            job, attempt = await site.running()
            await site.wish(job, PAUSE)
            await site.reconcile()
            site.records.exits[attempt] = make_record(attempt, 0, site.clock.now(), "pause")
            site.fleet.finish(attempt, 0)
            await site.reconcile()
            assert await site.state(job) == (JobState.SUCCEEDED, Reason.EXITED_ZERO)

    run(go())


def test_a_paused_job_counts_for_the_quota_of_jobs_and_holds_no_gpus(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, FakeNode(name="n1", gpus=8)) as site:
            await site.ledger.write(lambda c: change_parts(c, Holder("user", "ada"), {"jobs": 1, "gpus": 1}))
            job, _ = await site.running()
            await site.wish(job, PAUSE)
            await settle(site)
            other = await site.submit()
            await site.dequeue()
            assert (await site.job(other)).note.startswith("quota of user ada: 1 of 1 job running or paused")
            await site.ledger.write(lambda c: change_parts(c, Holder("user", "ada"), {"jobs": 2}))
            await site.dequeue()
            assert (await site.job(other)).state == JobState.PENDING

    run(go())


def test_a_failed_and_a_stopped_job_are_retried_by_their_user_with_a_fresh_budget(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            failed, attempt = await site.running()
            stopped, _ = await site.running()
            site.end(attempt, 1)
            await site.stop(stopped)
            await settle(site)
            for job in (failed, stopped):
                await site.ledger.write(
                    partial(wish_retry, job_id=job, retries=2, guard=guard(lease=None), note="again")
                )
            assert await site.state(failed) == (JobState.QUEUED, Reason.RETRIED_BY_USER)
            assert await site.state(stopped) == (JobState.QUEUED, Reason.CONTINUED)
            await site.dequeue()
            await site.reconcile()
            assert {(await site.job(job)).state for job in (failed, stopped)} == {JobState.RUNNING}
            assert {len(await site.attempts(job)) for job in (failed, stopped)} == {2}

    run(go())


def test_maintenance_pauses_all_starts_nothing_and_brings_back_what_it_paused(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, FakeNode(name="n1", gpus=4)) as site:
            mine, _ = await site.running()
            theirs, _ = await site.running()
            await site.wish(mine, PAUSE)
            await settle(site)
            waiting = await site.submit()
            assert await begin(site, "new disks") == [theirs]
            await site.dequeue()
            await settle(site)
            assert await site.state(theirs) == DRAINED
            assert "in maintenance by root (new disks)" in (await site.job(waiting)).note
            await site.restart()
            await site.dequeue()
            assert [await site.state(mine), await site.state(theirs)] == [PAUSED, DRAINED]
            counts = await site.ledger.read(count_in_maintenance)
            assert (counts.running, counts.paused, counts.queued) == (0, 1, 1)
            assert await site.ledger.write(end_maintenance)
            await site.dequeue()
            assert (await site.job(theirs)).state == (await site.job(waiting)).state == JobState.PENDING
            assert await site.state(mine) == PAUSED

    run(go())


def test_maintenance_that_is_begun_twice_is_one_and_catches_nobody_twice(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job, _ = await site.running()
            assert await begin(site, "disks") == [job]
            site.clock.at += 60
            assert await begin(site) == []
            found = await site.ledger.read(find_maintenance)
            assert found is not None
            assert (found.reason, found.since) == ("disks", site.clock.now() - 60)
            assert await site.ledger.write(end_maintenance) is not None
            assert await site.ledger.write(end_maintenance) is None

    run(go())


def test_nothing_is_started_that_was_chosen_before_a_maintenance_began(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job = await site.submit()
            (chosen,) = await site.ledger.read(list_queued)
            await begin(site)
            new = NewAttempt(
                id=new_attempt_id(job, 1),
                number=1,
                target=Target(fleet=FLEET, node="n1", name="sf-1"),
                token_hash=hash_token(job),
                token_expires_at=1e9,
                lease="process 1",
                lease_until=1e9,
            )
            now = guard(site.clock.now(), lease=None)
            assert await site.ledger.write(lambda c: dequeue(c, chosen, new, now)) is None
            await site.dequeue()
            assert (await site.job(job)).state == JobState.QUEUED
            assert await site.attempts(job) == []

    run(go())


def test_a_job_that_a_user_resumes_during_maintenance_waits_for_its_end(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job, _ = await site.running()
            await begin(site)
            await settle(site)
            await site.resume(job)
            await site.dequeue()
            assert (await site.job(job)).state == JobState.QUEUED
            await site.ledger.write(end_maintenance)
            await site.dequeue()
            assert (await site.job(job)).state == JobState.PENDING

    run(go())

"""What a round makes of what backends and runners say, and of their silence."""

import asyncio
import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from server.tests.scheduler.support import GatedFleet, make_record, open_site, run
from starforge.contract.ids import AttemptId
from starforge.contract.observation import Failure, Observation
from starforge.contract.states import JobState, Reason
from starforge.errors import BackendUnreachable, IllegalTransition
from starforge_console.executors.scripting import FakeNode, Script


@pytest.mark.parametrize("wish", ["run", "stop"])
@pytest.mark.parametrize("state", ["submitted", "pending", "running"])
def test_no_signal_changes_no_job_in_any_state_whatever_is_wished(tmp_path: Path, state: str, wish: str) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job = await site.submit()
            if state == "submitted":
                site.fleet.lose_next_launch_reply()
            await site.dequeue()
            if state == "running":
                await site.reconcile()
            if wish == "stop":
                await site.stop(job, 0.0)
            before = (await site.in_flight())[0]
            site.fleet.make_unreachable()
            for _ in range(4):
                site.clock.at += 86_400
                await site.reconcile()
                await site.dequeue()
                await site.cleanup()
            after = (await site.in_flight())[0]
            assert (after.state, after.reason, after.version, after.desired, after.attempt) == (
                before.state,
                before.reason,
                before.version,
                before.desired,
                before.attempt,
            )
            assert len(await site.attempts(job)) == 1

    run(go())


class SilentFleet(GatedFleet):
    """A backend that leaves an attempt out of its answer."""

    async def observe(self, attempts: Collection[AttemptId]) -> Mapping[AttemptId, Observation]:
        await super().observe(attempts)
        return {}


def test_an_attempt_that_the_answer_leaves_out_is_not_gone(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, fleet_kind=SilentFleet) as site:
            job = await site.submit()
            await site.dequeue()
            for _ in range(4):
                await site.reconcile()
                site.clock.at += 1_000
            row = await site.job(job)
            assert (row.state, row.note) == (
                JobState.PENDING,
                "waiting for n1: the backend said nothing of this attempt",
            )

    run(go())


def test_vanished_takes_two_answers_and_costs_a_retry(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job, attempt = await site.running(retries=1)
            site.fleet.vanish(attempt)
            await site.reconcile()
            site.clock.at += 29
            assert await site.reconcile() == 5.0
            assert (await site.job(job)).state == JobState.RUNNING
            site.clock.at += 2
            await site.reconcile()
            assert await site.state(job) == (JobState.FAILED, "vanished")
            assert [one.costs_retry for one in await site.attempts(job)] == [True]

    run(go())


def test_what_is_seen_again_after_one_look_is_not_half_vanished(tmp_path: Path) -> None:
    class Blinking(GatedFleet):
        is_blind = False

        async def observe(self, attempts: Collection[AttemptId]) -> Mapping[AttemptId, Observation]:
            if not self.is_blind:
                return await super().observe(attempts)
            return await GatedFleet([FakeNode(name="n1")], self._now).observe(attempts)

    async def go() -> None:
        async with open_site(tmp_path, fleet_kind=Blinking) as site:
            assert isinstance(site.fleet, Blinking)
            job, _ = await site.running()
            for blind in (True, False, True):
                site.fleet.is_blind = blind
                await site.reconcile()
                site.clock.at += 60
            assert (await site.job(job)).state == JobState.RUNNING

    run(go())


def test_a_job_that_left_a_record_and_is_gone_ends_as_recorded(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job, attempt = await site.running()
            site.records.exits[attempt] = make_record(attempt, 0, site.clock.now())
            site.fleet.vanish(attempt)
            await site.reconcile()
            assert await site.state(job) == (JobState.SUCCEEDED, "exited_zero")

    run(go())


def test_success_is_final_whatever_is_seen_or_wished_later(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job, attempt = await site.running(retries=3)
            site.end(attempt)
            await site.reconcile()
            site.fleet.vanish(attempt)
            await site.stop(job)
            for _ in range(3):
                site.clock.at += 1_000
                await site.reconcile()
                await site.dequeue()
                await site.cleanup()
            assert await site.state(job) == (JobState.SUCCEEDED, "exited_zero")
            assert (await site.job(job)).attempt_number == 1

    run(go())


def test_an_own_failure_comes_back_when_its_time_has_come_and_until_its_budget_is_spent(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job, attempt = await site.running(retries=1)
            site.end(attempt, 1)
            await site.reconcile()
            due = (await site.job(job)).retry_at
            assert due == site.clock.now() + 5.0
            assert await site.loops.dequeue.run_once() == 5.0
            assert (await site.job(job)).state == JobState.FAILED
            site.clock.at += 5.0
            await site.dequeue()
            await site.reconcile()
            assert (await site.job(job)).attempt_number == 2
            site.end(await site.attempt(job), 1)
            await site.reconcile()
            row = await site.job(job)
            assert (row.state, row.retry_at) == (JobState.FAILED, None)
            assert [one.costs_retry for one in await site.attempts(job)] == [True, False]

    run(go())


def test_a_fault_of_the_machine_comes_back_free_of_charge_and_later_each_time(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, script=Script(failure=Failure.NODE_FAULT)) as site:
            job = await site.submit(retries=0)
            waits = []
            for _ in range(20):
                await site.dequeue()
                await site.reconcile()
                row = await site.job(job)
                if row.retry_at is None:
                    break
                waits.append(row.retry_at - site.clock.now())
                site.clock.at = row.retry_at
            assert waits == [0, 10, 20, 40, 80, 160, 320, 600]
            assert await site.state(job) == (JobState.FAILED, "node_fault")
            assert not any(one.costs_retry for one in await site.attempts(job))

    run(go())


@pytest.mark.parametrize("failure", [Failure.PULL_DENIED, Failure.START_FAILED])
def test_a_start_that_cannot_work_is_not_repeated(tmp_path: Path, failure: Failure) -> None:
    async def go() -> None:
        async with open_site(tmp_path, script=Script(failure=failure)) as site:
            job = await site.submit(retries=5)
            await site.dequeue()
            await site.reconcile()
            row = await site.job(job)
            assert (row.state, row.reason, row.retry_at) == (JobState.FAILED, failure.value, None)

    run(go())


def test_an_engine_that_lost_the_exit_makes_it_an_interruption(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job, _ = await site.running()
            site.fleet.restart_engine(code=255)
            await site.reconcile()
            row = await site.job(job)
            assert (row.state, row.reason) == (JobState.FAILED, "interrupted")
            assert row.retry_at is not None

    run(go())


@pytest.mark.parametrize("error", [BackendUnreachable("the storage hangs"), OSError(5, "Input/output error")])
def test_a_record_that_cannot_be_read_holds_up_its_own_job_alone(tmp_path: Path, error: Exception) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            bad, bad_attempt = await site.running()
            good, good_attempt = await site.running()
            site.records.unreadable[bad_attempt] = error
            site.end(bad_attempt)
            site.end(good_attempt)
            await site.reconcile()
            assert (await site.job(good)).state == JobState.SUCCEEDED
            assert (await site.job(bad)).state == JobState.RUNNING
            site.records.unreadable.clear()
            await site.reconcile()
            assert (await site.job(bad)).state == JobState.SUCCEEDED

    run(go())


def test_what_a_record_says_is_kept_without_the_secrets_that_it_quotes(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job, attempt = await site.running()
            site.end(attempt, 1)
            words = ", ".join(await site.assembly.find_words(attempt))
            quoted = f"refused: {words}, hf_Ab3dEf6hIj9kLmN0pQrStUv"
            site.records.exits[attempt] = dataclasses.replace(site.records.exits[attempt], message=quoted)
            await site.reconcile()
            row, (ended,) = await site.job(job), await site.attempts(job)
            assert (row.note, ended.evidence["summary"]) == ("refused: ***, ***, ***",) * 2

    run(go())


def test_rounds_at_the_same_time_move_each_job_once(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, FakeNode(name="n1", gpus=8)) as site:
            jobs = [(await site.running())[0] for _ in range(4)]
            for job in jobs:
                site.end(await site.attempt(job))
            await asyncio.gather(*(site.reconcile() for _ in range(8)))
            for job in jobs:
                assert await site.reasons(job) == ["admitted", "dequeued", "launched", "started", "exited_zero"]

    run(go())


def test_the_table_refuses_what_no_round_may_do(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job, attempt = await site.running()
            held = (await site.in_flight())[0]
            site.end(attempt)
            await site.reconcile()
            with pytest.raises(IllegalTransition, match="RUNNING has no edge for launched"):
                await site.loops.launcher._apply.move(held, [Reason.LAUNCHED])
            assert not await site.loops.launcher._apply.move(held, [Reason.EXITED_NONZERO]), "somebody was faster"
            assert await site.state(job) == (JobState.SUCCEEDED, "exited_zero")

    run(go())

"""What hangs holds up itself alone, and is not begun a second time while it does."""

import asyncio
import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from server.tests.scheduler.support import FLEET, Gate, GatedFleet, KeptRecords, Loops, Site, open_site, run
from starforge.contract.capsule import ExitRecord
from starforge.contract.executor import FleetView
from starforge.contract.ids import AttemptId
from starforge.contract.observation import NoSignal, Observation
from starforge.contract.states import JobState
from starforge_console.executors.scripting import FakeNode, Script
from starforge_console.ledger.endings import EndedAttempt, list_unclean
from starforge_console.scheduler.tasks import KeyedTasks
from starforge_console.wakeups import QUEUE


class HangingFleet(GatedFleet):
    """Stops of one attempt hang, and so may its looks."""

    slow: AttemptId | None = None
    entered = 0

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.look = Gate()
        self.asking = Gate()
        self.stopping = Gate(is_closed=True)

    async def observe(self, attempts: Collection[AttemptId]) -> Mapping[AttemptId, Observation]:
        seen = await super().observe(attempts)
        await self.look.pass_through()
        return seen

    async def capacity(self) -> FleetView | NoSignal:
        view = await super().capacity()
        await self.asking.pass_through()
        return view

    async def stop(self, attempt: AttemptId, remaining_s: float) -> None:
        if attempt == self.slow:
            self.entered += 1
            await self.stopping.pass_through()
        await super().stop(attempt, remaining_s)


@dataclass
class HangingRecords(KeptRecords):
    """What one attempt left cannot be read for now."""

    slow: AttemptId | None = None
    reading: Gate = field(default_factory=lambda: Gate(is_closed=True))
    entered: int = 0

    async def exit_record(self, attempt: AttemptId) -> ExitRecord | None:
        await self._hang(attempt)
        return await super().exit_record(attempt)

    async def finalise(self, attempt: EndedAttempt) -> tuple[dict[str, Any], int | None]:
        await self._hang(attempt.id)
        return await super().finalise(attempt)

    async def _hang(self, attempt: AttemptId) -> None:
        if attempt == self.slow:
            self.entered += 1
            await self.reading.pass_through()


def hurry(site: Site) -> None:
    """Let this site's rounds wait for little; a test that needs the limit would otherwise take its seconds."""
    site.loops = Loops(dataclasses.replace(site.loops.deps, records=site.records, round_limit_s=0.05))


def test_a_stop_that_hangs_holds_up_no_other_job_and_is_not_sent_twice(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, fleet_kind=HangingFleet) as site:
            assert isinstance(site.fleet, HangingFleet)
            slow, site.fleet.slow = await site.running()
            other, _ = await site.running()
            hurry(site)
            await site.stop(slow, 0.0)
            await site.stop(other, 0.0)
            for _ in range(3):
                assert await site.reconcile() == 5.0
            await site.reconcile()
            assert (await site.job(other)).state == JobState.STOPPED
            assert (await site.job(slow)).state == JobState.RUNNING
            assert site.fleet.entered == 1
            site.fleet.stopping.opened.set()
            await site.loops.reconcile._work.wait([slow], 20)
            await site.reconcile()
            assert (await site.job(slow)).state == JobState.STOPPED

    run(go())


def test_a_record_that_hangs_holds_up_no_other_job(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            site.records = records = HangingRecords()
            slow, records.slow = await site.running()
            other, attempt = await site.running()
            hurry(site)
            site.end(records.slow)
            site.end(attempt)
            for _ in range(2):
                await site.reconcile()
            assert (await site.job(other)).state == JobState.SUCCEEDED
            assert ((await site.job(slow)).state, records.entered) == (JobState.RUNNING, 1)
            records.reading.opened.set()
            await site.loops.reconcile._work.wait([slow], 20)
            assert (await site.job(slow)).state == JobState.SUCCEEDED

    run(go())


def test_a_fleet_that_hangs_holds_up_no_other_fleet(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, FakeNode(name="n1", gpus=1), fleet_kind=HangingFleet) as site:
            assert isinstance(site.fleet, HangingFleet)
            second = GatedFleet([FakeNode(name="m1", gpus=1)], site.clock.now)
            second._fleet = "other"
            executors = {FLEET: site.fleet, "other": second}
            site.loops = Loops(dataclasses.replace(site.loops.deps, executors=executors, round_limit_s=0.05))
            jobs = [await site.submit() for _ in range(2)]
            await site.dequeue()
            at = {(await site.attempts(job))[0].fleet: job for job in jobs}
            site.fleet.look.is_closed = True
            await site.reconcile()
            assert (await site.job(at["other"])).state == JobState.RUNNING
            assert (await site.job(at[FLEET])).state == JobState.PENDING
            await site.reconcile()
            assert site.fleet.journal.calls.count(("observe", None)) == 1
            site.fleet.look.opened.set()

    run(go())


def test_a_fleet_that_does_not_say_what_it_offers_is_no_place_and_its_late_answer_brings_a_look(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, FakeNode(name="n1", gpus=1), fleet_kind=HangingFleet) as site:
            assert isinstance(site.fleet, HangingFleet)
            second = GatedFleet([FakeNode(name="m1", gpus=1)], site.clock.now)
            second._fleet = "other"
            executors = {FLEET: site.fleet, "other": second}
            site.loops = Loops(dataclasses.replace(site.loops.deps, executors=executors, round_limit_s=0.05))
            site.fleet.asking.is_closed = True
            jobs = sorted([await site.submit() for _ in range(2)])
            await site.dequeue()
            assert [one.fleet for one in await site.attempts(jobs[0])] == ["other"]
            assert f"{FLEET}: no answer within 0.05 s" in (await site.job(jobs[1])).note
            woken = site.wakeups.subscribe(QUEUE)
            site.fleet.asking.opened.set()
            assert await woken.wait(20)
            await site.dequeue()
            assert [one.fleet for one in await site.attempts(jobs[1])] == [FLEET]

    run(go())


def test_an_attempt_whose_rest_cannot_be_read_holds_up_no_other_cleanup(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, FakeNode(name="n1", gpus=12)) as site:
            site.records = records = HangingRecords()
            attempts = [(await site.running())[1] for _ in range(12)]
            for attempt in attempts:
                site.end(attempt)
            hurry(site)
            await site.reconcile()
            records.slow = attempts[0]
            left = await site.ledger.read(list_unclean)
            for _ in range(100):  # a busy machine takes more than one look
                await site.cleanup()
                left = await site.ledger.read(list_unclean)
                if len(left) == 1:
                    break
            assert ([one.id for one in left], records.entered) == ([attempts[0]], 1)
            records.reading.opened.set()
            await site.loops.cleanup._work.wait([attempts[0]], 20)
            assert sorted(records.finalised) == sorted(attempts)

    run(go())


def test_a_launch_that_was_answered_during_a_slow_look_is_not_fenced_for_it(tmp_path: Path) -> None:
    async def go() -> None:
        preparing = Script(prepare_steps=None)
        async with open_site(tmp_path, fleet_kind=HangingFleet, script=preparing) as site:
            assert isinstance(site.fleet, HangingFleet)
            job = await site.submit()
            site.fleet.before_launch.is_closed = site.fleet.look.is_closed = True
            await site.loops.dequeue.run_once()
            await site.fleet.before_launch.reached.wait()
            look = asyncio.create_task(site.reconcile())
            await site.fleet.look.reached.wait()
            site.fleet.before_launch.opened.set()
            await site.loops.settle_launches()
            assert (await site.job(job)).state == JobState.PENDING
            site.fleet.look.opened.set()
            await look
            assert site.fleet.calls("fence") == []

    run(go())


@pytest.mark.parametrize("error", [ZeroDivisionError(), OSError(5, "Input/output error")])
def test_a_task_that_fails_leaves_its_key_free(error: Exception) -> None:
    async def go() -> None:
        tasks = KeyedTasks[str]("test")
        ran = []

        async def fail() -> None:
            ran.append("")
            raise error

        for _ in range(2):
            tasks.begin("a", fail)
            assert "a" in tasks
            assert await tasks.wait(["a", "nobody"], 20)
        assert len(ran) == 2
        assert "a" not in tasks

    run(go())

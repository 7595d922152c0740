"""A loop comes round when it is woken, when its time is over, and after every error."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from server.tests.scheduler.support import open_site, run
from starforge.contract.states import JobState
from starforge_console.scheduler.loop import Loop
from starforge_console.wakeups import QUEUE, Wakeups


async def _run_until(loop: Loop, holds: Callable[[], bool], passes: asyncio.Condition) -> None:
    task = asyncio.create_task(loop.run())
    try:
        async with asyncio.timeout(20), passes:
            await passes.wait_for(holds)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_an_error_in_a_pass_does_not_end_the_loop() -> None:
    async def go() -> None:
        wakeups, passes = Wakeups(), asyncio.Condition()
        seen: list[int] = []
        wakeups.bind()

        async def body() -> float:
            async with passes:
                seen.append(len(seen))
                passes.notify_all()
            if len(seen) == 1:
                raise ZeroDivisionError
            return 0.0

        await _run_until(Loop("x", "topic", wakeups, body), lambda: len(seen) >= 3, passes)
        assert wakeups._waiters.keys() <= {"topic"}

    asyncio.run(go())


def test_a_wake_up_during_a_pass_brings_another_pass_at_once() -> None:
    async def go() -> None:
        wakeups, passes = Wakeups(), asyncio.Condition()
        seen: list[int] = []
        wakeups.bind()

        async def body() -> float:
            async with passes:
                seen.append(len(seen))
                passes.notify_all()
            if len(seen) == 1:
                wakeups.notify("topic")
            return 3_600.0

        await _run_until(Loop("x", "topic", wakeups, body), lambda: len(seen) == 2, passes)

    asyncio.run(go())


def test_the_loops_together_take_a_queue_to_its_end_without_a_timer(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            scheduler = site.begin_scheduler(reconcile_s=3_600.0)
            jobs = [await site.submit() for _ in range(5)]
            await scheduler.start()
            try:
                site.wakeups.notify(QUEUE)
                for job in sorted(jobs):  # they are of one age, so their ids order them
                    await site.wait_for(job, JobState.RUNNING)
                    site.end(await site.attempt(job))
                    await site.wait_for(job, JobState.SUCCEEDED)
            finally:
                await scheduler.close()
            assert sorted(site.fleet.starts.values()) == [1] * 5
            assert [(await site.job(job)).state for job in jobs] == [JobState.SUCCEEDED] * 5

    run(go())

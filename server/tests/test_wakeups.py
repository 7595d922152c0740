"""Whoever waits is woken once something happened, and nothing between a look and its wait is missed."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from starforge_console.wakeups import BACKEND, ENDINGS, QUEUE, Wakeups, job_topic, stream_topic


def within(work: Callable[[Wakeups], Coroutine[Any, Any, None]]) -> None:
    async def go() -> None:
        wakeups = Wakeups()
        wakeups.bind()
        await work(wakeups)
        assert wakeups._waiters == {}, "nobody is remembered who waits no more"

    asyncio.run(go())


def test_a_waiter_is_woken_by_its_topic_and_by_no_other() -> None:
    async def work(wakeups: Wakeups) -> None:
        waiter = wakeups.subscribe(QUEUE)
        wakeups.notify(BACKEND, ENDINGS)
        assert not await waiter.wait(0)
        waiter = wakeups.subscribe(QUEUE)
        wakeups.notify(QUEUE)
        assert await waiter.wait(0)

    within(work)


def test_what_happens_between_the_look_and_the_wait_is_not_missed() -> None:
    async def work(wakeups: Wakeups) -> None:
        waiter = wakeups.subscribe(QUEUE)
        wakeups.notify(QUEUE)
        await asyncio.sleep(0)
        assert await waiter.wait(5)

    within(work)


def test_one_of_several_topics_is_enough_and_all_who_wait_for_it_are_woken() -> None:
    async def work(wakeups: Wakeups) -> None:
        waiters = [wakeups.subscribe(job_topic("j1"), stream_topic("a1", "log")) for _ in range(3)]
        wakeups.notify(stream_topic("a1", "log"))
        assert [await waiter.wait(5) for waiter in waiters] == [True] * 3

    within(work)


def test_a_wake_up_that_nobody_waits_for_is_lost() -> None:
    async def work(wakeups: Wakeups) -> None:
        wakeups.notify(QUEUE)
        assert not await wakeups.subscribe(QUEUE).wait(0)

    within(work)


def test_a_waiter_who_leaves_is_forgotten() -> None:
    async def work(wakeups: Wakeups) -> None:
        waiter = wakeups.subscribe(QUEUE, BACKEND)
        waiting = asyncio.create_task(waiter.wait(60))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        wakeups.forget(waiter)  # twice is fine

    within(work)


def test_any_thread_may_wake() -> None:
    async def work(wakeups: Wakeups) -> None:
        waiters = [wakeups.subscribe(f"topic {number}") for number in range(20)]
        threads = [
            threading.Thread(target=wakeups.notify, args=(f"topic {number}",), name=f"waker {number}")
            for number in range(20)
        ]
        for thread in threads:
            thread.start()
        assert all(await asyncio.gather(*(waiter.wait(20) for waiter in waiters)))
        for thread in threads:
            thread.join(20)

    within(work)


def test_nobody_is_woken_before_the_loop_runs_or_after_it_has_ended() -> None:
    wakeups = Wakeups()
    wakeups.notify(QUEUE)

    async def go() -> None:
        wakeups.bind()

    asyncio.run(go())
    wakeups.notify(QUEUE)
    assert wakeups._waiters == {}

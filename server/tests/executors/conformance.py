"""The promises of `starforge.contract.executor`, as tests that every executor passes.

A test module makes them its own by importing `Conformance` into a class and giving a fixture `harness`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from server.tests.executors.harness import Harness
from starforge.contract.executor import FleetView, GpuState, NoRoom, Target
from starforge.contract.launch import LaunchRequest
from starforge.contract.observation import Gone, NoSignal, Observation, Phase, Seen
from starforge.errors import BackendUnreachable, LaunchRefused, NoCapacity

_DEADLINE_S = 60
SECRET = "conformance-s3cret"  # noqa: S105 - made up, to be looked for


def run(harness: Harness, scenario: Coroutine[Any, Any, None]) -> None:
    async def then_close() -> None:
        try:
            await asyncio.wait_for(scenario, _DEADLINE_S)
        finally:
            await harness.executor.close()  # in the loop that it was used in

    asyncio.run(then_close())


async def place(harness: Harness, request: LaunchRequest) -> Target:
    view = await harness.executor.capacity()
    assert isinstance(view, FleetView)
    target = harness.executor.place(request, view)
    assert isinstance(target, Target)
    return target


async def launch(harness: Harness, request: LaunchRequest) -> Target:
    target = await place(harness, request)
    await harness.executor.launch(request, target)
    return target


async def observe(harness: Harness, request: LaunchRequest) -> Observation:
    answer = await harness.executor.observe([request.attempt])
    return answer.get(request.attempt, NoSignal(reason="missing from the answer"))


async def count_free(harness: Harness) -> int:
    view = await harness.executor.capacity()
    assert isinstance(view, FleetView)
    return sum(gpu.state is GpuState.FREE for node in view.nodes for gpu in node.gpus)


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    while not await holds():
        continue


class Conformance:
    """One method a promise or a part of one."""

    def test_launch_twice_with_one_attempt_gives_one_container(self, harness: Harness) -> None:
        async def scenario() -> None:
            request = harness.make_request()
            target = await launch(harness, request)
            await asyncio.gather(*(harness.executor.launch(request, target) for _ in range(3)))
            await harness.settle(request.attempt, Phase.RUNNING)
            await harness.finish(request, 0)
            await harness.settle(request.attempt, Phase.EXITED)
            await harness.executor.launch(request, target)
            assert harness.count_starts(request.attempt) == 1

        run(harness, scenario())

    def test_no_capacity_leaves_nothing_behind(self, harness: Harness) -> None:
        async def scenario() -> None:
            late = harness.make_request()
            target = await place(harness, late)
            first = harness.make_request(gpus=harness.total_gpus)
            await launch(harness, first)
            with pytest.raises(NoCapacity):
                await harness.executor.launch(late, target)
            assert isinstance(await observe(harness, late), Gone)
            await harness.finish(first, 0)
            await harness.settle(first.attempt, Phase.EXITED)
            assert isinstance(await observe(harness, late), Gone)
            assert harness.count_starts(late.attempt) == 0

        run(harness, scenario())

    def test_launch_refused_leaves_nothing_behind(self, harness: Harness) -> None:
        async def scenario() -> None:
            request = harness.make_request()
            target = await place(harness, request)
            await harness.executor.fence(request.attempt)
            with pytest.raises(LaunchRefused):
                await harness.executor.launch(request, target)
            assert isinstance(await observe(harness, request), Gone)
            assert harness.count_starts(request.attempt) == 0
            assert await count_free(harness) == harness.total_gpus

        run(harness, scenario())

    def test_after_a_lost_reply_inventory_tells_and_a_repeat_is_safe(self, harness: Harness) -> None:
        async def scenario() -> None:
            request = harness.make_request()
            target = await place(harness, request)
            harness.lose_next_launch_reply()
            with pytest.raises(BackendUnreachable):
                await harness.executor.launch(request, target)
            inventory = await harness.executor.inventory()
            assert not isinstance(inventory, NoSignal)
            assert isinstance(inventory[request.attempt], Seen)
            await harness.executor.launch(request, target)
            await harness.settle(request.attempt, Phase.RUNNING)
            assert harness.count_starts(request.attempt) == 1

        run(harness, scenario())

    def test_a_backend_that_is_away_gives_no_signal_and_never_gone(self, harness: Harness) -> None:
        async def scenario() -> None:
            known, unknown = harness.make_request(), harness.make_request()
            target = await launch(harness, known)
            harness.make_unreachable()
            for request in (known, unknown):
                assert isinstance(await observe(harness, request), NoSignal)
            assert isinstance(await harness.executor.inventory(), NoSignal)
            offered = await harness.executor.capacity()  # what was known before may still be shown, and is no place
            assert isinstance(offered, NoSignal) or not any(node.accepts for node in offered.nodes)
            assert isinstance(await harness.executor.fence(unknown.attempt), NoSignal)
            for call in (
                harness.executor.stop(known.attempt, 1),
                harness.executor.cleanup(known.attempt),
                harness.executor.launch(harness.make_request(), target),
            ):
                with pytest.raises(BackendUnreachable):
                    await call
            harness.make_reachable()
            await harness.settle(known.attempt, Phase.RUNNING)
            assert isinstance(await observe(harness, unknown), Gone)

        run(harness, scenario())

    def test_one_unknown_attempt_spoils_no_other(self, harness: Harness) -> None:
        async def scenario() -> None:
            known, unknown = harness.make_request(), harness.make_request()
            await launch(harness, known)
            answer = await harness.executor.observe([unknown.attempt, known.attempt])
            assert isinstance(answer[known.attempt], Seen)
            assert isinstance(answer[unknown.attempt], Gone)

        run(harness, scenario())

    def test_a_fence_before_the_launch_holds_over_a_restart(self, harness: Harness) -> None:
        async def scenario() -> None:
            request = harness.make_request()
            target = await place(harness, request)
            answer = await harness.executor.fence(request.attempt)
            assert isinstance(answer, Gone)
            assert answer.fenced
            await harness.restart()
            with pytest.raises(LaunchRefused):
                await harness.executor.launch(request, target)
            assert harness.count_starts(request.attempt) == 0

        run(harness, scenario())

    def test_a_fenced_attempt_does_not_start_from_a_launch_in_flight(self, harness: Harness) -> None:
        async def scenario() -> None:
            request = harness.make_request()
            target = await place(harness, request)
            held = await harness.hold_next_launch(lambda: harness.executor.launch(request, target))
            fencing = asyncio.ensure_future(harness.executor.fence(request.attempt))
            await asyncio.sleep(0)
            await held.let_pass()
            answer = await fencing
            if isinstance(answer, Gone):
                assert answer.fenced
                assert harness.count_starts(request.attempt) == 0
                assert isinstance(await observe(harness, request), Gone)
            else:
                assert isinstance(answer, Seen)
                assert harness.count_starts(request.attempt) == 1

        run(harness, scenario())

    def test_a_fence_of_what_runs_says_so_and_ends_nothing(self, harness: Harness) -> None:
        async def scenario() -> None:
            request = harness.make_request()
            await launch(harness, request)
            await harness.settle(request.attempt, Phase.RUNNING)
            assert isinstance(await harness.executor.fence(request.attempt), Seen)
            await harness.finish(request, 5)
            seen = await harness.settle(request.attempt, Phase.EXITED)
            assert seen.exit is not None
            assert seen.exit.code == 5

        run(harness, scenario())

    def test_stop_can_be_repeated_and_is_fine_after_the_exit(self, harness: Harness) -> None:
        async def scenario() -> None:
            request = harness.make_request()
            await launch(harness, request)
            await harness.settle(request.attempt, Phase.RUNNING)
            for remaining_s in (30.0, 29.9, 29.8):
                await harness.executor.stop(request.attempt, remaining_s)
            await harness.settle(request.attempt, Phase.EXITED)
            await harness.executor.stop(request.attempt, 0)
            await harness.executor.stop(harness.make_request().attempt, 0)

        run(harness, scenario())

    def test_an_exit_is_kept_until_cleanup_and_gpus_are_free_before_it(self, harness: Harness) -> None:
        async def scenario() -> None:
            request = harness.make_request()
            await launch(harness, request)
            running = await harness.settle(request.attempt, Phase.RUNNING)
            assert len(running.gpus) == 1
            assert await count_free(harness) == harness.total_gpus - 1
            await harness.finish(request, 7)
            await harness.settle(request.attempt, Phase.EXITED)
            assert await count_free(harness) == harness.total_gpus
            for _ in range(2):
                seen = await observe(harness, request)
                assert isinstance(seen, Seen)
                assert seen.exit is not None
                assert seen.exit.code == 7
            await harness.executor.cleanup(request.attempt)
            await harness.executor.cleanup(request.attempt)
            assert isinstance(await observe(harness, request), Gone)

        run(harness, scenario())

    def test_no_secret_is_seen_anywhere(self, harness: Harness) -> None:
        async def scenario() -> None:
            request = harness.make_request(secret=SECRET)
            await launch(harness, request)
            seen = await harness.settle(request.attempt, Phase.RUNNING)
            visible = harness.read_visible(request.attempt)
            assert request.attempt in visible
            inventory = await harness.executor.inventory()
            for place_of_it in (visible, repr(seen), repr(request), repr(inventory)):
                assert SECRET not in place_of_it

        run(harness, scenario())

    def test_a_restart_changes_nothing(self, harness: Harness) -> None:
        async def scenario() -> None:
            running, ended = harness.make_request(), harness.make_request()
            target = await launch(harness, running)
            await launch(harness, ended)
            await harness.settle(running.attempt, Phase.RUNNING)
            await harness.settle(ended.attempt, Phase.RUNNING)
            await harness.finish(ended, 4)
            await harness.settle(ended.attempt, Phase.EXITED)
            await harness.restart()
            seen = await observe(harness, ended)
            assert isinstance(seen, Seen)
            assert seen.exit is not None
            assert seen.exit.code == 4
            assert (await harness.settle(running.attempt, Phase.RUNNING)).gpus
            await harness.executor.launch(running, target)
            assert await count_free(harness) == harness.total_gpus - 1
            assert harness.count_starts(running.attempt) == 1
            await harness.finish(running, 6)
            seen = await harness.settle(running.attempt, Phase.EXITED)
            assert seen.exit is not None
            assert seen.exit.code == 6

        run(harness, scenario())

    def test_sweep_takes_what_ended_and_is_unknown_and_nothing_that_runs(self, harness: Harness) -> None:
        async def scenario() -> None:
            running, unknown, known = harness.make_request(), harness.make_request(), harness.make_request()
            for request in (running, unknown, known):
                await launch(harness, request)
                await harness.settle(request.attempt, Phase.RUNNING)
            for request in (unknown, known):
                await harness.finish(request, 0)
                await harness.settle(request.attempt, Phase.EXITED)
            assert list(await harness.executor.sweep([known.attempt])) == [unknown.attempt]
            assert isinstance(await observe(harness, unknown), Gone)
            assert isinstance(await observe(harness, known), Seen)
            await harness.settle(running.attempt, Phase.RUNNING)

        run(harness, scenario())

    def test_an_exit_wakes_whoever_listens(self, harness: Harness) -> None:
        async def scenario() -> None:
            loop, woken = asyncio.get_running_loop(), asyncio.Event()
            request = harness.make_request()
            await launch(harness, request)
            await harness.settle(request.attempt, Phase.RUNNING)

            def wake() -> None:
                loop.call_soon_threadsafe(woken.set)

            await harness.executor.start(wake)

            async def has_ended() -> bool:
                await asyncio.wait_for(woken.wait(), 20)
                woken.clear()
                seen = await observe(harness, request)
                return isinstance(seen, Seen) and seen.phase is Phase.EXITED

            await harness.finish(request, 0)
            await eventually(has_ended)
            await harness.executor.close()

        run(harness, scenario())

    def test_what_never_fits_is_said_to_never_fit(self, harness: Harness) -> None:
        async def scenario() -> None:
            view = await harness.executor.capacity()
            assert isinstance(view, FleetView)
            answer = harness.executor.place(harness.make_request(gpus=harness.total_gpus + 1), view)
            assert isinstance(answer, NoRoom)
            assert answer.never
            assert all(answer.per_node.values())

        run(harness, scenario())

"""What goes wrong on a cluster, on a real one: nothing starts twice, and what is not known is not guessed."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from e2e.support.slurm_lab import SlurmLab
from server.tests.executors.conformance import SECRET, run
from server.tests.executors.on_engine import COUNTS
from server.tests.executors.slurm.on_slurm import SlurmHarness, ready_lab, slurm_harness
from starforge.contract.executor import FleetView, NoRoom
from starforge.contract.launch import LaunchRequest, Secret
from starforge.contract.observation import EndCause, Failure, Gone, NoSignal, Observation, Phase, Seen
from starforge.errors import BackendUnreachable, Conflict, LaunchRefused
from starforge_console.executors.slurm.settings import SigningKey, StaticToken, TokenFile
from starforge_console.executors.slurm.tokens import Tokens

pytestmark = pytest.mark.slurm
MIB = 1024**2


@pytest.fixture(scope="module")
def lab() -> Iterator[SlurmLab]:
    with ready_lab() as lab:
        yield lab


@pytest.fixture
def harness(lab: SlurmLab, tmp_path: Path) -> Iterator[SlurmHarness]:
    with slurm_harness(lab, tmp_path) as harness:
        yield harness


def play(harness: SlurmHarness, scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run(harness, scenario())


async def look(harness: SlurmHarness, request: LaunchRequest) -> Observation:
    return (await harness.executor.observe([request.attempt]))[request.attempt]


async def begin(harness: SlurmHarness, script: str = COUNTS, *, secret: str = "", grace_s: float = 5) -> LaunchRequest:
    """A job that runs."""
    request = harness.make_request(script=script, secret=secret, grace_s=grace_s)
    await harness.launch(request)
    await harness.settle(request.attempt, Phase.RUNNING)
    return request


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    while not await holds():
        await asyncio.to_thread(time.sleep, 0.05)


def read(request: LaunchRequest, name: str) -> str:
    return Path(request.workdir, name).read_text()


def read_all(request: LaunchRequest) -> str:
    """Whatever is left in the attempt's directory."""
    return "".join(path.read_text() for path in Path(request.workdir).rglob("*") if path.is_file())


def read_state(harness: SlurmHarness, request: LaunchRequest) -> str:
    """What Slurm itself calls the job's state."""
    name = f"starforge-{request.attempt}"
    return harness.lab.run("squeue", "-h", "-o", "%T", "-n", name, "-t", "all").strip()


def find_job_id(harness: SlurmHarness, request: LaunchRequest) -> str:
    text = harness.lab.run("squeue", "-h", "-o", "%i", "-n", f"starforge-{request.attempt}", "-t", "all")
    return text.split()[0]


def test_a_drained_node_takes_nothing_and_its_job_goes_on(harness: SlurmHarness) -> None:
    async def scenario() -> None:
        running = await begin(harness)
        harness.lab.drain(harness.lab.nodes[0])
        view = await harness.executor.capacity()
        assert isinstance(view, FleetView)
        (node,) = view.nodes
        assert not node.accepts
        assert "DRAIN" in node.why_not
        assert isinstance(harness.executor.place(harness.make_request(), view), NoRoom)
        await harness.finish(running, 0)
        ended = await harness.settle(running.attempt, Phase.EXITED)
        assert ended.exit is not None
        assert ended.exit.code == 0

    play(harness, scenario)


def test_a_node_that_goes_down_ends_its_job_without_a_code(harness: SlurmHarness) -> None:
    async def scenario() -> None:
        request = await begin(harness)
        harness.lab.set_down(harness.lab.nodes[0])
        ended = await harness.settle(request.attempt, Phase.EXITED)
        assert ended.exit is not None
        assert ended.exit.code is None
        assert ended.exit.cause is EndCause.NODE_FAILED

    play(harness, scenario)


def test_an_administrators_cancel_is_told_by_its_signal(harness: SlurmHarness) -> None:
    async def scenario() -> None:
        request = await begin(harness)
        harness.lab.run("scancel", find_job_id(harness, request))
        ended = await harness.settle(request.attempt, Phase.EXITED)
        assert ended.exit is not None
        assert ended.exit.code == 143
        assert "CANCELLED" in ended.exit.error

    play(harness, scenario)


async def queue_behind_others(harness: SlurmHarness) -> LaunchRequest:
    """A job that waits, since another user's took the room while it was on its way."""
    request = harness.make_request()
    held = await harness.hold_next_launch(lambda: harness.launch(request))
    harness.lab.submit_as("bob", "--partition=solo", "--gres=gpu:4", "--wrap", "sleep 300")
    await held.let_pass()
    seen = await look(harness, request)
    assert isinstance(seen, Seen)
    assert seen.phase is Phase.PREPARING
    assert "waits in Slurm's queue" in seen.note
    return request


def test_a_job_that_is_cancelled_before_it_began_never_ran(harness: SlurmHarness) -> None:
    async def scenario() -> None:
        request = await queue_behind_others(harness)
        harness.lab.run("scancel", find_job_id(harness, request))
        ended = await harness.settle(request.attempt, Phase.EXITED)
        assert ended.failure is Failure.START_FAILED
        assert harness.count_starts(request.attempt) == 0

    play(harness, scenario)


def test_a_stop_takes_what_waits_out_of_the_queue(harness: SlurmHarness) -> None:
    async def scenario() -> None:
        request = await queue_behind_others(harness)
        await harness.executor.stop(request.attempt, 30)
        ended = await harness.settle(request.attempt, Phase.EXITED)
        assert ended.exit is None
        assert harness.count_starts(request.attempt) == 0

    play(harness, scenario)


def test_a_fence_takes_what_waits_out_of_the_queue_and_so_does_a_sweep(harness: SlurmHarness) -> None:
    async def scenario() -> None:
        request = await queue_behind_others(harness)
        assert list(await harness.executor.sweep([request.attempt])) == []
        assert list(await harness.executor.sweep([])) == [request.attempt]
        harness.lab.run("scancel", "--user=bob")
        await until(lambda: has_left(request))
        assert isinstance(await look(harness, request), Gone)
        assert harness.count_starts(request.attempt) == 0

    async def has_left(request: LaunchRequest) -> bool:
        return read_state(harness, request) == "CANCELLED"

    play(harness, scenario)


def test_a_dead_controller_is_no_signal_and_what_ended_meanwhile_is_told(harness: SlurmHarness) -> None:
    async def scenario() -> None:
        request = await begin(harness)
        await asyncio.to_thread(harness.lab.stop_controller)
        assert isinstance(await look(harness, request), NoSignal)
        with pytest.raises(BackendUnreachable):
            await harness.executor.stop(request.attempt, 5)
        await harness.finish(request, 4)
        await asyncio.to_thread(harness.lab.start_controller)
        ended = await harness.settle(request.attempt, Phase.EXITED)
        assert ended.exit is not None
        assert ended.exit.code == 4

    play(harness, scenario)


def test_a_controller_that_crashed_and_forgot_the_start_starts_nothing_twice(tmp_path: Path) -> None:
    with ready_lab() as lab, slurm_harness(lab, tmp_path) as harness:

        async def scenario() -> None:
            request = await begin(harness)
            await asyncio.to_thread(lab.kill_controller)
            assert isinstance(await look(harness, request), NoSignal)
            await asyncio.to_thread(lab.start_controller)
            await harness.finish(request, 4)
            ended = await harness.settle(request.attempt, Phase.EXITED)
            assert ended.exit is not None
            assert ended.exit.code != 0
            assert harness.count_starts(request.attempt) == 1

        play(harness, scenario)


def test_a_token_that_is_refused_says_so_and_ends_nothing(harness: SlurmHarness) -> None:
    async def scenario() -> None:
        request = await begin(harness)
        expired = Tokens(SigningKey(harness.lab.jwt_key), lambda: time.time() - 7200).load("ada")
        assert expired is not None
        for token in (
            StaticToken(expired),
            StaticToken(Secret("no.token.atall")),
            TokenFile(harness.root / "no"),
        ):
            other = harness.open(token=token, state_dir=harness.root / "other")
            for answer in (
                (await other.observe([request.attempt]))[request.attempt],
                await other.inventory(),
                await other.capacity(),
                await other.fence(request.attempt),
            ):
                assert isinstance(answer, NoSignal), answer
            with pytest.raises(BackendUnreachable):
                await other.launch(harness.make_request(), None)  # type: ignore[arg-type]  # no target is looked at
            await other.close()
        assert isinstance(await look(harness, request), Seen)

    play(harness, scenario)


def test_a_second_submission_of_one_attempt_starts_nothing(harness: SlurmHarness) -> None:
    async def scenario() -> None:
        request = harness.make_request()
        held = await harness.hold_next_launch(lambda: harness.launch(request))
        # The console dies with a submission on its way, and the next one, which finds nothing yet, submits again.
        again = harness.open()
        view = await again.capacity()
        assert isinstance(view, FleetView)
        await again.launch(request, None)  # type: ignore[arg-type]  # no target is looked at
        await harness.settle(request.attempt, Phase.RUNNING)
        await held.let_pass()
        await until(lambda: is_listed_twice(request))
        seen = await look(harness, request)
        assert isinstance(seen, Seen)
        assert seen.phase is Phase.RUNNING
        await harness.finish(request, 3)
        ended = await harness.settle(request.attempt, Phase.EXITED)
        assert ended.exit is not None
        assert ended.exit.code == 3
        assert harness.count_starts(request.attempt) == 1
        await again.close()

    async def is_listed_twice(request: LaunchRequest) -> bool:
        listed = harness.lab.run("squeue", "-h", "-o", "%i %T", "-n", f"starforge-{request.attempt}", "-t", "all")
        return len(listed.splitlines()) == 2 and "FAILED" in listed

    play(harness, scenario)


def test_a_fence_holds_against_a_submission_that_arrives_after_it(harness: SlurmHarness) -> None:
    async def scenario() -> None:
        request = harness.make_request(secret=SECRET)
        held = await harness.hold_next_launch(lambda: harness.launch(request))
        answer = await harness.open().fence(request.attempt)  # a console that has started since
        assert isinstance(answer, Gone)
        assert answer.fenced
        harness.executor._launching._fences._folder.joinpath(request.attempt).unlink()  # noqa: SLF001 - as if it did not know
        await held.let_pass()
        await until(lambda: has_ended(request))
        assert harness.count_starts(request.attempt) == 0
        assert isinstance(await look(harness, request), Gone)
        assert SECRET not in read_all(request)

    async def has_ended(request: LaunchRequest) -> bool:
        return read_state(harness, request) == "FAILED"

    play(harness, scenario)


def test_a_stop_gives_the_whole_grace_and_the_jobs_own_code_counts(harness: SlurmHarness) -> None:
    async def scenario() -> None:
        script = (
            "trap 'echo TERM >>told; sleep 2; echo saved >saved; exit 6' TERM;"
            " echo x >>starts; while :; do sleep 0.1; done"
        )
        request = await begin(harness, script)
        for remaining_s in (30.0, 29.9):
            await harness.executor.stop(request.attempt, remaining_s)
        with pytest.raises(Conflict):
            await harness.executor.cleanup(request.attempt)
        ended = await harness.settle(request.attempt, Phase.EXITED)
        assert ended.exit is not None
        assert ended.exit.code == 6
        assert read(request, "saved")
        assert read(request, "told") == "TERM\n"

    play(harness, scenario)


def test_what_ignores_its_stop_is_killed_by_its_own_node(harness: SlurmHarness) -> None:
    async def scenario() -> None:
        request = await begin(harness, "trap '' TERM; echo x >>starts; while :; do sleep 0.1; done", grace_s=0)
        await harness.executor.stop(request.attempt, 0)
        await harness.executor.close()  # nothing of the console helps
        await harness.settle(request.attempt, Phase.EXITED)
        assert not [line for line in harness.lab.list_pids().values() if "starts" in line]

    play(harness, scenario)


def test_nothing_outlives_a_job_and_no_secret_does(harness: SlurmHarness) -> None:
    async def scenario() -> None:
        script = f"cat $FORGE_SECRETS_DIR/TOKEN | sha256sum >given; setsid -f sleep 4321; (sleep 4322 &); {COUNTS}"
        request = await begin(harness, script, secret=SECRET)
        assert find_secrets(request)
        harness.lab.run("scancel", find_job_id(harness, request))
        await harness.settle(request.attempt, Phase.EXITED)
        await harness.executor.cleanup(request.attempt)
        assert not [line for line in harness.lab.list_pids().values() if "432" in line]
        assert not find_secrets(request)
        assert SECRET not in read_all(request)

    play(harness, scenario)


def find_secrets(request: LaunchRequest) -> list[Path]:
    return list(Path("/dev/shm").glob(f"starforge-{request.attempt}-*"))  # noqa: S108 - where nodes keep them


def test_two_jobs_share_a_node_with_ports_of_their_own(harness: SlurmHarness) -> None:
    async def scenario() -> None:
        script = f"echo $FORGE_PORT_BASE $CUDA_VISIBLE_DEVICES >has; {COUNTS}"
        one, other = await begin(harness, script), await begin(harness, script)
        has = [read(request, "has").split() for request in (one, other)]
        assert len({ports for ports, _ in has}) == 2
        assert len({gpu for _, gpu in has}) == 2

    play(harness, scenario)


def test_two_nodes_know_their_ranks_and_their_leader(harness: SlurmHarness) -> None:
    async def scenario() -> None:
        script = (
            "cat $FORGE_SECRETS_DIR/TOKEN | wc -c >secret$FORGE_NODE_RANK;"
            " echo $FORGE_LEADER_ADDR $SLURMD_NODENAME $FORGE_ATTEMPT >rank$FORGE_NODE_RANK;"
            " until [ -s code ]; do sleep 0.02; done; exit $((FORGE_NODE_RANK * $(cat code)))"
        )
        request = await start_on(harness, script, [2])
        folder = Path(request.workdir)
        await until(lambda: exist(folder / "rank0", folder / "rank1"))
        lines = [(folder / f"rank{rank}").read_text().split() for rank in (0, 1)]
        assert [line[0] for line in lines] == ["127.0.0.1"] * 2
        assert [line[1] for line in lines] == list(harness.lab.nodes[:2])
        assert (folder / "secret1").read_text().strip() == str(len(SECRET))
        await harness.finish(request, 9)
        ended = await harness.settle(request.attempt, Phase.EXITED)
        assert ended.exit is not None
        assert ended.exit.code == 9

    with slurm_harness(harness.lab, harness.root, partition="main") as wide:
        harness = wide
        play(wide, scenario)


def test_pools_become_one_job_whose_ranks_go_on(harness: SlurmHarness) -> None:
    async def scenario() -> None:
        script = (
            "cat $FORGE_SECRETS_DIR/TOKEN >/dev/null && echo $SLURMD_NODENAME >rank$FORGE_NODE_RANK;"
            " until [ -s code ]; do sleep 0.02; done; [ $FORGE_NODE_RANK != 2 ] || exit $(cat code);"
            " until false; do sleep 0.02; done"
        )
        request = await start_on(harness, script, [1, 2])
        folder = Path(request.workdir)
        await until(lambda: exist(*(folder / f"rank{rank}" for rank in range(3))))
        assert len({(folder / f"rank{rank}").read_text() for rank in range(3)}) == 3
        seen = await look(harness, request)
        assert isinstance(seen, Seen)
        assert seen.phase is Phase.RUNNING
        assert len(seen.gpus) == 3
        await harness.finish(request, 9)  # one pool's end ends the other
        ended = await harness.settle(request.attempt, Phase.EXITED)
        assert ended.exit is not None
        assert ended.exit.code == 9

    with slurm_harness(harness.lab, harness.root, partition="main") as wide:
        harness = wide
        play(wide, scenario)


def test_a_node_that_fails_under_one_pool_explains_the_end_of_all(lab: SlurmLab, tmp_path: Path) -> None:
    with slurm_harness(lab, tmp_path, partition="main") as harness:

        async def scenario() -> None:
            request = await start_on(harness, COUNTS, [1, 2])
            seen = await harness.settle(request.attempt, Phase.RUNNING)
            harness.lab.set_down(seen.gpus[-1].partition("/")[0])
            ended = await harness.settle(request.attempt, Phase.EXITED)
            assert ended.exit is not None
            assert ended.exit.cause is EndCause.NODE_FAILED

        play(harness, scenario)


async def start_on(harness: SlurmHarness, script: str, nodes: list[int]) -> LaunchRequest:
    request = harness.make_request(script=script, secret=SECRET)
    (pool,) = request.pools
    request = replace(request, pools=tuple(replace(pool, name=f"p{count}", nodes=count) for count in nodes))
    await harness.launch(request)
    return request


async def exist(*paths: Path) -> bool:
    return all(path.exists() and path.read_text() for path in paths)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"partition": "theirs", "account": "x"}, "AccountNotAllowed"),
        ({"constraint": "fast"}, "names a feature that no node has"),
    ],
)
def test_settings_that_slurm_refuses_are_refused_clearly(
    lab: SlurmLab, tmp_path: Path, settings: dict[str, str], words: str
) -> None:
    with slurm_harness(lab, tmp_path, **settings) as harness:

        async def scenario() -> None:
            request = harness.make_request()
            with pytest.raises(LaunchRefused, match=words):
                await harness.launch(request)
            assert isinstance(await look(harness, request), Gone)

        play(harness, scenario)


def test_a_partition_that_is_down_or_unknown_takes_nothing(lab: SlurmLab, tmp_path: Path) -> None:
    with slurm_harness(lab, tmp_path, partition="closed") as harness:

        async def scenario() -> None:
            view = await harness.executor.capacity()
            assert isinstance(view, FleetView)
            assert [node.why_not for node in view.nodes] == ["partition closed is not up"]
            lost = harness.open(partition="nowhere")
            answer = await lost.capacity()
            assert isinstance(answer, NoSignal)
            assert answer.reason == "the cluster has no partition nowhere"
            await lost.close()

        play(harness, scenario)


def test_a_forgotten_job_is_gone_and_one_that_was_seen_to_end_is_not(tmp_path: Path) -> None:
    with ready_lab(min_job_age_s=2) as lab, slurm_harness(lab, tmp_path) as harness:

        async def scenario() -> None:
            seen, unseen = await begin(harness), await begin(harness)
            for request in (seen, unseen):
                await harness.finish(request, 5)
            await harness.settle(seen.attempt, Phase.EXITED)
            await until(is_forgotten)
            kept = await look(harness, seen)
            assert isinstance(kept, Seen)
            assert kept.exit is not None
            assert kept.exit.code == 5
            gone = await look(harness, unseen)
            assert isinstance(gone, Gone)
            assert "has forgotten job" in gone.note

        async def is_forgotten() -> bool:
            return not harness.lab.run("squeue", "-h", "-t", "all").strip()

        play(harness, scenario)


def test_a_job_that_slurm_queues_again_begins_once_and_has_ended(tmp_path: Path) -> None:
    with ready_lab(requeues=True) as lab, slurm_harness(lab, tmp_path) as harness:

        async def scenario() -> None:
            request = await begin(harness)
            harness.lab.control("requeue", find_job_id(harness, request))
            ended = await harness.settle(request.attempt, Phase.EXITED)
            assert ended.exit is not None
            assert ended.exit.code is None
            assert ended.exit.cause is EndCause.NODE_FAILED
            await harness.executor.cleanup(request.attempt)
            await until(lambda: has_left(request))
            assert harness.count_starts(request.attempt) == 1

        async def has_left(request: LaunchRequest) -> bool:
            listed = harness.lab.run("squeue", "-h", "-o", "%T", "-n", f"starforge-{request.attempt}", "-t", "all")
            return listed.strip() in {"CANCELLED", "FAILED"}

        play(harness, scenario)


def test_a_job_beyond_its_memory_is_told_as_such(tmp_path: Path) -> None:
    with ready_lab(limits_memory=True) as lab, slurm_harness(lab, tmp_path) as harness:

        async def scenario() -> None:
            script = "echo x >>starts; /usr/bin/python3 -c 'x = b\"x\" * 600_000_000; print(len(x))'"
            request = harness.make_request(script=script)
            (pool,) = request.pools
            await harness.launch(replace(request, pools=(replace(pool, memory_bytes=100 * MIB),)))
            ended = await harness.settle(request.attempt, Phase.EXITED)
            assert ended.exit is not None
            assert ended.exit.out_of_memory
            assert ended.exit.code

        play(harness, scenario)


def test_a_killed_daemon_of_a_node_is_told_as_a_failed_node(tmp_path: Path) -> None:
    with ready_lab(node_timeout_s=5) as lab, slurm_harness(lab, tmp_path) as harness:

        async def scenario() -> None:
            request = await begin(harness)
            await asyncio.to_thread(lab.kill_node, lab.nodes[0])
            ended = await harness.settle(request.attempt, Phase.EXITED)
            assert ended.exit is not None
            assert ended.exit.cause is EndCause.NODE_FAILED
            view = await harness.executor.capacity()
            assert isinstance(view, FleetView)
            assert not view.nodes[0].accepts
            await asyncio.to_thread(lab.start_node, lab.nodes[0])

        play(harness, scenario)


@pytest.mark.timeout(240)
def test_the_partitions_limit_ends_a_job_and_says_so(lab: SlurmLab, tmp_path: Path) -> None:
    with slurm_harness(lab, tmp_path, partition="short") as harness:

        async def scenario() -> None:
            heeds = harness.make_request(script="trap 'echo x >>told; exit 6' TERM; while :; do sleep 0.1; done")
            await harness.launch(heeds)
            ended = await harness.settle(heeds.attempt, Phase.EXITED)
            assert ended.exit is not None
            assert ended.exit.cause is EndCause.TIME_LIMIT
            assert read(heeds, "told")

        play(harness, scenario)

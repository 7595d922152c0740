import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from server.tests.executors.conformance import Conformance
from starforge.contract.executor import Executor, FleetView, NoRoom, Target
from starforge.contract.ids import AttemptId, Digest, job_of, new_attempt_id, new_job_id, number_of
from starforge.contract.launch import LaunchRequest, Network, PoolRequest, Secret
from starforge.contract.observation import Failure, Gone, NoSignal, Phase, Seen
from starforge.errors import BackendUnreachable, NodeFault
from starforge_console.executors.fake import FakeExecutor
from starforge_console.executors.scripting import FakeNode, Script


def make_request(gpus: int = 1, **changes: object) -> LaunchRequest:
    attempt = new_attempt_id(new_job_id(), 1)
    request = LaunchRequest(
        attempt=attempt,
        job=job_of(attempt),
        number=number_of(attempt),
        install="lab",
        fleet="f",
        image="train:1",
        command=(),
        workdir="/a",
        user=None,
        env={},
        secrets={},
        mounts=(),
        pools=(PoolRequest(name="main", nodes=1, gpus_per_node=gpus),),
        labels={},
        network=Network.BRIDGE,
        grace_s=30,
        max_runtime_s=None,
        shm_bytes=None,
        capsule_digest=Digest("sha256:" + "0" * 64),
        ingest_url="",
    )
    return replace(request, **changes)  # type: ignore[arg-type]  # fields by name


class Held:
    def __init__(self, fake: FakeExecutor) -> None:
        self._fake = fake

    async def let_pass(self) -> None:
        self._fake.deliver()


class FakeHarness:
    total_gpus = 4

    def __init__(self) -> None:
        self.fake = FakeExecutor("f", [FakeNode(name="n1", gpus=4)])

    @property
    def executor(self) -> Executor:
        return self.fake

    def make_request(self, *, gpus: int = 1, secret: str = "") -> LaunchRequest:
        return make_request(gpus, secrets={"TOKEN": Secret(secret)} if secret else {})

    async def finish(self, request: LaunchRequest, code: int) -> None:
        self.fake.finish(request.attempt, code)

    async def settle(self, attempt: AttemptId, phase: Phase) -> Seen:
        seen = (await self.fake.observe([attempt]))[attempt]
        assert isinstance(seen, Seen)
        assert seen.phase is phase
        return seen

    def lose_next_launch_reply(self) -> None:
        self.fake.lose_next_launch_reply()

    async def hold_next_launch(self, launch: Callable[[], Awaitable[None]]) -> Held:
        self.fake.hold_next_launch()
        with pytest.raises(BackendUnreachable):
            await launch()
        return Held(self.fake)

    def make_unreachable(self) -> None:
        self.fake.make_unreachable()

    def make_reachable(self) -> None:
        self.fake.make_reachable()

    async def restart(self) -> None:
        self.fake.restart_engine()

    def count_starts(self, attempt: AttemptId) -> int:
        return self.fake.journal.starts.get(attempt, 0)

    def read_visible(self, attempt: AttemptId) -> str:
        return repr(vars(self.fake)) + attempt


@pytest.fixture
def harness() -> FakeHarness:
    return FakeHarness()


@pytest.fixture
def fake() -> FakeExecutor:
    return FakeExecutor("f", [FakeNode(name="n1", gpus=4)])


class TestFakeKeepsThePromises(Conformance):
    pass


async def launch(fake: FakeExecutor, request: LaunchRequest) -> None:
    view = await fake.capacity()
    assert isinstance(view, FleetView)
    target = fake.place(request, view)
    assert isinstance(target, Target)
    await fake.launch(request, target)


def see(fake: FakeExecutor, request: LaunchRequest) -> Seen:
    seen = asyncio.run(fake.observe([request.attempt]))[request.attempt]
    assert isinstance(seen, Seen)
    return seen


def test_a_script_says_how_long_each_phase_takes(fake: FakeExecutor) -> None:
    fake.default_script = Script(prepare_steps=2, pull_bytes=100, run_steps=3, code=9, out_of_memory=True)
    request = make_request()
    asyncio.run(launch(fake, request))
    fake.advance()
    seen = see(fake, request)
    assert seen.phase is Phase.PREPARING
    assert seen.pull is not None
    assert (seen.pull.done_bytes, seen.pull.total_bytes) == (50, 100)
    fake.advance()
    assert see(fake, request).phase is Phase.RUNNING
    fake.advance(3)
    seen = see(fake, request)
    assert seen.phase is Phase.EXITED
    assert seen.exit is not None
    assert (seen.exit.code, seen.exit.out_of_memory) == (9, True)


def test_a_script_can_fail_instead_of_starting(fake: FakeExecutor) -> None:
    request = make_request()
    fake.scripts[request.attempt] = Script(prepare_steps=1, failure=Failure.PULL_DENIED)
    asyncio.run(launch(fake, request))
    fake.advance()
    assert (see(fake, request).failure, fake.journal.starts) == (Failure.PULL_DENIED, {})


def test_what_ignores_term_is_killed_at_the_deadline() -> None:
    now = [1000.0]
    fake = FakeExecutor("f", [FakeNode(name="n1")], now=lambda: now[0])
    fake.default_script = Script(stop_steps=None)
    request = make_request()
    asyncio.run(launch(fake, request))
    asyncio.run(fake.stop(request.attempt, 30))
    now[0] += 49
    asyncio.run(fake.stop(request.attempt, 30))
    fake.advance()
    assert see(fake, request).phase is Phase.RUNNING
    now[0] += 1
    fake.advance()
    seen = see(fake, request)
    assert seen.exit is not None
    assert seen.exit.code == 137


def test_a_launch_can_be_lost_or_refused(fake: FakeExecutor) -> None:
    request = make_request()
    fake.lose_next_launch_request()
    with pytest.raises(BackendUnreachable):
        asyncio.run(launch(fake, request))
    fake.refuse_next_launch(NodeFault("storage not mounted"))
    with pytest.raises(NodeFault):
        asyncio.run(launch(fake, request))
    assert isinstance(asyncio.run(fake.observe([request.attempt]))[request.attempt], Gone)
    asyncio.run(launch(fake, request))
    assert fake.journal.starts == {request.attempt: 1}


def test_an_engine_restart_can_end_what_runs_and_an_attempt_can_vanish(fake: FakeExecutor) -> None:
    first, second = make_request(), make_request()
    asyncio.run(launch(fake, first))
    asyncio.run(launch(fake, second))
    fake.vanish(second.attempt)
    fake.restart_engine(code=255)
    seen = see(fake, first)
    assert seen.exit is not None
    assert seen.exit.engine_started_at is not None
    assert seen.exit.finished_at is not None
    assert (seen.exit.code, seen.exit.finished_at >= seen.exit.engine_started_at) == (255, True)
    assert isinstance(asyncio.run(fake.observe([second.attempt]))[second.attempt], Gone)


def test_placement_on_the_fake_fleet_takes_the_emptiest_machine() -> None:
    fake = FakeExecutor("f", [FakeNode(name="b", gpus=2), FakeNode(name="a", gpus=2), FakeNode(name="c", gpus=1)])
    view = asyncio.run(fake.capacity())
    assert not isinstance(view, NoSignal)
    placed = fake.place(make_request(gpus=1), view)
    assert isinstance(placed, Target)
    assert placed.node == "a"
    assert isinstance(fake.place(make_request(gpus=3), view), NoRoom)

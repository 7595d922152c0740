"""A fleet in memory that does what it is told: for tests of whatever sits above executors, and for simulations.

Nothing happens by itself: `advance`, `finish` and the other verbs below the protocol's move it, in one thread, with a
clock that is given. It keeps the same promises as every other executor.
"""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from itertools import count
from typing import Final

from starforge.containers.spec import KILL_AFTER_GRACE_S, decide_share, require_one_node
from starforge.contract.executor import (
    Capabilities,
    FleetView,
    GpuState,
    GpuView,
    LogChunk,
    NodeView,
    NoRoom,
    PlacementAsk,
    Target,
)
from starforge.contract.ids import AttemptId
from starforge.contract.launch import LaunchRequest
from starforge.contract.observation import Exit, Failure, Gone, NoSignal, Observation, Phase, Pull, Seen
from starforge.errors import BackendUnreachable, LaunchError, LaunchRefused, NoCapacity
from starforge_console.domain.placement import place_on_one_node
from starforge_console.executors.scripting import FakeNode, Held, Journal, Script

_KILLED: Final = 137


class FakeExecutor:
    """A fleet of made-up machines."""

    kind: Final = "fake"
    capabilities: Final = Capabilities(multi_node=False, pools=False, live_logs=True)

    def __init__(self, fleet: str, nodes: Sequence[FakeNode], now: Callable[[], float] | None = None) -> None:
        """`now` gives Unix seconds; without it every call is one second later than the one before."""
        ticks = count(1_700_000_000)
        self._now = now or (lambda: float(next(ticks)))
        self._fleet = fleet
        self._nodes = {node.name: node for node in nodes}
        self._attempts: dict[AttemptId, Held] = {}
        self._living: dict[str, dict[AttemptId, Held]] = {node.name: {} for node in nodes}
        self._fences: set[AttemptId] = set()
        self._engine_started_at = self._now()
        self._wake: Callable[[], None] = lambda: None
        self._errors: list[LaunchError] = []
        self._lost_replies = 0
        self._lost_requests = 0
        self._holding = 0
        self._held_back: list[tuple[LaunchRequest, Target]] = []
        self._away: str | None = None
        self.scripts: dict[AttemptId, Script] = {}
        self.default_script = Script()
        self.journal = Journal()

    async def capacity(self) -> FleetView | NoSignal:
        """Every machine as it is now."""
        if self._away is not None:
            return NoSignal(reason=self._away)
        return FleetView(fleet=self._fleet, nodes=tuple(self._view(node) for node in self._nodes.values()))

    def place(self, ask: PlacementAsk, view: FleetView) -> Target | NoRoom:
        """Pure: as on real machines."""
        return place_on_one_node(ask, view)

    async def launch(self, request: LaunchRequest, target: Target) -> None:
        """Take the attempt in, unless a verb below says otherwise."""
        self._note("launch", request.attempt)
        if self._errors:
            raise self._errors.pop(0)
        if self._lost_requests:
            self._lost_requests -= 1
            raise BackendUnreachable(f"the launch of {request.attempt} did not arrive")
        if self._holding:
            self._holding -= 1
            self._held_back.append((request, target))
            raise BackendUnreachable(f"the launch of {request.attempt} is on its way")
        self._require_reachable()
        self._take_in(request, target)
        if self._lost_replies:
            self._lost_replies -= 1
            raise BackendUnreachable(f"the answer to the launch of {request.attempt} was lost")

    async def observe(self, attempts: Collection[AttemptId]) -> Mapping[AttemptId, Observation]:
        """What is held of these."""
        self._note("observe", None)
        if self._away is not None:
            return dict.fromkeys(attempts, NoSignal(reason=self._away))
        return {attempt: self._see(attempt) for attempt in attempts}

    async def fence(self, attempt: AttemptId) -> Observation:
        """Fence it and say what is held."""
        self._note("fence", attempt)
        if self._away is not None:
            return NoSignal(reason=self._away)
        self._fences.add(attempt)
        held = self._attempts.get(attempt)
        if held is not None and held.phase is Phase.PREPARING:
            self._forget(attempt)
        return self._see(attempt)

    async def stop(self, attempt: AttemptId, remaining_s: float) -> None:
        """TERM now and KILL 20 s after `remaining_s`, by the fleet's clock, when `advance` is called."""
        self._note("stop", attempt)
        self._require_reachable()
        held = self._attempts.get(attempt)
        if held is None or held.phase is Phase.EXITED:
            return
        if held.phase is Phase.PREPARING:
            self._fences.add(attempt)
            self.fail(attempt, Failure.NODE_FAULT)
            return
        if held.kill_at is None:
            held.stop_steps = held.script.stop_steps
        deadline = self._now() + max(0.0, remaining_s + KILL_AFTER_GRACE_S)
        held.kill_at = deadline if held.kill_at is None else min(held.kill_at, deadline)
        if held.stop_steps == 0:
            self._end(held, held.script.stop_code)

    async def cleanup(self, attempt: AttemptId) -> None:
        """Forget an ended attempt; it never starts again."""
        self._note("cleanup", attempt)
        self._require_reachable()
        self._fences.add(attempt)
        held = self._attempts.get(attempt)
        if held is not None and held.phase is not Phase.RUNNING:
            self._forget(attempt)

    async def inventory(self) -> Mapping[AttemptId, Observation] | NoSignal:
        """Everything that is held."""
        if self._away is not None:
            return NoSignal(reason=self._away)
        return {attempt: self._see(attempt) for attempt in self._attempts}

    async def sweep(self, known: Collection[AttemptId]) -> Sequence[str]:
        """Forget ended attempts that are not known."""
        self._require_reachable()
        gone = [a for a, held in self._attempts.items() if a not in known and held.phase is Phase.EXITED]
        for attempt in gone:
            self._forget(attempt)
        return gone

    async def find_native(self, attempt: AttemptId) -> str | None:
        """None: its container says what was asked for."""
        del attempt
        return None

    async def logs(self, attempt: AttemptId, cursor: str | None = None) -> AsyncIterator[LogChunk]:
        """What `say` was told, one chunk each."""
        self._require_reachable()
        held = self._attempts.get(attempt)
        lines = held.log if held is not None else []
        for number in range(int(cursor or 0), len(lines)):
            yield LogChunk(lines[number], str(number + 1))

    async def start(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever a verb changes something."""
        self._wake = wake

    async def close(self) -> None:
        """Wake nobody any more."""
        self._wake = lambda: None

    # The verbs: what a test lets happen.

    def advance(self, steps: int = 1) -> None:
        """Let one unit of work pass, `steps` times, for every attempt."""
        for _ in range(steps):
            for held in [held for living in self._living.values() for held in living.values()]:
                self._advance_one(held)

    def begin(self, attempt: AttemptId) -> None:
        """Let a PREPARING attempt run now."""
        self._run(self._attempts[attempt])

    def finish(self, attempt: AttemptId, code: int | None = 0, *, out_of_memory: bool = False) -> None:
        """Let it end with `code`; None is an exit that the engine has lost."""
        self._end(self._attempts[attempt], code, out_of_memory=out_of_memory)

    def fail(self, attempt: AttemptId, failure: Failure) -> None:
        """Let a PREPARING attempt end without having run."""
        held = self._attempts[attempt]
        held.phase, held.failure = Phase.EXITED, failure
        self._living[held.node].pop(attempt)
        self._wake()

    def vanish(self, attempt: AttemptId) -> None:
        """Let it be gone without a trace."""
        self._forget(attempt)
        self._wake()

    def say(self, attempt: AttemptId, line: bytes) -> None:
        """Let the attempt write to the engine's log."""
        self._attempts[attempt].log.append(line)

    def refuse_next_launch(self, error: LaunchError) -> None:
        """The next launch raises `error` and leaves nothing."""
        self._errors.append(error)

    def lose_next_launch_reply(self) -> None:
        """The next launch works, and its caller does not learn of it."""
        self._lost_replies += 1

    def lose_next_launch_request(self) -> None:
        """The next launch never arrives."""
        self._lost_requests += 1

    def hold_next_launch(self) -> None:
        """The next launch is still on its way when its caller has given up; `deliver` lets it arrive."""
        self._holding += 1

    def deliver(self) -> list[LaunchError]:
        """Let every launch arrive that was held back; gives what was refused."""
        refused = []
        for request, target in self._held_back:
            try:
                self._take_in(request, target)
            except LaunchError as error:
                refused.append(error)
        self._held_back.clear()
        return refused

    def make_unreachable(self, reason: str = "the machines do not answer") -> None:
        """Nobody answers until `make_reachable`."""
        self._away = reason

    def make_reachable(self) -> None:
        """Everybody answers again."""
        self._away = None
        self._wake()

    def restart_engine(self, *, code: int | None = None) -> None:
        """The engine starts anew: with a `code` every running attempt ends with it, without one they run on."""
        self._engine_started_at = self._now()
        for held in list(self._attempts.values()):
            if code is not None and held.phase is Phase.RUNNING:
                self._end(held, code)
        self._wake()

    def _take_in(self, request: LaunchRequest, target: Target) -> None:
        attempt = request.attempt
        if attempt in self._attempts:
            return
        if attempt in self._fences:
            raise LaunchRefused(f"{attempt} is fenced and never starts here")
        pool = require_one_node(request)
        node = self._nodes[target.node]
        answer = place_on_one_node(request, FleetView(fleet=self._fleet, nodes=(self._view(node),)))
        if isinstance(answer, NoRoom):
            raise NoCapacity(f"{attempt} does not fit", why=answer.per_node[node.name])
        free = [gpu.uuid for gpu in self._view(node).gpus if gpu.state is GpuState.FREE]
        script = self.scripts.get(attempt, self.default_script)
        held = Held(request, node.name, tuple(free[: pool.gpus_per_node]), script)
        self._attempts[attempt] = self._living[node.name][attempt] = held
        if script.prepare_steps == 0:
            self._decide_start(held)

    def _decide_start(self, held: Held) -> None:
        if held.script.failure is None:
            self._run(held)
        else:
            self.fail(held.request.attempt, held.script.failure)

    def _run(self, held: Held) -> None:
        attempt = held.request.attempt
        self.journal.starts[attempt] = self.journal.starts.get(attempt, 0) + 1
        held.phase, held.steps, held.started_at = Phase.RUNNING, 0, self._now()
        self._wake()

    def _advance_one(self, held: Held) -> None:
        held.steps += 1
        script = held.script
        if held.phase is Phase.PREPARING and script.prepare_steps is not None and held.steps >= script.prepare_steps:
            self._decide_start(held)
        elif held.phase is Phase.RUNNING and held.kill_at is not None:
            self._advance_stop(held, held.kill_at)
        elif held.phase is Phase.RUNNING and script.run_steps is not None and held.steps >= script.run_steps:
            self._end(held, script.code, out_of_memory=script.out_of_memory)

    def _advance_stop(self, held: Held, kill_at: float) -> None:
        if held.stop_steps is not None:
            held.stop_steps -= 1
        if held.stop_steps is not None and held.stop_steps <= 0:
            self._end(held, held.script.stop_code)
        elif self._now() >= kill_at:
            self._end(held, _KILLED)

    def _end(self, held: Held, code: int | None, *, out_of_memory: bool = False) -> None:
        held.phase = Phase.EXITED
        self._living[held.node].pop(held.request.attempt, None)
        held.exit = Exit(
            code=code,
            out_of_memory=out_of_memory,
            started_at=held.started_at,
            finished_at=self._now(),
            engine_started_at=self._engine_started_at,
        )
        self._wake()

    def _forget(self, attempt: AttemptId) -> None:
        held = self._attempts.pop(attempt)
        self._living[held.node].pop(attempt, None)

    def _see(self, attempt: AttemptId) -> Observation:
        held = self._attempts.get(attempt)
        if held is None:
            fenced = attempt in self._fences
            return Gone(at=self._now(), engine_started_at=self._engine_started_at, fenced=fenced)
        return Seen(
            phase=held.phase,
            at=self._now(),
            node=held.node,
            pull=self._build_pull(held),
            exit=held.exit,
            failure=held.failure,
            gpus=held.gpus,
            image_id=None if held.phase is Phase.PREPARING else "sha256:" + "f" * 64,
        )

    def _build_pull(self, held: Held) -> Pull | None:
        total, steps = held.script.pull_bytes, held.script.prepare_steps
        if held.phase is not Phase.PREPARING or not total:
            return None
        done = total * min(held.steps, steps) // steps if steps else 0
        image = held.request.image
        return Pull(image=image, done_bytes=done, total_bytes=total, progressed_at=self._now())

    def _view(self, node: FakeNode) -> NodeView:
        living = self._living[node.name].values()
        holders = {gpu: held.request.attempt for held in living for gpu in held.gpus}
        shares = {
            held.request.attempt: decide_share(held.request.pools[0], node.cpus, node.memory_bytes, node.gpus)
            for held in living
        }
        return NodeView(
            name=node.name,
            gpus=tuple(_view_gpu(node, index, holders) for index in range(node.gpus)),
            cpus=node.cpus,
            memory_bytes=node.memory_bytes,
            held={attempt: (share.cpus, share.memory_bytes) for attempt, share in shares.items()},
        )

    def _require_reachable(self) -> None:
        if self._away is not None:
            raise BackendUnreachable(self._away)

    def _note(self, call: str, attempt: AttemptId | None) -> None:
        self.journal.calls.append((call, attempt))


def _view_gpu(node: FakeNode, index: int, holders: Mapping[str, AttemptId]) -> GpuView:
    uuid = f"GPU-{node.name}-{index}"
    return GpuView(
        uuid=uuid,
        index=index,
        name=f"Made-up {node.series}",
        series=node.series,
        memory_bytes=None,
        state=GpuState.HELD if uuid in holders else GpuState.FREE,
        attempt=holders.get(uuid),
    )

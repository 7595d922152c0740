"""The wire between a console and its machines: an executor over `Machine`s whose calls are lost, late, or cut off."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final, NamedTuple, TypeVar

from simulation.machines import Machine
from simulation.rules import FLEET
from starforge.containers.host import ContainerHost
from starforge.contract.executor import FleetView, GpuState, LogChunk, NodeView, NoRoom, PlacementAsk, Target
from starforge.contract.ids import AttemptId
from starforge.contract.launch import LaunchRequest
from starforge.contract.observation import NoSignal, Observation
from starforge.errors import BackendUnreachable, LaunchError
from starforge_console.domain.placement import ONE_NODE, place_on_one_node

_TURNS_AT_MOST: Final = 3
_T = TypeVar("_T")


class Mishap(StrEnum):
    """What befalls one call on its way."""

    REQUEST_LOST = "request lost"
    REPLY_LOST = "reply lost"
    LATE = "request that arrives after its caller has given up"


class Harm(NamedTuple):
    """`mishap` befalls the next call of `method`; of whatever call where that is empty."""

    mishap: Mishap
    method: str = ""


class WireFleet:
    """Every promise of `starforge.contract.executor` over these machines.

    `locate` says where an attempt went, `find_refusal` why an administrator lets a machine take nothing new.
    """

    kind: Final = "node"
    capabilities: Final = ONE_NODE

    def __init__(
        self,
        machines: Sequence[Machine],
        locate: Callable[[AttemptId], str | None],
        find_refusal: Callable[[str], str],
        chance: random.Random,
    ) -> None:
        self.machines = {machine.name: machine for machine in machines}
        self.harms: list[Harm] = []
        self.met: Counter[str] = Counter()
        self._locate = locate
        self._find_refusal = find_refusal
        self._chance = chance
        self._late: list[Callable[[], object]] = []

    def deliver_late(self) -> None:
        """Let what is still on its way arrive."""
        late, self._late = self._late, []
        for arrive in late:
            try:
                arrive()
            except (LaunchError, BackendUnreachable):
                self.met["a late request was refused"] += 1

    async def capacity(self) -> FleetView | NoSignal:
        """What each machine offers; one that is cut off shows what it had as blocked."""
        await self._take_turns()
        return FleetView(fleet=FLEET, nodes=tuple(self._look(one) for one in self.machines.values()))

    def place(self, ask: PlacementAsk, view: FleetView) -> Target | NoRoom:
        """Pure: as fleets of daemons place."""
        return place_on_one_node(ask, view)

    async def launch(self, request: LaunchRequest, target: Target) -> None:
        """Launch it on the target's machine."""
        self.machines[target.node].track(request)
        await self._call("launch", target.node, lambda host: host.launch(request))

    async def observe(self, attempts: Collection[AttemptId]) -> Mapping[AttemptId, Observation]:
        """What each attempt's machine says."""
        found: dict[AttemptId, Observation] = {}
        for name in self.machines:
            mine = [attempt for attempt in attempts if self._locate(attempt) == name]
            if mine:
                found.update(await self._observe_on(name, mine))
        return found

    async def fence(self, attempt: AttemptId) -> Observation:
        """Fence it at its machine."""
        name = self._locate(attempt)
        if name is None:
            return NoSignal(reason="no machine is known for it")
        try:
            answer: Observation = await self._call("fence", name, lambda host: host.fence(attempt))
        except BackendUnreachable as error:
            return NoSignal(reason=str(error))
        if not isinstance(answer, NoSignal):
            tracked = self.machines[name].referee.attempts.get(attempt)
            if tracked is not None:
                tracked.over = "fenced"
        return answer

    async def stop(self, attempt: AttemptId, remaining_s: float) -> None:
        """Begin to stop it."""
        await self._call("stop", self._name_of(attempt), lambda host: host.stop(attempt, remaining_s))

    async def cleanup(self, attempt: AttemptId) -> None:
        """Remove what is left of it."""
        await self._call("cleanup", self._name_of(attempt), lambda host: host.cleanup(attempt))

    async def inventory(self) -> Mapping[AttemptId, Observation] | NoSignal:
        """Everything that the machines hold which answer."""
        held: dict[AttemptId, Observation] = {}
        for name in self.machines:
            try:
                told = await self._call("inventory", name, lambda host: host.inventory())
            except BackendUnreachable:
                continue
            if not isinstance(told, NoSignal):
                held.update(told)
        return held

    async def find_native(self, attempt: AttemptId) -> str | None:
        """None, as of every machine."""
        del attempt
        return None

    async def sweep(self, known: Collection[AttemptId]) -> Sequence[str]:
        """Remove what is idle and not known."""
        removed: list[str] = []
        for name in self.machines:
            try:
                removed += (await self._call("sweep", name, lambda host: host.sweep(known))).removed
            except BackendUnreachable:
                continue
        return removed

    async def logs(self, attempt: AttemptId, cursor: str | None = None) -> AsyncIterator[LogChunk]:
        """Nothing: programs here say nothing."""
        del attempt, cursor
        nothing: tuple[LogChunk, ...] = ()
        for chunk in nothing:
            yield chunk

    async def start(self, wake: Callable[[], None]) -> None:
        """Nobody is woken: a simulation moves every loop itself."""

    async def close(self) -> None:
        """Nothing is held."""

    async def _observe_on(self, name: str, attempts: Sequence[AttemptId]) -> Mapping[AttemptId, Observation]:
        try:
            return await self._call("observe", name, lambda host: host.observe(attempts))
        except BackendUnreachable as error:
            return dict.fromkeys(attempts, NoSignal(reason=str(error)))

    async def _call(self, method: str, name: str, do: Callable[[ContainerHost], _T]) -> _T:
        """Call a machine's daemon over the wire."""
        await self._take_turns()
        machine = self.machines[name]
        if machine.is_cut_off:
            raise BackendUnreachable(f"{name} does not answer")
        mishap = self._take_mishap(method)
        if mishap is not None:
            self.met[mishap.value] += 1
        if mishap is Mishap.LATE:
            self._late.append(lambda: machine.call(do))
        if mishap in {Mishap.LATE, Mishap.REQUEST_LOST}:
            raise BackendUnreachable(f"{name} did not answer in time")
        answer = machine.call(do)
        await self._take_turns()
        if mishap is Mishap.REPLY_LOST:
            raise BackendUnreachable(f"{name} was cut off before it answered")
        return answer

    def _take_mishap(self, method: str) -> Mishap | None:
        harm = next((one for one in self.harms if one.method in {"", method}), None)
        if harm is None:
            return None
        self.harms.remove(harm)
        return harm.mishap

    def _look(self, machine: Machine) -> NodeView:
        view = NoSignal(reason="it is cut off") if machine.is_cut_off else machine.look()
        if isinstance(view, NodeView):
            refusal = self._find_refusal(machine.name)
            return replace(view, accepts=False, why_not=refusal) if refusal else view
        last = machine.last_view or NodeView(name=machine.name, gpus=(), cpus=0.0, memory_bytes=0)
        blocked = tuple(replace(gpu, state=GpuState.BLOCKED, why=view.reason) for gpu in last.gpus)
        return replace(last, gpus=blocked, accepts=False, why_not=view.reason)

    def _name_of(self, attempt: AttemptId) -> str:
        name = self._locate(attempt)
        if name is None:
            raise BackendUnreachable(f"no machine is known for {attempt}")
        return name

    async def _take_turns(self) -> None:
        """Let whoever else is at work go on: how far differs from call to call."""
        for _ in range(self._chance.randrange(_TURNS_AT_MOST)):
            await asyncio.sleep(0)

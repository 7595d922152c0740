"""NodeExecutor: the machines of one fleet, each asked by its own daemon. It never chooses but in `place`."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

import structlog

from starforge.contract.executor import FleetView, LogChunk, NoRoom, PlacementAsk, Swept, Target
from starforge.contract.ids import AttemptId
from starforge.contract.launch import LaunchRequest
from starforge.contract.observation import NoSignal, Observation
from starforge.errors import BackendUnreachable, NodeFault, StarForgeError
from starforge.said.sentence import say
from starforge_console.domain.nodes import NodeState
from starforge_console.domain.placement import ONE_NODE, place_on_one_node
from starforge_console.executors.node.directory import KnownNode, NodeDirectory
from starforge_console.executors.node.link import LinkSettings, NodeLink, NodeSilent
from starforge_console.executors.node.viewing import build_view

GREET_EVERY_S: Final = 5.0
"""How often a node that was not reached is called again."""

_T = TypeVar("_T")
_log = structlog.get_logger("node fleet")


class NodeExecutor:
    """Every promise of `starforge.contract.executor` over the daemons of one fleet."""

    kind: Final = "node"
    capabilities: Final = ONE_NODE

    def __init__(
        self, fleet: str, directory: NodeDirectory, settings: LinkSettings, series_of: Callable[[str], str | None]
    ) -> None:
        """`series_of` names the series of a GPU that calls itself so, or None."""
        self._fleet = fleet
        self._directory = directory
        self._settings = settings
        self._series_of = series_of
        self._links: dict[str, NodeLink] = {}
        self._greeting: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._unsubscribe: Callable[[], None] = lambda: None

    async def capacity(self) -> FleetView | NoSignal:
        """What the machines last told; those that are away take nothing and show their GPUs as blocked."""
        now = time.monotonic()
        views = [build_view(node, now, self._series_of) for node in self._directory.nodes(self._fleet)]
        # What a machine that told nothing yet has is not known: then nothing can be said never to fit.
        silent = [view.name for view in views if view.gpus_unknown and not view.cpus]
        why_not = say("host.fleet_told_nothing", nodes=", ".join(silent)) if silent else ""
        return FleetView(fleet=self._fleet, nodes=tuple(views), complete=not silent, why_not=why_not)

    def place(self, ask: PlacementAsk, view: FleetView) -> Target | NoRoom:
        """Pure: the machine with most free GPUs that has room, or why each has none."""
        return place_on_one_node(ask, view)

    async def launch(self, request: LaunchRequest, target: Target) -> None:
        """Start it on the target's machine; raises as the protocol says."""
        node = self._find(target.node)
        if node is None or node.standing in {NodeState.LOST, NodeState.REMOVED}:
            raise NodeFault(
                say("host.not_of_fleet", node=target.node, fleet=self._fleet), next_step=say("host.placed_elsewhere")
            )
        try:
            await self._call(node, lambda link: link.launch(request, node.fence))
        except NodeSilent:
            await self._greet_anew(node)
            raise

    async def observe(self, attempts: Collection[AttemptId]) -> Mapping[AttemptId, Observation]:
        """What each attempt's machine says of it; one that is away gives no signal for its own alone."""
        places = await self._directory.locate(attempts)
        by_node: dict[str, list[AttemptId]] = {}
        for attempt, node in places.items():
            by_node.setdefault(node.name, []).append(attempt)
        nodes = {node.name: node for node in places.values()}
        told = await asyncio.gather(*(self._observe_on(nodes[name], asked) for name, asked in by_node.items()))
        found: dict[AttemptId, Observation] = {
            attempt: NoSignal(reason=say("host.unknown_for_it")) for attempt in attempts if attempt not in places
        }
        for answers in told:
            found.update(answers)
        return found

    async def fence(self, attempt: AttemptId) -> Observation:
        """Fence durably at its machine; see the protocol for what the answers mean."""
        try:
            return await self._call_for(attempt, lambda link: link.fence(attempt))
        except BackendUnreachable as error:
            return NoSignal(reason=error.said)

    async def stop(self, attempt: AttemptId, remaining_s: float) -> None:
        """Begin to stop it; returns at once."""
        await self._call_for(attempt, lambda link: link.stop(attempt, remaining_s))

    async def cleanup(self, attempt: AttemptId) -> None:
        """Remove what is left of it."""
        await self._call_for(attempt, lambda link: link.reap(attempt))

    async def inventory(self) -> Mapping[AttemptId, Observation] | NoSignal:
        """Everything of this install on the machines that answer; NoSignal when none does."""
        nodes = self._standing()
        held = await self._on_each(nodes, lambda link: link.observe(None))
        if nodes and not held:
            return NoSignal(reason=say("host.fleet_silent", fleet=self._fleet))
        return {attempt: one for answers in held.values() for attempt, one in answers.items()}

    async def sweep(self, known: Collection[AttemptId]) -> Sequence[str]:
        """Remove what is idle and not known from the machines that answer."""
        swept: Mapping[str, Swept] = await self._on_each(self._standing(), lambda link: link.sweep(known))
        return [attempt for one in swept.values() for attempt in one.removed]

    async def find_native(self, attempt: AttemptId) -> str | None:
        """None: its container says what was asked for."""
        del attempt
        return None

    async def logs(self, attempt: AttemptId, cursor: str | None = None) -> AsyncIterator[LogChunk]:
        """The engine's own output of the attempt."""
        node = await self._locate(attempt)
        async for chunk in (await self._open(node)).logs(attempt, cursor):
            yield chunk

    async def start(self, wake: Callable[[], None]) -> None:
        """Call every machine, once now and those that do not answer again and again."""
        loop = asyncio.get_running_loop()

        def note_change() -> None:
            loop.call_soon_threadsafe(self._changed.set)
            wake()

        self._unsubscribe = self._directory.subscribe(self._fleet, note_change)
        await self._greet_all()
        self._greeting = asyncio.create_task(self._keep_greeting(wake), name=f"greet {self._fleet}")

    async def close(self) -> None:
        """Call nobody any more. Attempts are untouched."""
        unsubscribe, self._unsubscribe = self._unsubscribe, lambda: None
        unsubscribe()
        if self._greeting is not None:
            self._greeting.cancel()
            await asyncio.gather(self._greeting, return_exceptions=True)
            self._greeting = None
        await asyncio.gather(*(link.close() for link in self._links.values()))
        self._links.clear()

    async def _keep_greeting(self, wake: Callable[[], None]) -> None:
        while True:
            try:
                async with asyncio.timeout(GREET_EVERY_S):
                    await self._changed.wait()
            except TimeoutError:
                pass
            self._changed.clear()
            before = self._list_reach()
            try:
                await self._greet_all()
            except Exception:  # noqa: BLE001 - the task's outermost frame
                _log.exception("greeting the machines failed in a way nobody foresaw", fleet=self._fleet)
            if before != self._list_reach():
                wake()

    async def _greet_all(self) -> None:
        """Call every machine that was not reached when it was last called."""
        await self._drop_old_links()
        nodes = self._standing()
        waiting = [node for node in nodes if node.legacy or node.reach != ""]
        reports = await self._on_each(waiting, lambda link: link.health())
        for node in waiting:
            if node.legacy and node.name in reports:  # it sends no heartbeats
                self._directory.note_report(node.name, reports[node.name])

    async def _greet_anew(self, node: KnownNode) -> None:
        """Tell a daemon that died in the middle from one that refuses this console: the latter refuses again."""
        why = await (await self._open(node)).greet_anew()
        self._note_reach(node, why)

    async def _observe_on(self, node: KnownNode, attempts: Sequence[AttemptId]) -> Mapping[AttemptId, Observation]:
        if node.standing is NodeState.LOST:
            return dict.fromkeys(attempts, NoSignal(reason=say("host.marked_lost", node=node.name)))
        try:
            return await self._call(node, lambda link: link.observe(attempts))
        except StarForgeError as error:
            return dict.fromkeys(attempts, NoSignal(reason=error.said))

    async def _call_for(self, attempt: AttemptId, ask: Callable[[NodeLink], Coroutine[Any, Any, _T]]) -> _T:
        return await self._call(await self._locate(attempt), ask)

    async def _locate(self, attempt: AttemptId) -> KnownNode:
        node = (await self._directory.locate([attempt])).get(attempt)
        if node is None:
            raise BackendUnreachable(say("host.unknown_for", attempt=attempt), why=say("host.removed_since"))
        if node.standing is NodeState.LOST:
            raise BackendUnreachable(say("host.marked_lost", node=node.name), next_step=say("host.cleaned_later"))
        return node

    async def _call(self, node: KnownNode, ask: Callable[[NodeLink], Coroutine[Any, Any, _T]]) -> _T:
        try:
            answer = await ask(await self._open(node))
        except NodeSilent as error:
            self._note_reach(node, error.why)
            raise
        except StarForgeError:
            self._note_reach(node, "")
            raise
        self._note_reach(node, "")
        return answer

    async def _on_each(
        self, nodes: Sequence[KnownNode], ask: Callable[[NodeLink], Coroutine[Any, Any, _T]]
    ) -> dict[str, _T]:
        """The answers of those machines that gave one."""

        async def try_one(node: KnownNode) -> tuple[str, _T] | None:
            try:
                return node.name, await self._call(node, ask)
            except StarForgeError:
                return None

        answers = await asyncio.gather(*(try_one(node) for node in nodes))
        return dict(answer for answer in answers if answer is not None)

    async def _open(self, node: KnownNode) -> NodeLink:
        link = self._links.get(node.name)
        if link is not None and _is_same(link.node, node):
            return link
        self._links[node.name] = fresh = NodeLink(node, self._settings)
        if link is not None:
            await link.close()
        return fresh

    async def _drop_old_links(self) -> None:
        names = {node.name for node in self._directory.nodes(self._fleet)}
        for name in self._links.keys() - names:
            await self._links.pop(name).close()

    def _note_reach(self, node: KnownNode, why: str) -> None:
        if self._directory.note_reach(node.name, why):
            _log.info("a machine was reached" if not why else "a machine was not reached", node=node.name, why=why)

    def _list_reach(self) -> list[tuple[str, str | None]]:
        return [(node.name, node.reach) for node in self._directory.nodes(self._fleet)]

    def _find(self, name: str) -> KnownNode | None:
        return next((node for node in self._directory.nodes(self._fleet) if node.name == name), None)

    def _standing(self) -> list[KnownNode]:
        """The machines that are asked: not those that were declared lost, which may be off for ever."""
        return [node for node in self._directory.nodes(self._fleet) if node.standing is not NodeState.LOST]


def _is_same(one: KnownNode, other: KnownNode) -> bool:
    """Whether a link to the one is a link to the other."""
    return (one.advertise, one.certificate, one.legacy) == (other.advertise, other.certificate, other.legacy)

"""KubeRayExecutor: a cluster that is asked by its API server. It chooses nothing but in `place`; Kubernetes does."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Final

import structlog

from starforge.containers.records import Fences
from starforge.contract.executor import FleetView, LogChunk, NoRoom, PlacementAsk, Target
from starforge.contract.ids import AttemptId
from starforge.contract.launch import LaunchRequest
from starforge.contract.observation import Gone, NoSignal, Observation, Phase, Seen
from starforge.errors import BackendUnreachable, Conflict, NodeFault
from starforge.said.sentence import say
from starforge_console.domain.placement import SEVERAL_NODES
from starforge_console.executors.kuberay.cluster import Held, KubeCluster
from starforge_console.executors.kuberay.folder import FENCED, KubeFolder
from starforge_console.executors.kuberay.launching import Launching
from starforge_console.executors.kuberay.observing import Observing
from starforge_console.executors.kuberay.records import KubeLaunches, Records
from starforge_console.executors.kuberay.replies import KubeSilent
from starforge_console.executors.kuberay.script import KILL_AFTER_GRACE_S, LOG_FILE
from starforge_console.executors.kuberay.settings import KubeSettings
from starforge_console.executors.kuberay.states import Evidence, end_killed, end_missing, end_unbegun
from starforge_console.executors.kuberay.watching import Watch
from starforge_console.executors.placing import place
from starforge_console.executors.remembered import Sent

_KILL_SLACK_S: Final = 5.0
"""How much longer than the script, which kills by itself, the last net waits."""
_log = structlog.get_logger("kuberay fleet")


class KubeRayExecutor:
    """Every promise of `starforge.contract.executor` over one namespace of one cluster."""

    kind: Final = "kuberay"
    capabilities: Final = SEVERAL_NODES

    def __init__(self, settings: KubeSettings, series_of: Callable[[str], str | None]) -> None:
        """`series_of` names the series of a GPU, or None. Raises NodeFault when the state cannot be read."""
        self._settings = settings
        self._fences = Fences(settings.state_dir)
        self._launches = KubeLaunches(settings.state_dir)
        self._sent = Sent(settings.state_dir)
        self._cluster = KubeCluster(settings, self._launches, series_of)
        self._observing = Observing(self._cluster, self._launches, self._fences)
        self._launching = Launching(settings, self._cluster, Records(self._launches, self._fences, self._sent))
        self._watches: list[asyncio.Task[None]] = []
        self._kills: dict[AttemptId, tuple[float, asyncio.Task[None]]] = {}

    async def capacity(self) -> FleetView | NoSignal:
        """What the fleet's nodes offer now."""
        try:
            return (await self._cluster.load()).view
        except KubeSilent as error:
            return NoSignal(reason=error.said)

    def place(self, ask: PlacementAsk, view: FleetView) -> Target | NoRoom:
        """Pure: whether there is room, and a node that has it; the scheduler itself decides which nodes it will be."""
        return place(ask, view)

    async def rehearse(self, request: LaunchRequest) -> str | None:
        """Why the cluster would refuse it for good; None where it would not, or cannot be asked. Nothing is left."""
        return await self._launching.rehearse(request)

    async def launch(self, request: LaunchRequest, target: Target) -> None:
        """Apply it; raises as the protocol says."""
        del target  # the cluster chooses the nodes, and the RayJob's name derives from the attempt
        await self._launching.launch(request)

    async def observe(self, attempts: Collection[AttemptId]) -> Mapping[AttemptId, Observation]:
        """What the cluster says of these, by one question for all; an end that was seen once is told for ever."""
        return await self._observing.observe(attempts)

    async def fence(self, attempt: AttemptId) -> Observation:
        """Fence durably; a script that arrives later finds the start mark made, and starts nothing."""
        try:
            own = await self._cluster.list_own()
            held = own.find(attempt)
            await asyncio.to_thread(self._fences.add, attempt)
            workdir = self._observing.find_workdir(attempt, held)
            if workdir and not await asyncio.to_thread(KubeFolder(workdir).fence):
                seen = (await self._observing.observe_in(own, [attempt]))[attempt]
                return Gone(at=seen.at, fenced=True, note=seen.note) if isinstance(seen, Gone) else seen
            await self._cluster.delete(attempt, held)
        except BackendUnreachable as error:
            return NoSignal(reason=error.said)
        return Gone(at=time.time(), fenced=True)

    async def stop(self, attempt: AttemptId, remaining_s: float) -> None:
        """Ask its script to end it; what has not begun never does. Returns at once."""
        held = (await self._cluster.list_own()).find(attempt)
        launch = self._launches.find(attempt)
        if held.job is None or (launch is not None and (launch.end is not None or launch.is_removed)):
            return
        folder = KubeFolder(self._observing.find_workdir(attempt, held))
        try:
            mark = await self._observing.find_mark(attempt, held)
            is_taken_out = mark is None and await asyncio.to_thread(folder.fence)
            if mark is not FENCED and not is_taken_out:
                self._kill_later(attempt, remaining_s)
                await asyncio.to_thread(folder.ask_to_end, remaining_s)
        except BackendUnreachable:
            self._kill_later(attempt, remaining_s)  # a folder that is full, or not what it was, keeps nothing running
            raise
        if is_taken_out:
            await self._end(attempt, held, end_unbegun(say("kuberay.taken_out"), time.time()))
        elif mark is FENCED:
            await self._cluster.delete(attempt, held)

    async def cleanup(self, attempt: AttemptId) -> None:
        """Forget it, and delete what the cluster still has of it. Raises Conflict while it runs."""
        own = await self._cluster.list_own()
        held = own.find(attempt)
        seen = (await self._observing.observe_in(own, [attempt]))[attempt]
        if isinstance(seen, NoSignal):
            raise BackendUnreachable(say("attempt.not_cleaned", attempt=attempt), why=seen.reason)
        if isinstance(seen, Seen) and seen.phase is not Phase.EXITED:
            raise Conflict(say("attempt.runs", attempt=attempt), next_step=say("attempt.runs_next"))
        await self._cluster.delete(attempt, held)
        try:
            await asyncio.to_thread(self._observing.remove, attempt, held)
        except NodeFault as error:
            raise BackendUnreachable(say("attempt.not_cleaned", attempt=attempt), why=error.said) from error

    async def inventory(self) -> Mapping[AttemptId, Observation] | NoSignal:
        """Everything of this install that the cluster holds, and the ends that are remembered."""
        try:
            own = await self._cluster.list_own()
        except KubeSilent as error:
            return NoSignal(reason=error.said)
        found = await self._observing.observe_in(own, {*own.by_attempt, *self._launches.all()})
        return {attempt: seen for attempt, seen in found.items() if not isinstance(seen, Gone)}

    async def sweep(self, known: Collection[AttemptId]) -> Sequence[str]:
        """Remove what ended or waits and is not `known`; what runs is left alone."""
        own = await self._cluster.list_own()
        await asyncio.to_thread(self._observing.forget_removed, own)
        await asyncio.to_thread(self._sent.drop_old, time.time())
        seen_of = await self._observing.observe_in(own, {*own.by_attempt, *self._launches.all()})
        swept = []
        for attempt, seen in seen_of.items():
            held = own.find(attempt)
            if isinstance(seen, Gone) and held.job is not None and not held.job.is_deleting:
                await self._cluster.delete(attempt, held)  # it was fenced or removed, and came all the same
            if attempt in known or not isinstance(seen, Seen):
                continue
            now = await self.fence(attempt) if seen.phase is Phase.PREPARING else seen
            if isinstance(now, Gone) or (isinstance(now, Seen) and now.phase is Phase.EXITED):
                try:
                    await self.cleanup(attempt)
                except Conflict:  # pods with its labels go on: somebody else's, or those that nothing deletes
                    _log.warning("what no ledger knows has pods that go on", attempt=attempt)
                    continue
                swept.append(attempt)
        return swept

    async def find_native(self, attempt: AttemptId) -> str | None:
        """The manifest as it was applied, then the script that its pods run. No secret is in it."""
        return await asyncio.to_thread(self._sent.find, attempt)

    async def logs(self, attempt: AttemptId, cursor: str | None = None) -> AsyncIterator[LogChunk]:
        """What the script on the first node wrote so far, from `cursor` on; it does not wait for more."""
        held = (await self._cluster.list_own()).find(attempt)
        workdir = self._observing.find_workdir(attempt, held)
        position = int(cursor) if cursor and cursor.isascii() and cursor.isdigit() else 0
        while workdir:
            piece, position = await asyncio.to_thread(KubeFolder(workdir).read_piece, LOG_FILE, position)
            if not piece:
                return
            yield LogChunk(piece, str(position))

    async def start(self, wake: Callable[[], None]) -> None:
        """Watch RayJobs and pods, and tell when something changed."""
        for what, path in (("rayjobs", self._cluster.rayjobs), ("pods", self._cluster.pods)):
            watch = Watch(self._cluster.api, path, self._cluster.selector, self._settings.look_s)
            name = f"watch {what} of {self._settings.fleet}"
            self._watches.append(asyncio.create_task(watch.keep(wake), name=name))

    async def close(self) -> None:
        """Stop watching. Attempts are untouched."""
        tasks = [*self._watches, *(task for _, task in self._kills.values())]
        self._watches, self._kills = [], {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._cluster.api.close()

    def _kill_later(self, attempt: AttemptId, remaining_s: float) -> None:
        """See to it that the attempt is killed after that, if its script has not done so by itself."""
        delay_s = max(0.0, remaining_s) + KILL_AFTER_GRACE_S + _KILL_SLACK_S
        at = time.monotonic() + delay_s
        planned = self._kills.get(attempt)
        if planned is not None and planned[0] <= at:
            return
        if planned is not None:
            planned[1].cancel()
        self._kills[attempt] = (at, asyncio.create_task(self._kill(attempt, delay_s), name=f"kill {attempt}"))

    async def _kill(self, attempt: AttemptId, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        try:
            await self._kill_now(attempt)
        except (BackendUnreachable, NodeFault) as error:  # whoever wishes its end repeats it every round
            _log.info("an attempt could not be killed now", attempt=attempt, why=str(error))
        finally:
            self._kills.pop(attempt, None)

    async def _kill_now(self, attempt: AttemptId) -> None:
        held = (await self._cluster.list_own()).find(attempt)
        launch = self._launches.find(attempt)
        if held.job is None or (launch is not None and (launch.end is not None or launch.is_removed)):
            return
        folder = KubeFolder(self._observing.find_workdir(attempt, held))
        ended = None
        with contextlib.suppress(BackendUnreachable):
            ended = await asyncio.to_thread(folder.find_ended)
        now = time.time()
        own = end_missing(Evidence(job=held.job, pods=held.pods, ended=ended), now)
        await self._end(attempt, held, own or end_killed(held.job, now))

    async def _end(self, attempt: AttemptId, held: Held, end: Seen) -> None:
        try:
            await self._observing.end(attempt, held, end)
        except NodeFault as error:
            raise BackendUnreachable(say("kuberay.end_unwritten", attempt=attempt), why=error.said) from error

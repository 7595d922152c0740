"""SlurmExecutor: a cluster that is asked by its REST daemon. It chooses nothing but in `place`; Slurm chooses nodes."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

import structlog

from starforge.containers.records import Fences
from starforge.contract.executor import FleetView, LogChunk, NoRoom, PlacementAsk, Target
from starforge.contract.ids import AttemptId
from starforge.contract.launch import LaunchRequest
from starforge.contract.observation import Gone, NoSignal, Observation, Phase, Seen
from starforge.errors import BackendUnreachable, Conflict
from starforge.said.sentence import say
from starforge_console.domain.placement import SEVERAL_NODES
from starforge_console.executors.placing import place
from starforge_console.executors.remembered import Sent
from starforge_console.executors.slurm.cluster import Cluster
from starforge_console.executors.slurm.folder import SlurmFolder
from starforge_console.executors.slurm.launching import Launching
from starforge_console.executors.slurm.observing import Observing
from starforge_console.executors.slurm.records import Records, SlurmLaunches
from starforge_console.executors.slurm.replies import SlurmSilent
from starforge_console.executors.slurm.script import KILL_AFTER_GRACE_S, LOG_FILE
from starforge_console.executors.slurm.settings import ClusterSettings, Runtime
from starforge_console.executors.slurm.states import has_started, is_living

_log = structlog.get_logger("slurm fleet")


class SlurmExecutor:
    """Every promise of `starforge.contract.executor` over one cluster."""

    kind: Final = "slurm"

    def __init__(self, settings: ClusterSettings, series_of: Callable[[str], str | None]) -> None:
        """`series_of` names the series of a type of GPU, or None. Raises NodeFault when the state cannot be read."""
        self._settings = settings
        self.capabilities: Final = replace(SEVERAL_NODES, containers=settings.runtime is not Runtime.NONE)
        self._fences = Fences(settings.state_dir)
        self._launches = SlurmLaunches(settings.state_dir)
        self._sent = Sent(settings.state_dir)
        self._cluster = Cluster(settings, self._launches, series_of)
        self._observing = Observing(self._cluster, self._launches, self._fences)
        self._launching = Launching(settings, self._cluster, Records(self._launches, self._fences, self._sent))
        self._watch: asyncio.Task[None] | None = None
        self._kills: dict[AttemptId, tuple[float, asyncio.Task[None]]] = {}

    async def capacity(self) -> FleetView | NoSignal:
        """What the partition's nodes offer now."""
        try:
            return (await self._cluster.load()).view
        except SlurmSilent as error:
            return NoSignal(reason=error.what)

    def place(self, ask: PlacementAsk, view: FleetView) -> Target | NoRoom:
        """Pure: whether there is room, and a node that has it; Slurm itself decides which nodes it will be."""
        return place(ask, view)

    async def launch(self, request: LaunchRequest, target: Target) -> None:
        """Submit it; raises as the protocol says."""
        del target  # Slurm chooses the nodes, and the job's name derives from the attempt
        await self._launching.launch(request)

    async def observe(self, attempts: Collection[AttemptId]) -> Mapping[AttemptId, Observation]:
        """What Slurm says of these, by one question for all; an end that was seen once is told for ever."""
        return await self._observing.observe(attempts)

    async def fence(self, attempt: AttemptId) -> Observation:
        """Fence durably; a script that arrives later finds the start mark made, and starts nothing."""
        try:
            groups = await self._observing.find_groups(attempt)
            await asyncio.to_thread(self._fences.add, attempt)
            workdir = self._observing.find_workdir(attempt, groups)
            if workdir and not await asyncio.to_thread(SlurmFolder(workdir).fence):
                seen = (await self._observing.observe([attempt]))[attempt]
                return Gone(at=seen.at, fenced=True, note=seen.note) if isinstance(seen, Gone) else seen
            await self._cluster.cancel(groups)
        except BackendUnreachable as error:
            return NoSignal(reason=error.said)
        return Gone(at=time.time(), fenced=True)

    async def stop(self, attempt: AttemptId, remaining_s: float) -> None:
        """Ask its steps to end; what waits is taken out of the queue. Returns at once."""
        groups = await self._observing.find_groups(attempt)
        for components in groups:
            if not is_living(components):
                continue
            if has_started(components):
                await self._cluster.rest.signal(components[0].job_id, "SIGURG", components[0].user)
                self._kill_in(attempt, max(0.0, remaining_s) + KILL_AFTER_GRACE_S)
            else:
                await self._cluster.cancel([components])

    async def cleanup(self, attempt: AttemptId) -> None:
        """Forget it, and end what Slurm still has of it. Raises Conflict while it runs."""
        groups = await self._observing.find_groups(attempt)
        seen = (await self._observing.observe([attempt]))[attempt]
        if isinstance(seen, NoSignal):
            raise BackendUnreachable(say("attempt.not_cleaned", attempt=attempt), why=seen.reason)
        if isinstance(seen, Seen) and seen.phase is not Phase.EXITED:
            raise Conflict(say("attempt.runs", attempt=attempt), next_step=say("attempt.runs_next"))
        await self._cluster.cancel(groups)
        await asyncio.to_thread(self._observing.remove, attempt, groups)

    async def inventory(self) -> Mapping[AttemptId, Observation] | NoSignal:
        """Everything of this install that Slurm holds, and the ends that are remembered."""
        try:
            listed = await self._cluster.list_jobs()
        except SlurmSilent as error:
            return NoSignal(reason=error.what)
        found = await self._observing.observe([*listed, *(one for one in self._launches.all() if one not in listed)])
        return {attempt: seen for attempt, seen in found.items() if not isinstance(seen, Gone)}

    async def sweep(self, known: Collection[AttemptId]) -> Sequence[str]:
        """Remove what ended or waits and is not `known`; what runs is left alone."""
        listed = await self._cluster.list_jobs()
        self._observing.forget_removed(listed)
        await asyncio.to_thread(self._sent.drop_old, time.time())
        unknown = [attempt for attempt in {*listed, *self._launches.all()} if attempt not in known]
        swept = []
        for attempt, seen in (await self._observing.observe(unknown)).items():
            if isinstance(seen, Seen) and seen.phase is Phase.PREPARING:
                seen = await self.fence(attempt)  # noqa: PLW2901 - what is fenced is gone, or had begun after all
            elif not isinstance(seen, Seen):
                continue
            if isinstance(seen, Gone) or (isinstance(seen, Seen) and seen.phase is Phase.EXITED):
                await self.cleanup(attempt)
                swept.append(attempt)
        return swept

    async def find_native(self, attempt: AttemptId) -> str | None:
        """The submission as it was sent: every component, then the batch script. No secret is in it."""
        return await asyncio.to_thread(self._sent.find, attempt)

    async def logs(self, attempt: AttemptId, cursor: str | None = None) -> AsyncIterator[LogChunk]:
        """What batch script and steps wrote so far, from `cursor` on; it does not wait for more."""
        groups = await self._observing.find_groups(attempt)
        workdir = self._observing.find_workdir(attempt, groups)
        position = int(cursor) if cursor and cursor.isascii() and cursor.isdigit() else 0
        while workdir:
            piece, position = await asyncio.to_thread(SlurmFolder(workdir).read_piece, LOG_FILE, position)
            if not piece:
                return
            yield LogChunk(piece, str(position))

    async def start(self, wake: Callable[[], None]) -> None:
        """Look at the cluster again and again, and tell when something changed."""
        try:
            dialect = await self._cluster.rest.negotiate()
            _log.info("speaking with slurm", fleet=self._settings.fleet, version=dialect.version)
        except BackendUnreachable as error:
            _log.warning("slurm was not reached", fleet=self._settings.fleet, why=str(error))
        self._watch = asyncio.create_task(self._keep_watching(wake), name=f"watch {self._settings.fleet}")

    async def close(self) -> None:
        """Stop looking. Jobs are untouched."""
        tasks = [task for _, task in self._kills.values()]
        if self._watch is not None:
            tasks.append(self._watch)
        self._watch, self._kills = None, {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._cluster.rest.close()

    def _kill_in(self, attempt: AttemptId, delay_s: float) -> None:
        """See to it that the attempt is killed then, if its nodes have not done so by themselves."""
        at = time.monotonic() + delay_s
        planned = self._kills.get(attempt)
        if planned is not None and planned[0] <= at:
            return
        if planned is not None:
            planned[1].cancel()
        self._kills[attempt] = (at, asyncio.create_task(self._kill(attempt, delay_s), name=f"kill {attempt}"))

    async def _kill(self, attempt: AttemptId, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        with contextlib.suppress(SlurmSilent):  # whoever wishes its end repeats it every round
            await self._cluster.cancel(await self._observing.find_groups(attempt))
        self._kills.pop(attempt, None)

    async def _keep_watching(self, wake: Callable[[], None]) -> None:
        before: object = None
        while True:
            try:
                listed = await self._cluster.list_jobs()
                now: object = {
                    attempt: [[(job.states, job.restarts) for job in components] for components in groups]
                    for attempt, groups in listed.items()
                }
            except BackendUnreachable as error:
                now = type(error).__name__
            except Exception:  # noqa: BLE001 - the task's outermost frame
                _log.exception("looking at slurm failed in a way nobody foresaw", fleet=self._settings.fleet)
                now = None
            if now != before:
                before = now
                wake()
            await asyncio.sleep(self._settings.poll_s)

"""What became of attempts: Slurm's word, the start mark, and what is remembered of what Slurm has forgotten."""

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from starforge.containers.records import Fences
from starforge.contract.ids import AttemptId
from starforge.contract.observation import Gone, NoSignal, Observation, Phase, Seen
from starforge.errors import BackendUnreachable, NodeFault
from starforge.said.sentence import say
from starforge_console.executors.slurm.cluster import Cluster, Listed
from starforge_console.executors.slurm.folder import FENCED, SlurmFolder
from starforge_console.executors.slurm.grouping import Components, choose_job
from starforge_console.executors.slurm.records import Launch, SlurmLaunches
from starforge_console.executors.slurm.states import StartMark, is_living, observe_job


class Observing:
    """Answers for every attempt; one that cannot be looked at spoils no other."""

    def __init__(self, cluster: Cluster, launches: SlurmLaunches, fences: Fences) -> None:
        self._cluster = cluster
        self._launches = launches
        self._fences = fences

    async def observe(self, attempts: Collection[AttemptId]) -> Mapping[AttemptId, Observation]:
        """What is known of each, by one question for all of them; a job that is not listed is asked for by its id."""
        try:
            listed = await self._cluster.list_jobs()
        except BackendUnreachable as error:
            return {attempt: self._find_end(attempt) or NoSignal(reason=error.what) for attempt in attempts}
        seen = await asyncio.gather(*(self._observe(attempt, listed.get(attempt, ())) for attempt in attempts))
        return dict(zip(attempts, seen, strict=True))

    async def find_groups(self, attempt: AttemptId) -> Sequence[Components]:
        """The attempt's jobs; some clusters list nobody but their owner. Raises SlurmSilent."""
        listed = await self._cluster.list_jobs()
        return listed.get(attempt) or await self._ask_for(self._launches.find(attempt))

    def find_workdir(self, attempt: AttemptId, groups: Sequence[Components]) -> str:
        """The attempt's directory; empty where neither a launch nor a job tells it."""
        launch = self._launches.find(attempt)
        if launch is not None:
            return launch.workdir
        return next((components[0].workdir for components in groups), "")

    def remove(self, attempt: AttemptId, groups: Sequence[Components]) -> None:
        """Forget what was seen of it. As long as Slurm lists it, that it was removed is remembered instead."""
        workdir = self.find_workdir(attempt, groups)
        if workdir:
            SlurmFolder(workdir).drop_secrets()
        launch = self._launches.find(attempt) or self._adopt(attempt, groups)
        if launch is not None and groups:
            self._launches.change(launch, end=None, is_removed=True)
        else:
            self._launches.forget(attempt)

    def forget_removed(self, listed: Listed) -> None:
        """Remember no more that something was removed which Slurm does not list any more either."""
        for attempt, launch in self._launches.all().items():
            if launch.is_removed and attempt not in listed:
                self._launches.forget(attempt)

    async def _observe(self, attempt: AttemptId, groups: Sequence[Components]) -> Observation:
        launch = self._launches.find(attempt)
        if launch is not None and launch.is_removed:
            return Gone(at=time.time())
        end = self._find_end(attempt)
        if end is not None:
            return end
        try:
            groups = groups or await self._ask_for(launch)
            return await self._judge(attempt, launch, groups)
        except (BackendUnreachable, NodeFault) as error:
            return NoSignal(reason=error.what)

    def _find_end(self, attempt: AttemptId) -> Seen | None:
        launch = self._launches.find(attempt)
        return None if launch is None or launch.is_removed else launch.end

    async def _ask_for(self, launch: Launch | None) -> Sequence[Components]:
        """A job that the list lacks, asked for by its id."""
        if launch is None or launch.job_id is None:
            return ()
        found = await self._cluster.find_job(launch.attempt, launch.job_id, launch.user)
        return [found] if found else ()

    async def _judge(self, attempt: AttemptId, launch: Launch | None, groups: Sequence[Components]) -> Observation:
        mark = await self._find_mark(attempt, launch, groups)
        now = time.time()
        if mark is FENCED:
            return Gone(at=now, fenced=self._fences.has(attempt))
        if not groups:
            forgotten = launch is not None and launch.job_id is not None
            return Gone(at=now, note=say("slurm.unseen_end", job=launch.job_id or 0) if launch and forgotten else "")
        components = choose_job(groups, mark, launch.job_id if launch is not None else None)
        own = mark if mark is not None and mark.job_id in {0, components[0].job_id} else None
        seen = observe_job(components, own, now)
        launch = launch or self._adopt(attempt, groups)
        if isinstance(seen, Seen) and seen.phase is Phase.EXITED and launch is not None:
            if seen.exit is not None and seen.exit.code and await asyncio.to_thread(_tells_of_memory, launch):
                seen = replace(seen, exit=replace(seen.exit, out_of_memory=True))
            await asyncio.to_thread(self._launches.change, launch, job_id=components[0].job_id, end=seen)
        return seen

    async def _find_mark(
        self, attempt: AttemptId, launch: Launch | None, groups: Sequence[Components]
    ) -> StartMark | None:
        """The start mark, read only where it decides something: storage is slower than a list."""
        plain = len(groups) == 1 and is_living(groups[0]) and not groups[0][0].restarts
        if (plain and not self._fences.has(attempt)) or (not groups and not self._fences.has(attempt)):
            return None
        workdir = launch.workdir if launch is not None else self.find_workdir(attempt, groups)
        return await asyncio.to_thread(SlurmFolder(workdir).find_mark) if workdir else None

    def _adopt(self, attempt: AttemptId, groups: Sequence[Components]) -> Launch | None:
        """What a job itself tells of its launch, where nothing is remembered of it."""
        if not groups:
            return None
        leader = groups[0][0]
        return Launch(attempt=attempt, user=leader.user, workdir=leader.workdir, pools=(), job_id=leader.job_id)


def _tells_of_memory(launch: Launch) -> bool:
    return SlurmFolder(launch.workdir).tells_of_memory()

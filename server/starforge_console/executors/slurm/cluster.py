"""The cluster as it is now: its jobs by attempt, and what its nodes offer. Every question goes through here."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from starforge.contract.executor import FleetView
from starforge.contract.ids import AttemptId
from starforge.said.sentence import say, say_list
from starforge_console.executors.reserving import Waiting, reserve
from starforge_console.executors.slurm.grouping import Components, Ours, find_attempt_of, group_jobs, take_newest
from starforge_console.executors.slurm.native import NativeJob, NativeNode, NativePartition
from starforge_console.executors.slurm.records import SlurmLaunches
from starforge_console.executors.slurm.replies import SlurmSilent
from starforge_console.executors.slurm.rest import NO_SUCH_JOB, SlurmRest
from starforge_console.executors.slurm.settings import ClusterSettings
from starforge_console.executors.slurm.states import is_living
from starforge_console.executors.slurm.tokens import Tokens
from starforge_console.executors.slurm.viewing import Naming, build_view, list_gres

Listed = Mapping[AttemptId, Sequence[Components]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """What the cluster was like at one moment."""

    listed: Listed
    nodes: Sequence[NativeNode]
    partition: NativePartition
    view: FleetView
    gres: Mapping[str, str]


class Cluster:
    """One cluster. Every call raises SlurmSilent where nothing is known."""

    def __init__(
        self, settings: ClusterSettings, launches: SlurmLaunches, series_of: Callable[[str], str | None]
    ) -> None:
        self.rest = SlurmRest(settings, Tokens(settings.token))
        self._settings = settings
        self._launches = launches
        self._naming = Naming(gres=settings.gres, series_of=series_of)
        self._users = {settings.user, *(user.name for user in settings.submitters.values())}

    async def list_jobs(self) -> Listed:
        """The jobs of every attempt of this install that Slurm remembers, by one question.

        A list of no job at all is what some faults look like: then the controller must say itself that it answers.
        """
        jobs = await self.rest.list_jobs(self._settings.user)
        if not jobs:
            await self.rest.find_job(NO_SUCH_JOB, self._settings.user)
        return group_jobs(jobs, self._ours())

    async def find_job(self, attempt: AttemptId, job_id: int, user: str) -> Components:
        """The attempt's job by its id, asked of the controller, then of the accounting; nothing where neither has it.

        An id that has come to mean another's job, as where a controller lost its state, means none.
        """
        ours = self._ours()
        for question in (self.rest.find_job, self.rest.find_accounted):
            found = [job for job in await question(job_id, user) or () if find_attempt_of(job, ours) == attempt]
            if found:
                return take_newest(found)
        return ()

    async def load(self) -> Picture:
        """The whole."""
        user = self._settings.user
        listed, nodes, partitions = await asyncio.gather(
            self.list_jobs(), self.rest.list_nodes(user), self.rest.list_partitions(user)
        )
        partition = self._find_partition(partitions)
        held, waiting = self._sort(listed)
        view = build_view(self._settings.fleet, partition, nodes, held, self._naming)
        own = [node for node in nodes if partition.name in node.partitions]
        return Picture(
            listed=listed,
            nodes=own,
            partition=partition,
            view=reserve(view, waiting),
            gres=list_gres(own, self._naming),
        )

    async def cancel(self, groups: Sequence[Components]) -> None:
        """End every job of these that may still hold or start something."""
        for components in groups:
            if is_living(components):
                await self.rest.cancel(components[0].job_id, components[0].user)

    def _ours(self) -> Ours:
        launched = {attempt: launch.user for attempt, launch in self._launches.all().items()}
        return Ours(install=self._settings.install, users=self._users, launched=launched)

    def _find_partition(self, partitions: Sequence[NativePartition]) -> NativePartition:
        wanted = self._settings.partition
        for partition in partitions:
            if partition.name == wanted or (not wanted and partition.is_default):
                return partition
        if not wanted and len(partitions) == 1:
            return partitions[0]
        names = say_list("list.comma", [one.name for one in partitions])
        raise SlurmSilent(
            say("slurm.no_partition", partition=wanted) if wanted else say("slurm.untold_default"),
            next_step=say("slurm.no_partition_next", partitions=names),
        )

    def _sort(self, listed: Listed) -> tuple[dict[AttemptId, list[NativeJob]], list[Waiting]]:
        """What holds nodes, and what still waits for them."""
        held: dict[AttemptId, list[NativeJob]] = {}
        waiting = []
        for attempt, groups in listed.items():
            living = [job for components in groups if is_living(components) for job in components]
            placed = [job for job in living if job.nodes]
            launch = self._launches.find(attempt)
            if placed:
                held[attempt] = placed
            elif living and launch is not None and not launch.is_removed:
                waiting.append(Waiting(attempt=attempt, pools=launch.pools))
        return held, waiting

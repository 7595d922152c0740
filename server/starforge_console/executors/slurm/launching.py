"""Submitting an attempt, so that a repeat, a lost reply and a fence meanwhile start nothing twice."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import structlog

from starforge.containers.spec import decide_share
from starforge.contract.executor import NoRoom
from starforge.contract.ids import AttemptId
from starforge.contract.launch import LaunchRequest, PoolRequest, parse_user
from starforge.errors import LaunchError, LaunchRefused, NoCapacity, NodeFault
from starforge.said.sentence import say, say_list
from starforge_console.executors.placing import place
from starforge_console.executors.remembered import explain_fenced
from starforge_console.executors.reserving import resolve_pools
from starforge_console.executors.slurm import submission as s
from starforge_console.executors.slurm.cluster import Cluster, Picture
from starforge_console.executors.slurm.folder import SlurmFolder
from starforge_console.executors.slurm.native import NativeNode, Submitted
from starforge_console.executors.slurm.records import Launch, Records
from starforge_console.executors.slurm.refusals import explain_refusal, explain_waiting
from starforge_console.executors.slurm.settings import ClusterSettings, Runtime
from starforge_console.executors.slurm.viewing import count_gpus

REASON_LOOKS: Final = 8
REASON_PAUSE_S: Final = 0.25
_MIB: Final = 1024**2
_log = structlog.get_logger("slurm fleet")


class Launching:
    """Launches of one fleet, one after the other: each sees what the one before has taken."""

    def __init__(self, settings: ClusterSettings, cluster: Cluster, records: Records) -> None:
        self._settings = settings
        self._cluster = cluster
        self._launches, self._fences, self._sent = records
        self._turn = asyncio.Lock()

    async def launch(self, request: LaunchRequest) -> None:
        """Submit `request` unless Slurm has it already. Raises as the protocol says."""
        async with self._turn:
            self._require_open(request.attempt)
            self._require_placed(request)
            picture = await self._cluster.load()
            known = self._launches.find(request.attempt)
            user = known.user if known is not None else self._find_user(request)
            if await self._is_known(request.attempt, user, picture):
                return
            resolved = replace(request, pools=_resolve(request.pools, picture.nodes))
            self._require_room(resolved, picture)
            submission = self._build(resolved, picture)
            launch = Launch(attempt=request.attempt, user=user, workdir=request.workdir, pools=resolved.pools)
            await asyncio.to_thread(self._prepare, request, launch, submission.describe())
            self._require_unfenced(launch)
            submitted = await self._cluster.rest.submit(submission.components, submission.script, user)
            await self._settle(launch, submitted)

    def _build(self, request: LaunchRequest, picture: Picture) -> s.Submission:
        cluster = s.ClusterFacts(gres=picture.gres, max_time_s=picture.partition.max_time_s)
        return s.build_submission(request, self._settings, cluster)

    def _require_open(self, attempt: AttemptId) -> None:
        launch = self._launches.find(attempt)
        if self._fences.has(attempt) or (launch is not None and launch.is_removed):
            raise explain_fenced(attempt)

    def _require_unfenced(self, launch: Launch) -> None:
        """Ask the fences once more, now that a fence finds the record: one of both sees the other."""
        if self._fences.has(launch.attempt):
            SlurmFolder(launch.workdir).drop_secrets()
            self._launches.forget(launch.attempt)
            raise explain_fenced(launch.attempt)

    def _require_placed(self, request: LaunchRequest) -> None:
        """Without a container nothing is mounted: everything must lie where the job looks for it."""
        away = [mount.target for mount in request.mounts if mount.source != mount.target]
        if self._settings.runtime is Runtime.NONE and away:
            raise LaunchRefused(
                say("slurm.no_mount", places=say_list("list.comma", away)), why=say("slurm.no_mount_why")
            )

    async def _is_known(self, attempt: AttemptId, user: str, picture: Picture) -> bool:
        """Whether a submission of `user`'s has arrived. One whose reply was lost is taken for what it is."""
        launch = self._launches.find(attempt)
        groups = [components for components in picture.listed.get(attempt, ()) if components[0].user == user]
        if groups and launch is not None and launch.job_id is None:
            await self._remember(launch, groups[0][0].job_id)
        return bool(groups) or (launch is not None and launch.job_id is not None)

    def _find_user(self, request: LaunchRequest) -> str:
        """The cluster's user that the job runs as: the one of the request's uid, where submitters have their own."""
        if not Path(request.workdir).is_relative_to(self._settings.storage_root):
            raise LaunchRefused(
                say("slurm.not_below", folder=request.workdir, root=str(self._settings.storage_root)),
                why=say("slurm.not_below_why"),
                next_step=say("slurm.not_below_next"),
            )
        if request.user is None and os.geteuid() == 0:
            raise LaunchRefused(
                say("slurm.needs_user"), why=say("slurm.needs_user_why"), next_step=say("slurm.needs_user_next")
            )
        if not self._settings.submitters:
            return self._settings.user
        uid = None if request.user is None else parse_user(request.user)[0]
        for user in self._settings.submitters.values():
            if user.uid == uid:
                return user.name
        raise LaunchRefused(
            say("slurm.no_user", user=request.user or request.attempt),
            why=say("slurm.no_user_why", fleet=self._settings.fleet),
            next_step=say("slurm.no_user_next"),
        )

    def _require_room(self, request: LaunchRequest, picture: Picture) -> None:
        for pool in request.pools:
            idle = sum(_is_idle_enough(node, pool) for node in picture.nodes)
            if idle < pool.nodes:
                raise NoCapacity(say("slurm.few_idle", idle=idle, nodes=pool.nodes, pool=pool.name))
        answer = place(request, picture.view)
        if isinstance(answer, NoRoom):
            reasons = [f"{node}: {why}" for node, why in answer.per_node.items() if why]
            raise NoCapacity(
                say("slurm.no_room", reasons=say_list("list.semicolon", reasons)),
                why=say("slurm.taken_since"),
            )

    def _prepare(self, request: LaunchRequest, launch: Launch, described: str) -> None:
        """The memory of the launch, and then all that the script finds, before anything is submitted.

        Without that memory nobody would find the secrets of a launch that was cut short, to remove them.
        """
        self._launches.write(launch)
        self._sent.write(request.attempt, described)
        folder = SlurmFolder(request.workdir)
        try:
            folder.prepare_secrets(request.user, {name: secret.reveal() for name, secret in request.secrets.items()})
        except NodeFault:
            folder.drop_secrets()
            raise

    async def _settle(self, launch: Launch, submitted: Submitted) -> None:
        """Remember the job; one that Slurm would never start, or that was fenced meanwhile, is taken back."""
        if submitted.job_id is not None:
            launch = await self._remember(launch, submitted.job_id)
        try:
            if submitted.complaints:
                await self._take_back(launch, submitted)
            if self._fences.has(launch.attempt) and submitted.job_id is not None:
                await self._cluster.rest.cancel(submitted.job_id, launch.user)
                raise explain_fenced(launch.attempt)
        except LaunchError:
            await asyncio.to_thread(SlurmFolder(launch.workdir).drop_secrets)
            raise

    async def _remember(self, launch: Launch, job_id: int) -> Launch:
        """The launch with Slurm's id of it. A disk that does not take the id is no reason to say that nothing runs."""
        try:
            return await asyncio.to_thread(self._launches.change, launch, job_id=job_id)
        except NodeFault as error:
            _log.warning("the id of a job is not kept", attempt=launch.attempt, slurm_job=job_id, why=str(error))
            return replace(launch, job_id=job_id)

    async def _take_back(self, launch: Launch, submitted: Submitted) -> None:
        error = explain_refusal(submitted.complaints)
        if submitted.job_id is not None:
            reason = await self._find_reason(submitted.job_id, launch.user)
            await self._cluster.rest.cancel(submitted.job_id, launch.user)
            error = explain_waiting(reason, submitted.complaints)
        if isinstance(error, LaunchError):
            # Nothing of it is left: whoever asks for it is told so, also while Slurm remembers the job.
            if submitted.job_id is None:
                self._launches.forget(launch.attempt)
            else:
                await asyncio.to_thread(self._launches.change, launch, is_removed=True)
        raise error

    async def _find_reason(self, job_id: int, user: str) -> str:
        """Why the job waits; Slurm tells it more exactly once it has looked at the job itself."""
        reason = ""
        for _ in range(REASON_LOOKS):
            found = await self._cluster.rest.find_job(job_id, user)
            reason = next((job.reason for job in found or () if job.reason), "")
            if reason not in {"", "PartitionConfig", "Priority"}:
                return reason
            await asyncio.sleep(REASON_PAUSE_S)
        return reason


def _resolve(pools: Sequence[PoolRequest], nodes: Sequence[NativeNode]) -> tuple[PoolRequest, ...]:
    """The pools with the CPUs and the memory that they leave open: their share of the smallest node that fits."""
    return resolve_pools(pools, [_find_share(pool, nodes) for pool in pools])


def _is_idle_enough(node: NativeNode, pool: PoolRequest) -> bool:
    """Whether other jobs of the cluster, which may hold no GPU, leave the CPUs and the memory of the pool."""
    cpus, memory_mb = node.cpus - node.cpus_taken, node.memory_mb - node.memory_taken_mb
    return cpus >= (pool.cpus or 0) and memory_mb * _MIB >= (pool.memory_bytes or 0)


def _find_share(pool: PoolRequest, nodes: Sequence[NativeNode]) -> tuple[float, int]:
    sizes = [(float(node.cpus), node.memory_mb * _MIB, count_gpus(node)) for node in nodes]
    fitting = [size for size in sizes if size[2] >= pool.gpus_per_node]
    if not fitting:
        return 1.0, 0
    share = decide_share(pool, *min(fitting))
    return share.cpus, share.memory_bytes

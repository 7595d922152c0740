"""Applying an attempt's RayJob, so that a repeat, a lost reply and a fence meanwhile begin nothing twice."""

import asyncio
import io
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import structlog
from ruamel.yaml import YAML

from starforge.containers import labels as l
from starforge.containers.spec import decide_share
from starforge.contract.executor import NoRoom
from starforge.contract.ids import AttemptId
from starforge.contract.launch import LaunchRequest, PoolRequest
from starforge.errors import BackendUnreachable, LaunchError, LaunchRefused, NoCapacity, NodeFault
from starforge.said.sentence import say, say_list
from starforge_console.executors.kuberay.api import Document
from starforge_console.executors.kuberay.cluster import Held, KubeCluster, Picture
from starforge_console.executors.kuberay.folder import KubeFolder
from starforge_console.executors.kuberay.manifest import Manifest, build_rayjob, build_secret, name_rayjob
from starforge_console.executors.kuberay.native import NativeNode
from starforge_console.executors.kuberay.records import Launch, Records
from starforge_console.executors.kuberay.refusals import explain_refusal, explain_taken
from starforge_console.executors.kuberay.replies import KubeRefused, KubeSilent
from starforge_console.executors.kuberay.script import build_script, plan_script
from starforge_console.executors.kuberay.settings import KubeSettings
from starforge_console.executors.kuberay.viewing import is_idle_enough, measure_idle
from starforge_console.executors.placing import place
from starforge_console.executors.remembered import explain_fenced
from starforge_console.executors.reserving import resolve_pools

_log = structlog.get_logger("kuberay fleet")


class Launching:
    """Launches of one fleet, one after the other: each sees what the one before has taken."""

    def __init__(self, settings: KubeSettings, cluster: KubeCluster, records: Records) -> None:
        self._settings = settings
        self._cluster = cluster
        self._launches, self._fences, self._sent = records
        self._turn = asyncio.Lock()

    async def launch(self, request: LaunchRequest) -> None:
        """Apply `request` unless the cluster has it already. Raises as the protocol says."""
        async with self._turn:
            self._require_open(request.attempt)
            if await self._is_there(request):
                return
            picture = await self._cluster.load()
            resolved = replace(request, pools=_resolve(request.pools, picture.nodes))
            self._require_user(request)
            self._require_room(resolved, picture)
            manifest = build_rayjob(resolved, self._settings, picture.products)
            await self._try_out(request.attempt, manifest)
            launch = Launch(attempt=request.attempt, workdir=request.workdir, pools=resolved.pools)
            await asyncio.to_thread(self._prepare, resolved, launch)
            self._require_unfenced(launch)
            await asyncio.to_thread(self._sent.write, request.attempt, describe(resolved, manifest))
            await self._apply(request, launch, manifest)

    async def rehearse(self, request: LaunchRequest) -> str | None:
        """Why the cluster would refuse it for good, in words for people; None where it would not, or is not asked."""
        try:
            picture = await self._cluster.load()
            resolved = replace(request, pools=_resolve(request.pools, picture.nodes))
            self._require_user(request)
            await self._try_out(request.attempt, build_rayjob(resolved, self._settings, picture.products))
        except LaunchRefused as error:
            return error.said
        except (BackendUnreachable, NoCapacity):
            return None
        return None

    def _require_open(self, attempt: AttemptId) -> None:
        launch = self._launches.find(attempt)
        if self._fences.has(attempt) or (launch is not None and launch.is_removed):
            raise explain_fenced(attempt)

    def _require_unfenced(self, launch: Launch) -> None:
        """Ask the fences once more, now that a fence finds the record: one of both sees the other."""
        if self._fences.has(launch.attempt):
            self._launches.forget(launch.attempt)
            raise explain_fenced(launch.attempt)

    def _require_user(self, request: LaunchRequest) -> None:
        if request.user is None and os.geteuid() == 0:
            raise LaunchRefused(
                say("kuberay.needs_user"), why=say("kuberay.needs_user_why"), next_step=say("kuberay.needs_user_next")
            )

    def _require_room(self, request: LaunchRequest, picture: Picture) -> None:
        for pool in request.pools:
            idle = sum(is_idle_enough(measure_idle(node, picture.pods), pool) for node in picture.nodes)
            if idle < pool.nodes:
                raise NoCapacity(say("kuberay.few_idle", idle=idle, nodes=pool.nodes, pool=pool.name))
        answer = place(request, picture.view)
        if isinstance(answer, NoRoom):
            reasons = [f"{node}: {why}" for node, why in answer.per_node.items() if why]
            raise NoCapacity(
                say("kuberay.no_room", reasons=say_list("list.semicolon", reasons)),
                why=say("kuberay.taken_since"),
            )

    async def _is_there(self, request: LaunchRequest) -> bool:
        """Whether a launch of it has arrived; what one that was cut short has not made yet is made now."""
        launch = self._launches.find(request.attempt)
        if launch is not None and (launch.end is not None or launch.is_freed):
            return True
        document = await self._cluster.api.find(self._cluster.path_of(request.attempt))
        if document is None:
            return launch is not None and bool(launch.uid)
        uid = _find_uid(document, request, self._settings)
        if launch is not None and not launch.uid:
            launch = await self._remember(launch, uid=uid)
        if launch is None:
            await self._give_secrets(request, uid)
        elif not launch.has_secret:
            await self._give_or_take_back(request, launch)
        return True

    async def _try_out(self, attempt: AttemptId, manifest: Manifest) -> None:
        """Let the server look at the whole and keep nothing of it. Raises LaunchRefused and NoCapacity."""
        try:
            await self._cluster.api.apply(self._cluster.path_of(attempt), manifest, dry_run=True)
        except KubeRefused as refused:
            raise explain_refusal(refused, name_rayjob(attempt)) from refused

    def _prepare(self, request: LaunchRequest, launch: Launch) -> None:
        """All that the pods find, and the memory of the launch, before anything is applied."""
        KubeFolder(request.workdir).prepare_scripts(request)
        self._launches.write(launch)

    async def _apply(self, request: LaunchRequest, launch: Launch, manifest: Manifest) -> None:
        attempt = request.attempt
        try:
            document = await self._cluster.api.apply(self._cluster.path_of(attempt), manifest)
        except KubeRefused as refused:
            self._launches.forget(attempt)
            raise explain_refusal(refused, name_rayjob(attempt)) from refused
        uid = str((document.get("metadata") or {}).get("uid") or "")
        launch = await self._remember(launch, uid=uid)
        await self._give_or_take_back(request, launch)

    async def _give_or_take_back(self, request: LaunchRequest, launch: Launch) -> None:
        """The Secret of a RayJob that has none yet; one that can never have it is deleted, with the pods that wait."""
        attempt = request.attempt
        try:
            if self._fences.has(attempt):
                raise explain_fenced(attempt)
            await self._give_secrets(request, launch.uid)
        except LaunchError:
            await self._remember(launch, is_removed=True)
            await self._cluster.delete(attempt, Held())
            raise

    async def _give_secrets(self, request: LaunchRequest, uid: str) -> None:
        """The Secret that the pods wait for. Raises LaunchRefused where it cannot be theirs."""
        secret = build_secret(request, self._settings, uid)
        try:
            await self._cluster.api.apply(self._cluster.path_of_secret(request.attempt), secret)
        except KubeRefused as refused:
            raise explain_refusal(refused, name_rayjob(request.attempt)) from refused
        launch = self._launches.find(request.attempt)
        if launch is not None:
            await self._remember(launch, has_secret=True)

    async def _remember(self, launch: Launch, **changes: Any) -> Launch:  # noqa: ANN401 - fields of a Launch
        """The launch with what is known of it since. A disk that does not take it is no reason to say nothing runs."""
        launch = self._launches.find(launch.attempt) or launch
        try:
            return await asyncio.to_thread(self._launches.change, launch, **changes)
        except NodeFault as error:
            _log.warning("what became of a launch is not kept", attempt=launch.attempt, why=str(error))
            return replace(launch, **changes)


def describe(request: LaunchRequest, manifest: Manifest) -> str:
    """What is sent, as people read it: the manifest, then the script that its pods run. No secret is in it."""
    stream = io.StringIO()
    yaml = YAML()
    yaml.width = 120
    yaml.dump(dict(manifest), stream)
    return f"{stream.getvalue()}---\n{build_script(plan_script(request))}"


def _find_uid(document: Document, request: LaunchRequest, settings: KubeSettings) -> str:
    """Of a RayJob of that name, if it is the attempt's. Raises LaunchRefused if it is not, KubeSilent if none."""
    if document.get("kind") != "RayJob":  # what stands between answered in the server's place
        raise KubeSilent(say("kuberay.no_answer", why=say("kuberay.no_object", name=name_rayjob(request.attempt))))
    metadata = document.get("metadata") or {}
    own = metadata.get("labels") or {}
    told = (own.get(l.INSTALL), own.get(l.FLEET), own.get(l.ATTEMPT))
    if told != (request.install, settings.fleet, request.attempt):
        raise explain_taken(name_rayjob(request.attempt))
    return str(metadata.get("uid") or "")


def _resolve(pools: Sequence[PoolRequest], nodes: Sequence[NativeNode]) -> tuple[PoolRequest, ...]:
    """The pools with the CPUs and the memory that they leave open: their share of the smallest node that fits."""
    return resolve_pools(pools, [_find_share(pool, nodes) for pool in pools])


def _find_share(pool: PoolRequest, nodes: Sequence[NativeNode]) -> tuple[float, int]:
    sizes = [(node.has.cpus, node.has.memory_bytes, node.has.gpus) for node in nodes]
    fitting = [size for size in sizes if size[2] >= pool.gpus_per_node]
    if not fitting:
        return 1.0, 0
    share = decide_share(pool, *min(fitting))
    return share.cpus, share.memory_bytes

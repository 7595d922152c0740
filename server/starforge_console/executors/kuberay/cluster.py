"""The cluster as it is now: what it holds of each attempt, and what its nodes offer. All questions go through here."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from starforge.contract.executor import FleetView
from starforge.contract.ids import AttemptId
from starforge.said.sentence import say
from starforge_console.executors.kuberay.api import KubeApi
from starforge_console.executors.kuberay.decode import read_node, read_pod, read_rayjob
from starforge_console.executors.kuberay.manifest import RAY_API, name_rayjob, select_own
from starforge_console.executors.kuberay.native import NativeNode, NativePod, NativeRayJob
from starforge_console.executors.kuberay.records import KubeLaunches
from starforge_console.executors.kuberay.replies import KubeSilent
from starforge_console.executors.kuberay.series import Naming
from starforge_console.executors.kuberay.settings import KubeSettings
from starforge_console.executors.kuberay.states import DEPLOYMENTS, Means, list_holding
from starforge_console.executors.kuberay.viewing import Listing, build_view, list_own_nodes
from starforge_console.executors.reserving import Waiting, reserve

_FORBIDDEN: Final = 403
_OVER: Final = frozenset({Means.DONE, Means.FAILED, Means.REFUSED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What the cluster holds of one attempt."""

    job: NativeRayJob | None = None
    pods: Sequence[NativePod] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """Everything of this fleet."""

    by_attempt: Mapping[AttemptId, Held]
    pods: Sequence[NativePod]

    def find(self, attempt: AttemptId) -> Held:
        """What is held of that attempt."""
        return self.by_attempt.get(attempt) or Held()


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """What the cluster was like at one moment."""

    own: Own
    nodes: Sequence[NativeNode]
    pods: Sequence[NativePod]
    view: FleetView
    products: Mapping[str, Sequence[str]]


class KubeCluster:
    """One namespace of one cluster. Every call raises KubeSilent where nothing is known."""

    def __init__(self, settings: KubeSettings, launches: KubeLaunches, series_of: Callable[[str], str | None]) -> None:
        self.api = KubeApi(settings)
        self.rayjobs = f"/apis/{RAY_API}/namespaces/{settings.namespace}/rayjobs"
        self.pods = f"/api/v1/namespaces/{settings.namespace}/pods"
        self.selector = select_own(settings)
        self.naming = Naming(rules=settings.series, series_of=series_of)
        self._clusters = f"/apis/{RAY_API}/namespaces/{settings.namespace}/rayclusters"
        self._secrets = f"/api/v1/namespaces/{settings.namespace}/secrets"
        self._events = f"/api/v1/namespaces/{settings.namespace}/events"
        self._settings = settings
        self._launches = launches

    def path_of(self, attempt: AttemptId) -> str:
        """Of its RayJob."""
        return f"{self.rayjobs}/{name_rayjob(attempt)}"

    def path_of_secret(self, attempt: AttemptId) -> str:
        """Of its Secret."""
        return f"{self._secrets}/{name_rayjob(attempt)}"

    async def list_own(self) -> Own:
        """The RayJobs and pods of every attempt of this fleet, by one question each."""
        (jobs, _), (pods, _) = await asyncio.gather(
            self.api.list_all(self.rayjobs, labelSelector=self.selector),
            self.api.list_all(self.pods, labelSelector=self.selector),
        )
        # Labels come along with a manifest that somebody copies; of one name there is only one.
        read = [job for document in jobs if (job := read_rayjob(document)) is not None]
        found = [job for job in read if job.name == name_rayjob(job.attempt)]
        ours = [read_pod(document, self._settings.gpu_resource) for document in pods]
        attempts = {*(job.attempt for job in found), *(pod.attempt for pod in ours if pod.attempt is not None)}
        by_job = {job.attempt: job for job in found}
        return Own(
            by_attempt={
                attempt: Held(job=by_job.get(attempt), pods=[pod for pod in ours if pod.attempt == attempt])
                for attempt in attempts
            },
            pods=ours,
        )

    async def load(self) -> Picture:
        """The whole."""
        own, (nodes, _), (others, missing) = await asyncio.gather(
            self.list_own(), self.api.list_all("/api/v1/nodes"), self._list_all_pods()
        )
        resource = self._settings.gpu_resource
        uids = {pod.uid for pod in own.pods}
        # Of pods of ours what was listed with the RayJobs counts: both lists are to be of one moment.
        pods = [*own.pods, *(pod for pod in others if pod.uid not in uids)]
        listed = Listing(nodes=[read_node(document, resource) for document in nodes], pods=pods, missing=missing)
        fleet = list_own_nodes(listed.nodes, self._settings)
        view = build_view(listed, uids, self._settings, self.naming)
        return Picture(
            own=own,
            nodes=fleet,
            pods=pods,
            view=reserve(view, self._list_waiting(own)),
            products=self.naming.list_products(fleet),
        )

    async def delete(self, attempt: AttemptId, held: Held) -> None:
        """Take away all that is this attempt's; what a finalizer of the operator's holds back goes without it."""
        launch = self._launches.find(attempt)
        uid = held.job.uid if held.job is not None else launch.uid if launch is not None else ""
        if uid:  # without it the name could be a stranger's
            await self.api.delete(self.path_of(attempt), uid)
        if held.job is not None and held.job.cluster:
            await self.api.delete(f"{self._clusters}/{held.job.cluster}")
        if launch is not None and launch.has_secret:
            await self.api.delete(self.path_of_secret(attempt))

    async def find_denial(self, pod: NativePod) -> str:
        """What the kubelet said of the pod's image when it tried for it; empty where nobody remembers."""
        with contextlib.suppress(KubeSilent):
            events, _ = await self.api.list_all(self._events, fieldSelector=f"involvedObject.uid={pod.uid}")
            told = [str(event.get("message")) for event in events if event.get("reason") == "Failed"]
            return next((words for words in reversed(told) if "pull" in words), "")
        return ""

    async def _list_all_pods(self) -> tuple[list[NativePod], str]:
        """Everybody's pods, and why not all of them are there; empty where they are."""
        missing = ""
        try:
            documents, _ = await self.api.list_all("/api/v1/pods")
        except KubeSilent as error:
            if error.status != _FORBIDDEN:
                raise
            missing = say("kuberay.other_namespaces")
            documents, _ = await self.api.list_all(self.pods)
        return [read_pod(document, self._settings.gpu_resource) for document in documents], missing

    def _list_waiting(self, own: Own) -> list[Waiting]:
        """What was sent to the cluster and has no nodes yet, as far as it has none."""
        found = []
        for attempt, held in own.by_attempt.items():
            launch = self._launches.find(attempt)
            job = held.job
            over = job is None or job.is_deleting or DEPLOYMENTS.get(job.deployment) in _OVER
            if launch is None or over or launch.is_removed or launch.end is not None:
                continue
            placed = [pod.pool for pod in list_holding(held.pods) if pod.node]
            short = [replace(pool, nodes=pool.nodes - placed.count(pool.name)) for pool in launch.pools]
            found.append(Waiting(attempt=attempt, pools=[pool for pool in short if pool.nodes > 0]))
        return found

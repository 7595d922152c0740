"""A scripted KubeRay operator: it moves a RayJob as KubeRay does, or says of it what a test has it say.

What it says of states, reasons and messages is what KubeRay says; how it comes to that is made up.
"""

import datetime as dt
import json
import random
import string
from dataclasses import dataclass, field
from typing import Final

from e2e.support.kube.garbage import own
from e2e.support.kube.inside import Inside
from e2e.support.kube.kinds import PODS, RAYCLUSTERS, RAYJOBS
from e2e.support.kube.kubelet import CLUSTER, HEAD, NODE_TYPE, Kubelet, has_ended, is_ready
from e2e.support.kube.ray_nodes import START_PARAMS
from e2e.support.kube.status import Document
from e2e.support.kube.store import now

FINALIZER: Final = "ray.io/rayjob-finalizer"
_ENDED: Final = ("Complete", "Failed")
_LOGS: Final = "last available logs (truncated to 20,000 chars):\n"
_ADDRESS: Final = "127.0.0.1:6379"


@dataclass(slots=True)
class _Run:
    """What runs of a job: the program in its head's container, and the uid of the head that it was started in."""

    program: str | None = None
    head: str = ""


@dataclass(slots=True)
class Operator:
    """`is_silent`: it looks at nothing. `taken_over` are jobs, by name, of which it only says what it is told."""

    inside: Inside
    kubelet: Kubelet
    is_silent: bool = False
    taken_over: set[str] = field(default_factory=set)
    keeps_clusters: bool = False
    _runs: dict[str, _Run] = field(default_factory=dict)

    def sync(self) -> None:
        """Bring every RayJob and RayCluster one step further."""
        if self.is_silent:
            return
        for job in self.inside.list(RAYJOBS):
            self._advance(job)
        pods = self.inside.list(PODS)
        for cluster in self.inside.list(RAYCLUSTERS):
            if "deletionTimestamp" not in cluster["metadata"]:
                self._fill(cluster, pods)

    def take_over(self, name: str) -> None:
        """From now on, a test says what becomes of the job."""
        self.taken_over.add(name)

    def say(self, name: str, **status: object) -> None:
        """Say so of a job that was taken over, or is now."""
        self.take_over(name)
        job = next(one for one in self.inside.list(RAYJOBS) if one["metadata"]["name"] == name)
        self.inside.set_status(RAYJOBS, job, dict(status))

    def find_head(self, name: str) -> Document:
        """The pod of a job's head."""
        return next(pod for pod in self.list_pods(name) if pod["metadata"]["labels"][NODE_TYPE] == HEAD)

    def list_pods(self, name: str) -> list[Document]:
        """The pods of a job's nodes."""
        return [pod for pod in self.inside.list(PODS) if pod["metadata"]["labels"].get("ray.io/rayjob") == name]

    def delete_cluster(self, job: Document) -> None:
        """Begin to delete the cluster of a job, if it has one."""
        for cluster in self._list_clusters(job):
            if "deletionTimestamp" not in cluster["metadata"]:
                self.inside.delete(RAYCLUSTERS, cluster)

    def _advance(self, job: Document) -> None:
        metadata, spec, status = job["metadata"], job["spec"], job.get("status") or {}
        if "deletionTimestamp" in metadata:
            kept = [name for name in metadata.get("finalizers") or () if name != FINALIZER]
            if kept != (metadata.get("finalizers") or []):
                self.inside.merge(RAYJOBS, job, {"metadata": {"finalizers": kept}})
            return
        if metadata["name"] in self.taken_over:
            return
        deployment = status.get("jobDeploymentStatus", "")
        if deployment in _ENDED:
            self._shut_down(job)
        elif spec.get("suspend"):
            self._suspend(job, deployment)
        elif deployment in {"", "Suspended"}:
            self._initialize(job)
        elif not self._end_late(job):
            self._start(job) if deployment == "Initializing" else self._look(job)

    def _initialize(self, job: Document) -> None:
        metadata = job["metadata"]
        there = self._list_clusters(job)
        name = there[0]["metadata"]["name"] if there else f"{metadata['name']}-{_make_suffix()}"
        held = metadata.get("finalizers") or []
        if FINALIZER not in held and self.inside.merge(RAYJOBS, job, {"metadata": {"finalizers": [*held, FINALIZER]}}):
            job = self.inside.find(RAYJOBS, metadata["namespace"], metadata["name"]) or job
        labels = {"ray.io/originated-from-cr-name": metadata["name"], "ray.io/originated-from-crd": "RayJob"}
        cluster = {
            "metadata": {
                "name": name,
                "namespace": metadata["namespace"],
                "labels": {**(metadata.get("labels") or {}), **labels},
                "ownerReferences": own(job),
            },
            "spec": job["spec"]["rayClusterSpec"],
        }
        if not there:
            self.inside.create(RAYCLUSTERS, cluster)
        said = {
            "jobDeploymentStatus": "Initializing",
            "jobId": job["spec"].get("jobId") or name,
            "rayClusterName": name,
            "startTime": now(),
        }
        self.inside.set_status(RAYJOBS, job, said)

    def _start(self, job: Document) -> None:
        """Submit it once every node is ready."""
        pods = self.list_pods(job["metadata"]["name"])
        wanted = 1 + sum(group["replicas"] for group in job["spec"]["rayClusterSpec"].get("workerGroupSpecs") or ())
        if len(pods) < wanted or not all(is_ready(pod) for pod in pods):
            return
        if job["metadata"]["uid"] not in self._runs:  # or it was submitted, and that could not be said
            head = next(pod for pod in pods if pod["metadata"]["labels"][NODE_TYPE] == HEAD)
            program = self.kubelet.run(head, job["spec"]["entrypoint"].split())
            if program is None:
                return
            self._runs[job["metadata"]["uid"]] = _Run(program, head["metadata"]["uid"])
            self._add_submitter(job)
        info = {"startTime": now()}
        self.inside.set_status(
            RAYJOBS,
            job,
            {
                "jobDeploymentStatus": "Running",
                "jobStatus": "RUNNING",
                "message": "Job is currently running.",
                "dashboardURL": f"{job['status']['rayClusterName']}-head-svc.{job['metadata']['namespace']}.svc:8265",
                "rayJobInfo": info,
            },
        )

    def _look(self, job: Document) -> None:
        """See whether its program has ended. One that was lost with its head changes nothing: nobody tells."""
        run = self._runs.get(job["metadata"]["uid"])
        heads = [pod["metadata"]["uid"] for pod in self.list_pods(job["metadata"]["name"])]
        if run is None or run.program is None or run.head not in heads:
            return
        code = self.kubelet.find_exit(run.program)
        if code is None:
            return
        if code == 0:
            said = {
                "jobDeploymentStatus": "Complete",
                "jobStatus": "SUCCEEDED",
                "message": "Job finished successfully.",
                "succeeded": 1,
            }
        else:
            message = f"Job entrypoint command failed with exit code {code}, {_LOGS}"
            said = {"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "reason": "AppFailed", "message": message}
        self._end(job, said)

    def _end_late(self, job: Document) -> bool:
        """End a job that has run past its own deadline."""
        limit_s = job["spec"].get("activeDeadlineSeconds")
        started = job["status"].get("startTime")
        if limit_s is None or started is None:
            return False
        begun = dt.datetime.fromisoformat(started)
        if dt.datetime.now(dt.UTC) < begun + dt.timedelta(seconds=limit_s):
            return False
        message = (
            f"The RayJob has passed the activeDeadlineSeconds. StartTime: {begun}. ActiveDeadlineSeconds: {limit_s}"
        )
        self._end(job, {"jobDeploymentStatus": "Failed", "reason": "DeadlineExceeded", "message": message})
        return True

    def _end(self, job: Document, said: Document) -> None:
        for pod in self.inside.list(PODS):
            if pod["metadata"]["labels"].get("job-name") == job["metadata"]["name"]:
                phase = "Succeeded" if said.get("jobStatus") == "SUCCEEDED" else "Failed"
                self.inside.set_status(PODS, pod, {"phase": phase})
        info = {**job["status"].get("rayJobInfo", {}), "endTime": now()}
        self.inside.set_status(RAYJOBS, job, {**said, "endTime": now(), "rayJobInfo": info})

    def _shut_down(self, job: Document) -> None:
        if job["spec"].get("shutdownAfterJobFinishes") and not self.keeps_clusters:
            self.delete_cluster(job)

    def _suspend(self, job: Document, deployment: str) -> None:
        if deployment == "Suspended":
            return
        self.delete_cluster(job)
        gone = not self._list_clusters(job)
        said = {"jobDeploymentStatus": "Suspended" if gone else "Suspending", "jobStatus": "", "rayClusterName": ""}
        self.inside.set_status(RAYJOBS, job, said)

    def _fill(self, cluster: Document, pods: tuple[Document, ...]) -> None:
        """Make the pods that the cluster lacks: a head that is gone or has failed comes anew."""
        name, spec = cluster["metadata"]["name"], cluster["spec"]
        mine = [pod for pod in pods if pod["metadata"]["labels"].get(CLUSTER) == name]
        for pod in mine:
            if has_ended(pod):
                self.inside.delete(PODS, pod)
        living = [pod for pod in mine if not has_ended(pod)]
        groups = [("headgroup", HEAD, spec["headGroupSpec"], 1)]
        groups += [(one["groupName"], "worker", one, one["replicas"]) for one in spec.get("workerGroupSpecs") or ()]
        for group, part, template, count in groups:
            there = sum(pod["metadata"]["labels"]["ray.io/group"] == group for pod in living)
            for _ in range(count - there):
                self._add_pod(cluster, f"{group}-{part}" if part != HEAD else HEAD, template, group)

    def _add_pod(self, cluster: Document, title: str, rules: Document, group: str) -> None:
        template, metadata = rules["template"], rules["template"].get("metadata") or {}
        job = cluster["metadata"]["labels"]["ray.io/originated-from-cr-name"]
        labels = {
            **(metadata.get("labels") or {}),
            CLUSTER: cluster["metadata"]["name"],
            "ray.io/group": group,
            NODE_TYPE: HEAD if title == HEAD else "worker",
            "ray.io/is-ray-node": "yes",
            "ray.io/rayjob": job,
        }
        spec = {**template["spec"]}
        first, *rest = spec["containers"]
        first = {**first, "env": [*(first.get("env") or ()), {"name": "RAY_ADDRESS", "value": _ADDRESS}]}
        spec["containers"] = [first, *rest]
        pod = {
            "metadata": {
                "name": f"{cluster['metadata']['name']}-{title}-{_make_suffix()}",
                "namespace": cluster["metadata"]["namespace"],
                "labels": labels,
                "annotations": {
                    **(metadata.get("annotations") or {}),
                    START_PARAMS: json.dumps(rules.get("rayStartParams") or {}),
                },
                "ownerReferences": own(cluster),
            },
            "spec": spec,
        }
        self.inside.create(PODS, pod)

    def _add_submitter(self, job: Document) -> None:
        template = job["spec"].get("submitterPodTemplate") or {"spec": {"containers": [{"name": "s", "image": "s"}]}}
        metadata = job["metadata"]
        pod = {
            "metadata": {
                "name": f"{metadata['name']}-{_make_suffix()}",
                "namespace": metadata["namespace"],
                "labels": {**((template.get("metadata") or {}).get("labels") or {}), "job-name": metadata["name"]},
                "ownerReferences": own(job),
            },
            "spec": template["spec"],
            "status": {"phase": "Running"},
        }
        self.inside.create(PODS, pod)

    def _list_clusters(self, job: Document) -> list[Document]:
        uid = job["metadata"]["uid"]
        return [
            one
            for one in self.inside.list(RAYCLUSTERS)
            if any(owner["uid"] == uid for owner in one["metadata"].get("ownerReferences") or ())
        ]


def _make_suffix() -> str:
    return "".join(random.choices(string.ascii_lowercase + string.digits, k=5))  # noqa: S311 - as in names of pods

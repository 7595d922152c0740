"""From a LaunchRequest to the RayJob that is applied: pure, so that a test compares the whole and people can see it.

The Ray head is the first node of the first pool, with that node's GPUs: there the script runs as a plain process. Every
other node is a worker. No secret is in any of it; they are a Secret of their own that the RayJob owns.
"""

import base64
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from starforge.containers import labels as l
from starforge.contract.capsule import (
    ENV_ATTEMPT,
    ENV_CAPSULE_DIGEST,
    ENV_INGEST_URL,
    ENV_PORT_BASE,
    ENV_SECRETS_DIR,
    SECRETS_DIR,
)
from starforge.contract.ids import AttemptId
from starforge.contract.launch import LaunchRequest, PoolRequest, parse_user
from starforge.errors import LaunchRefused
from starforge.said.sentence import say
from starforge_console.executors.kuberay.script import ENTRY_FILE, KILL_AFTER_GRACE_S, OWN_FOLDER, PORT_BASE
from starforge_console.executors.kuberay.series import Placing, place_pool
from starforge_console.executors.kuberay.settings import KubeSettings, Toleration
from starforge_console.executors.kuberay.spread import ENV_OTHERS, ENV_POOL
from starforge_console.executors.kuberay.volumes import build_mounts

RAY_API: Final = "ray.io/v1"
POOL: Final = "forge.pool"
PART: Final = "forge.part"
HEAD: Final = "head"
WORKER: Final = "worker"
SUBMITTER: Final = "submitter"
QUEUE: Final = "kueue.x-k8s.io/queue-name"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
LIMIT_SLACK_S: Final = 3600.0
"""KubeRay's own limit counts from before the image is pulled, and is the last of the nets."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./-]+")
_SECRETS: Final = "secrets"
_SHM: Final = "shm"

Manifest = Mapping[str, Any]


def name_rayjob(attempt: AttemptId) -> str:
    """The one name that an attempt's objects can have; shorter than the 47 characters that KubeRay allows."""
    return l.name_container(attempt)


def select_own(settings: KubeSettings) -> str:
    """The selector of everything that this fleet has made."""
    return f"{l.INSTALL}={settings.install},{l.FLEET}={settings.fleet}"


def build_rayjob(request: LaunchRequest, settings: KubeSettings, products: Mapping[str, Sequence[str]]) -> Manifest:
    """The RayJob. Every pool must say its CPUs and memory. Raises LaunchRefused."""
    builder = _Builder(request, settings, products)
    return {
        "apiVersion": RAY_API,
        "kind": "RayJob",
        "metadata": {
            "name": name_rayjob(request.attempt),
            "namespace": settings.namespace,
            "labels": {**builder.labels, **({QUEUE: settings.queue} if settings.queue else {})},
            **builder.annotations,
        },
        "spec": builder.build_spec(),
    }


def find_workdir(entrypoint: str) -> str:
    """The attempt's directory in which the script of an entrypoint lies; empty where it is none of ours."""
    begin, end = _name_entry("@").split("@")
    own = entrypoint.startswith(begin) and entrypoint.endswith(end)
    return entrypoint.removeprefix(begin).removesuffix(end) if own else ""


def build_secret(request: LaunchRequest, settings: KubeSettings, uid: str) -> Manifest:
    """The Secret that the RayJob of that uid owns: who deletes the one deletes the other."""
    name = name_rayjob(request.attempt)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": settings.namespace,
            "labels": _name_labels(request, settings),
            "ownerReferences": [{"apiVersion": RAY_API, "kind": "RayJob", "name": name, "uid": uid}],
        },
        "type": "Opaque",
        "data": {
            key: base64.b64encode(secret.reveal().encode()).decode() for key, secret in sorted(request.secrets.items())
        },
    }


def write_tolerations(tolerations: Sequence[Toleration]) -> list[dict[str, str]]:
    """As Kubernetes has them; what is empty is left out."""
    return [
        {
            name: value
            for name, value in (
                ("key", one.key),
                ("operator", one.operator),
                ("value", one.value),
                ("effect", one.effect),
            )
            if value
        }
        for one in tolerations
    ]


def _name_entry(workdir: str) -> str:
    return f"bash {workdir}/{OWN_FOLDER}/{ENTRY_FILE}"


def _name_labels(request: LaunchRequest, settings: KubeSettings) -> dict[str, str]:
    return {
        **settings.labels,
        l.INSTALL: request.install,
        l.FLEET: settings.fleet,
        l.JOB: request.job,
        l.ATTEMPT: request.attempt,
    }


class _Builder:
    """The parts of one attempt's RayJob."""

    def __init__(self, request: LaunchRequest, settings: KubeSettings, products: Mapping[str, Sequence[str]]) -> None:
        self.request = request
        self.settings = settings
        self.products = products
        self.labels = _name_labels(request, settings)
        self.annotations = {"annotations": dict(settings.annotations)} if settings.annotations else {}
        self.volumes, self.mounts = build_mounts(request, settings.claims)
        self.nodes = sum(pool.nodes for pool in request.pools)
        if not _PLAIN.fullmatch(request.workdir):
            raise LaunchRefused(
                say("kuberay.no_name", folder=request.workdir),
                why=say("kuberay.no_name_why"),
                next_step=say("kuberay.no_name_next"),
            )

    def build_spec(self) -> dict[str, Any]:
        request, first = self.request, self.request.pools[0]
        limit = request.max_runtime_s
        deadline = None if limit is None else limit + request.grace_s + KILL_AFTER_GRACE_S + LIMIT_SLACK_S
        groups = [(0, first.nodes - 1), *((index, pool.nodes) for index, pool in enumerate(request.pools) if index)]
        return {
            "entrypoint": _name_entry(request.workdir),
            "jobId": name_rayjob(request.attempt),
            "submissionMode": "K8sJobMode",
            "backoffLimit": 0,
            "submitterConfig": {"backoffLimit": 0},
            "shutdownAfterJobFinishes": True,
            "ttlSecondsAfterFinished": 0,
            **({} if deadline is None else {"activeDeadlineSeconds": math.ceil(deadline)}),
            "submitterPodTemplate": self._build_submitter(),
            "rayClusterSpec": {
                "headGroupSpec": {
                    "rayStartParams": {"dashboard-host": "0.0.0.0", **self._start(first)},  # noqa: S104 - in its pod
                    "template": self._build_template(0, HEAD),
                },
                "workerGroupSpecs": [self._build_group(index, count) for index, count in groups if count],
            },
        }

    def _build_group(self, index: int, count: int) -> dict[str, Any]:
        return {
            "groupName": f"pool-{index}",
            "replicas": count,
            "minReplicas": count,
            "maxReplicas": count,
            "rayStartParams": self._start(self.request.pools[index]),
            "template": self._build_template(index, WORKER),
        }

    def _start(self, pool: PoolRequest) -> dict[str, str]:
        return {"num-cpus": str(max(1, int(pool.cpus or 1))), "num-gpus": str(pool.gpus_per_node)}

    def _build_template(self, index: int, part: str) -> dict[str, Any]:
        pool = self.request.pools[index]
        labels = {**self.labels, POOL: pool.name, PART: part}
        placing = place_pool(pool, self.settings, self.products)
        return {
            "metadata": {"labels": labels, **self.annotations},
            "spec": {
                **self._build_pod(placing),
                **self._build_affinity(pool, placing),
                "terminationGracePeriodSeconds": math.ceil(self.request.grace_s) + KILL_AFTER_GRACE_S,
                "containers": [self._build_container(index, part)],
                "volumes": [*self.volumes, self._build_shm(pool), self._build_secrets()],
            },
        }

    def _build_pod(self, placing: Placing) -> dict[str, Any]:
        """What every pod has: as whom it runs, where it may go, what it may pull, and nothing of the cluster's API."""
        settings, user = self.settings, self.request.user
        numbers = None if user is None else parse_user(user)
        optional: dict[str, Any] = {
            "securityContext": {} if numbers is None else {"runAsUser": numbers[0], "runAsGroup": numbers[1]},
            "imagePullSecrets": [{"name": name} for name in settings.image_pull_secrets],
            "serviceAccountName": settings.service_account,
            "nodeSelector": dict(settings.node_selector),
            "tolerations": write_tolerations(placing.tolerations),
        }
        given = {name: value for name, value in optional.items() if value}
        return {"automountServiceAccountToken": False, "enableServiceLinks": False, **given}

    def _build_affinity(self, pool: PoolRequest, placing: Placing) -> dict[str, Any]:
        """To nodes of the series, and each of a pool's to a node of its own."""
        affinity: dict[str, Any] = {}
        if placing.terms:
            terms = [
                {
                    "matchExpressions": [
                        {"key": key, "operator": "In", "values": list(some)} for key, some in term.items()
                    ]
                }
                for term in placing.terms
            ]
            affinity["nodeAffinity"] = {_REQUIRED: {"nodeSelectorTerms": terms}}
        if pool.nodes > 1:
            match = {"matchLabels": {l.ATTEMPT: self.request.attempt, POOL: pool.name}}
            affinity["podAntiAffinity"] = {
                _REQUIRED: [{"labelSelector": match, "topologyKey": "kubernetes.io/hostname"}]
            }
        return {"affinity": affinity} if affinity else {}

    def _build_container(self, index: int, part: str) -> dict[str, Any]:
        pool = self.request.pools[index]
        amounts = {
            "cpu": f"{math.ceil((pool.cpus or 0) * 1000)}m",
            "memory": str(pool.memory_bytes or 0),
            **({self.settings.gpu_resource: str(pool.gpus_per_node)} if pool.gpus_per_node else {}),
        }
        leave = [*_name_entry(self.request.workdir).split(), "leave"]
        return {
            "name": f"ray-{part}",
            "image": self.request.image,
            "env": self._build_env(index),
            "resources": {"requests": amounts, "limits": dict(amounts)},
            "lifecycle": {"preStop": {"exec": {"command": leave}}},
            "volumeMounts": [
                *self.mounts,
                {"name": _SHM, "mountPath": "/dev/shm"},  # noqa: S108 - what programs share memory by
                {"name": _SECRETS, "mountPath": SECRETS_DIR, "readOnly": True},
            ],
        }

    def _build_env(self, index: int) -> list[dict[str, Any]]:
        request = self.request
        wait_s = math.ceil(request.grace_s) + KILL_AFTER_GRACE_S
        values = {
            "HOME": request.workdir,
            **request.env,
            ENV_ATTEMPT: request.attempt,
            ENV_CAPSULE_DIGEST: request.capsule_digest,
            ENV_INGEST_URL: request.ingest_url,
            ENV_SECRETS_DIR: SECRETS_DIR,
            ENV_PORT_BASE: str(PORT_BASE),
            ENV_POOL: str(index),
            ENV_OTHERS: str(self.nodes - 1),
            # A job that is stopped through Ray gets as long as any other.
            "RAY_JOB_STOP_WAIT_TIME_S": str(wait_s),
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        fields = {"FORGE_POD_UID": "metadata.uid", "FORGE_POD_NAME": "metadata.name", "FORGE_POD_IP": "status.podIP"}
        return [
            *({"name": name, "value": value} for name, value in sorted(values.items())),
            *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()),
        ]

    def _build_shm(self, pool: PoolRequest) -> dict[str, Any]:
        size = (pool.memory_bytes or 0) // 2 if self.request.shm_bytes is None else self.request.shm_bytes
        return {"name": _SHM, "emptyDir": {"medium": "Memory", "sizeLimit": str(size)}}

    def _build_secrets(self) -> dict[str, Any]:
        # A group of the volume's own would be given to every other volume of the pod too, the shared storage among
        # them. In the pod of one job, which has one user, everybody who can read the file is that user.
        secret = {"secretName": name_rayjob(self.request.attempt), "defaultMode": 0o444}
        return {"name": _SECRETS, "secret": secret}

    def _build_submitter(self) -> dict[str, Any]:
        amounts = {"requests": {"cpu": "200m", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
        container = {
            "name": "ray-job-submitter",
            "image": self.request.image,
            "env": [{"name": "HOME", "value": "/tmp"}],  # noqa: S108 - in a pod that holds nothing
            "resources": amounts,
        }
        return {
            "metadata": {"labels": {**self.labels, PART: SUBMITTER}, **self.annotations},
            "spec": {
                **self._build_pod(Placing(tolerations=self.settings.tolerations)),
                "restartPolicy": "Never",
                "containers": [container],
            },
        }

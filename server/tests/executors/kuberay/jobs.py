"""RayJobs as a test writes them by hand, for a made-up cluster that really runs their heads."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from core.tests.containers.builders import wait_until
from e2e.support.images import HOST_IMAGE
from e2e.support.kube.kinds import PODS, RAYCLUSTERS, RAYJOBS, Kind
from e2e.support.kube.lab import CLAIM, NAMESPACE, KubeLab
from e2e.support.kube.status import Document

WAITS = "until [ -s /held/code ]; do sleep 0.02; done; exit $(cat /held/code)\n"


class HandJob:
    """A RayJob whose head runs a script of the folder `name` of the storage, which it sees as /held."""

    def __init__(self, lab: KubeLab, storage: Path, name: str, script: str = WAITS) -> None:
        self.lab = lab
        self.name = name
        self.folder = storage / name
        self.folder.mkdir()
        self.folder.chmod(0o777)
        (self.folder / "entry.sh").write_text(script)

    def create(self, *, image: str = HOST_IMAGE, gpus: int = 1, needs: str = "", **spec: Any) -> None:
        """Hand it in."""
        mounts = [{"name": "storage", "mountPath": "/held", "subPath": self.name}]
        volumes: list[Document] = [{"name": "storage", "persistentVolumeClaim": {"claimName": CLAIM}}]
        if needs:  # the name of a Secret
            mounts.append({"name": "secret", "mountPath": "/run/secrets"})
            volumes.append({"name": "secret", "secret": {"secretName": needs, "defaultMode": 0o444}})
        uid = {"fieldRef": {"fieldPath": "metadata.uid"}}
        container = {
            "name": "ray-head",
            "image": image,
            "env": [{"name": "POD_UID", "valueFrom": uid}, {"name": "WORD", "value": "said"}],
            "resources": {"limits": {"nvidia.com/gpu": str(gpus)}},
            "volumeMounts": mounts,
        }
        pod = {
            "securityContext": {"runAsUser": 1000, "runAsGroup": 1000},
            "containers": [container],
            "volumes": volumes,
        }
        body = {
            "apiVersion": "ray.io/v1",
            "kind": "RayJob",
            "metadata": {"name": self.name, "namespace": NAMESPACE},
            "spec": {
                "entrypoint": "bash /held/entry.sh",
                "shutdownAfterJobFinishes": True,
                "rayClusterSpec": {"headGroupSpec": {"template": {"spec": pod}}},
            }
            | spec,
        }
        self.lab.inside.create(RAYJOBS, body)

    @property
    def status(self) -> Document:
        found = self.lab.inside.find(RAYJOBS, NAMESPACE, self.name) or {}
        return dict(found.get("status") or {})

    def finish(self, code: int) -> None:
        (self.folder / "code").write_text(str(code))

    def delete(self) -> None:
        found = self.lab.inside.find(RAYJOBS, NAMESPACE, self.name)
        assert found is not None
        self.lab.inside.delete(RAYJOBS, found)

    def wait(self, **status: str) -> None:
        """Until the status says so."""
        self.wait_until(lambda: status.items() <= self.status.items(), str(status))

    def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        wait_until(holds, f"{what} of {self.name}; it is {self.status}, {self.lab.errors[:3]}")

    def count(self, kind: Kind) -> int:
        """How many objects of the kind are there at all."""
        return len(self.lab.inside.list(kind))

    def is_gone(self) -> bool:
        return not any(self.count(kind) for kind in (RAYJOBS, RAYCLUSTERS, PODS))

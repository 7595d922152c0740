"""A made-up cluster that really runs the heads of RayJobs: API, operator, scheduler, kubelets, garbage collector."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from e2e.support.engines import PrivateEngine
from e2e.support.kube import garbage, scheduling
from e2e.support.kube.cluster import TOKEN, KubeApi, kube_api
from e2e.support.kube.containers import Disks
from e2e.support.kube.inside import Inside
from e2e.support.kube.kinds import NAMESPACES, NODES, RAYJOBS
from e2e.support.kube.kubelet import Kubelet
from e2e.support.kube.operator import Operator
from e2e.support.kube.ray_nodes import RayNodes
from e2e.support.kube.real import RealApi
from e2e.support.kube.status import Document
from e2e.support.owned import MEMORY, owned_folder

NAMESPACE: Final = "training"
CLAIM: Final = "shared"
_TICK_S: Final = 0.1


class KubeLab:
    """`api` is what the console speaks to; `inside` is asked without its bad moments."""

    def __init__(self, api: KubeApi, machine: PrivateEngine, disks: Disks, ray: RayNodes | None = None) -> None:
        self.api = api
        self.inside = Inside(api.backend, "lab")
        self.kubelet = Kubelet(self.inside, machine, disks, ray)
        self.operator = Operator(self.inside, self.kubelet)
        self.errors = self.kubelet.errors
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kube lab", daemon=True)

    def add_node(self, name: str, gpus: int = 4, *, product: str = "NVIDIA-H200", **spec: object) -> Document:
        """A node that is ready, with GPUs of one product; `spec` may have taints and unschedulable."""
        labels = {"kubernetes.io/hostname": name} | ({"nvidia.com/gpu.product": product} if gpus else {})
        offered = {"cpu": "32", "memory": "200Gi", "pods": "110"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
        conditions = [{"type": "Ready", "status": "True"}]
        node = self.inside.create(NODES, {"metadata": {"name": name, "labels": labels}, "spec": spec})
        said = {"capacity": offered, "allocatable": offered, "conditions": conditions}
        return self.inside.set_status(NODES, node, said) or node

    def write_config(self, path: Path) -> Path:
        """A configuration with which a client finds the API."""
        path.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: lab\n"
            f"clusters: [{{name: lab, cluster: {{server: '{self.api.server.url}'}}}}]\n"
            f"users: [{{name: console, user: {{token: '{TOKEN}'}}}}]\n"
            f"contexts: [{{name: lab, context: {{cluster: lab, user: console, namespace: {NAMESPACE}}}}}]\n",
            encoding="utf-8",
        )
        path.chmod(0o600)
        return path

    def start(self) -> None:
        """Begin to work."""
        self.inside.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        self._thread.start()

    def close(self) -> None:
        """Delete every job, wait until nothing of them is left, and stop."""
        self.operator.is_silent = False
        for job in self.inside.list(RAYJOBS):
            self.inside.delete(RAYJOBS, job)
        self._ends.set()
        self._thread.join()
        for job in self.inside.list(RAYJOBS):
            self.inside.merge(RAYJOBS, job, {"metadata": {"finalizers": []}})
        self.kubelet.close()

    def _run(self) -> None:
        while not self._ends.is_set():
            try:
                garbage.collect(self.inside)
                self.operator.sync()
                scheduling.schedule(self.inside)
                self.kubelet.sync()
            except Exception as error:  # noqa: BLE001 - the thread's outermost frame; the test fails by what is kept
                self.errors.append(f"{type(error).__name__}: {error}")
            with self.api.store.changed:
                self.api.store.changed.wait(_TICK_S)


@contextlib.contextmanager
def kube_lab(
    machine: PrivateEngine, storage: Path, real: RealApi | None = None, ray_python: Path | None = None
) -> Iterator[KubeLab]:
    """A cluster whose claim is the folder `storage`, for as long as the block lasts.

    With `ray_python`, an interpreter that has Ray, a real Ray runs in the pods.
    """
    ray = RayNodes(machine, ray_python) if ray_python is not None else None
    if ray is not None:
        ray.make_network()
    with owned_folder(MEMORY) as secrets, kube_api(real) as api:
        secrets.chmod(0o755)
        lab = KubeLab(api, machine, Disks({CLAIM: storage}, secrets), ray)
        lab.start()
        try:
            yield lab
        finally:
            lab.close()
        if lab.errors:
            pytest.fail(f"the made-up cluster failed: {lab.errors[:5]}")

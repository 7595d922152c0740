"""A console whose only fleet is a made-up cluster."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.support.console import ConsoleProcess, console_process, find_free_port
from e2e.support.engines import PrivateEngine
from e2e.support.images import HOST_IMAGE
from e2e.support.kube.kinds import CLAIMS
from e2e.support.kube.lab import CLAIM, NAMESPACE, KubeLab, kube_lab
from e2e.support.kube.real import RealApi
from e2e.support.projects import Experiment, make_experiment

LIMIT_S: Final = 90.0
USER: Final = 2001
"""As whom jobs run."""


@dataclass(frozen=True, slots=True)
class KubeConsole:
    """A console, and the cluster that it sends jobs to."""

    console: ConsoleProcess
    lab: KubeLab
    image: str

    def make(self, script: str) -> Experiment:
        """A project with an experiment that runs `script`."""
        return make_experiment(self.console, self.image, script)


@contextlib.contextmanager
def kube_console(machine: PrivateEngine, folder: Path, real: RealApi | None) -> Iterator[KubeConsole]:
    """Both, for as long as the block lasts; a node `n1` with eight GPUs."""
    for one in (folder, *folder.parents[:3]):
        one.chmod(one.stat().st_mode | 0o055)
    port = find_free_port()
    config = folder / "kubeconfig"
    settings = {
        "FORGE_DEFAULT_FLEET_KIND": "kuberay",
        "FORGE_KUBE_CONFIG": str(config),
        "FORGE_KUBE_NAMESPACE": NAMESPACE,
        "FORGE_KUBE_CLAIM": CLAIM,
        "FORGE_KUBE_TIMEOUT_S": "5",
        "FORGE_INGEST_LISTEN": f"127.0.0.1:{port}",
        "FORGE_INGEST_URL": f"http://127.0.0.1:{port}",
        "FORGE_JOB_UID": str(USER),
        "FORGE_JOB_GID": str(USER),
    }
    storage = folder / "storage"
    storage.mkdir()
    with kube_lab(machine, storage, real) as lab:
        lab.add_node("n1", gpus=8)
        claim = {"metadata": {"name": CLAIM, "namespace": NAMESPACE}, "spec": {"accessModes": ["ReadWriteMany"]}}
        lab.inside.set_status(CLAIMS, lab.inside.create(CLAIMS, claim), {"phase": "Bound"})
        lab.write_config(config)
        with console_process(folder, "/nowhere/docker.sock", settings) as console:
            yield KubeConsole(console, lab, HOST_IMAGE)

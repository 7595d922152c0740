"""What tests on a made-up cluster have in common: attempts that count their starts, and the API's bad moments."""

import asyncio
import contextlib
import json
import os
import uuid
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.tests.containers.builders import finish, make_request
from e2e.support.engines import PrivateEngine
from e2e.support.kube.kinds import PODS, RAYCLUSTERS, RAYJOBS, SECRETS
from e2e.support.kube.lab import CLAIM, NAMESPACE, KubeLab, kube_lab
from e2e.support.kube.real import RealApi
from e2e.support.kube.status import Document
from server.tests.executors.on_engine import COUNTS, Held
from starforge.containers.labels import name_container
from starforge.contract.executor import FleetView, Target
from starforge.contract.ids import AttemptId
from starforge.contract.launch import LaunchRequest, Secret
from starforge.contract.observation import Phase, Seen
from starforge_console.executors.kuberay.executor import KubeRayExecutor
from starforge_console.executors.kuberay.settings import Claim, KubeSettings

_APPLIES = ("PATCH", "/rayjobs/", "!dryRun")


class KubeHarness:
    """One executor over one cluster, whose only node has four GPUs."""

    total_gpus = 4

    def __init__(self, lab: KubeLab, root: Path, **settings: Any) -> None:
        self.lab = lab
        self.root = root
        self._settings = settings
        # A real API server remembers the objects of earlier tests: to this one they are another install's.
        self.install = f"lab-{uuid.uuid4().hex[:8]}"
        self._config = lab.write_config(root / "kubeconfig")
        self._workdirs: dict[AttemptId, Path] = {}
        self.executor = self.open()

    def open(self, **changes: Any) -> KubeRayExecutor:
        """An executor as a console that starts now makes it."""
        settings = KubeSettings(
            fleet="cluster",
            install=self.install,
            namespace=NAMESPACE,
            state_dir=self.root / "state",
            claims={str(self.root): Claim(name=CLAIM)},
            kubeconfig=self._config,
            request_timeout_s=5,
            look_s=0.2,
        )
        return KubeRayExecutor(replace(settings, **{**self._settings, **changes}), find_made_up_series)

    def make_request(self, *, gpus: int = 1, secret: str = "", script: str = COUNTS, **changes: Any) -> LaunchRequest:
        secrets = {"TOKEN": Secret(secret)} if secret else {}
        request = make_request(self.root, script, gpus=gpus, secrets=secrets)
        request = replace(request, install=self.install, **changes)
        os.chown(request.workdir, 1000, 1000)
        self._workdirs[request.attempt] = Path(request.workdir)
        return request

    async def launch(self, request: LaunchRequest) -> None:
        """Place and launch."""
        view = await self.executor.capacity()
        assert isinstance(view, FleetView), view
        target = self.executor.place(request, view)
        assert isinstance(target, Target), target
        await self.executor.launch(request, target)

    async def finish(self, request: LaunchRequest, code: int) -> None:
        finish(request, code)

    async def settle(self, attempt: AttemptId, phase: Phase) -> Seen:
        while True:
            seen = (await self.executor.observe([attempt]))[attempt]
            begun = phase is not Phase.RUNNING or self.count_starts(attempt)
            if isinstance(seen, Seen) and seen.phase is phase and begun:
                return seen
            await asyncio.sleep(0.05)

    def lose_next_launch_reply(self) -> None:
        self.lab.api.server.faults.lose_reply(*_APPLIES)

    async def hold_next_launch(self, launch: Callable[[], Awaitable[None]]) -> Held:
        there, let_pass = self.lab.api.server.faults.hold(*_APPLIES)
        launching = asyncio.ensure_future(launch())
        await asyncio.to_thread(there.wait, 20)
        return Held(launching, let_pass.set)

    def make_unreachable(self) -> None:
        self.lab.api.server.go_away()

    def make_reachable(self) -> None:
        self.lab.api.server.come_back()

    async def restart(self) -> None:
        await self.executor.close()
        await asyncio.to_thread(self.lab.api.server.go_away)
        self.lab.api.server.come_back()
        self.executor = self.open()

    def count_starts(self, attempt: AttemptId) -> int:
        record = self._workdirs[attempt] / "starts"
        return len(record.read_text().splitlines()) if record.exists() else 0

    def read_visible(self, attempt: AttemptId) -> str:
        shown = [self.lab.inside.list(kind) for kind in (RAYJOBS, RAYCLUSTERS, PODS)]
        secrets = [one["metadata"] for one in self.lab.inside.list(SECRETS)]
        own = [path.read_text() for path in (self._workdirs[attempt] / ".kuberay").iterdir()]
        return json.dumps([shown, secrets, own, self.lab.kubelet.describe(self.find_head(attempt))])

    def find_job(self, attempt: AttemptId) -> Document | None:
        """The attempt's RayJob."""
        return self.lab.inside.find(RAYJOBS, NAMESPACE, name_container(attempt))

    def find_head(self, attempt: AttemptId) -> Document:
        """The pod of its first node."""
        return self.lab.operator.find_head(name_container(attempt))

    def list_left(self) -> list[str]:
        """What the cluster holds of anything, by name."""
        kinds = (RAYJOBS, RAYCLUSTERS, PODS, SECRETS)
        return [one["metadata"]["name"] for kind in kinds for one in self.lab.inside.list(kind)]


def find_made_up_series(gpu: str) -> str | None:
    return "h200-sxm" if "H200" in gpu else None


@contextlib.contextmanager
def kube_harness(
    machine: PrivateEngine, tmp_path: Path, real: RealApi | None = None, ray_python: Path | None = None, **settings: Any
) -> Iterator[KubeHarness]:
    """A harness over a cluster of its own, in whose pods a real Ray runs if asked; what it started ends with it."""
    tmp_path.chmod(0o755)  # the jobs' user passes through
    for above in tmp_path.parents:
        if above.stat().st_uid == os.geteuid() and above.is_relative_to("/tmp"):  # noqa: S108 - pytest's own folders
            above.chmod(above.stat().st_mode | 0o055)
    with kube_lab(machine, tmp_path, real, ray_python) as lab:
        lab.add_node("n1", gpus=KubeHarness.total_gpus)
        yield KubeHarness(lab, tmp_path, **settings)

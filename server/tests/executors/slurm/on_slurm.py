"""What tests on a real Slurm have in common: jobs that count their starts, and a proxy before the REST daemon."""

import asyncio
import contextlib
import json
import os
import shutil
import uuid
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.tests.containers.builders import finish, make_request
from e2e.support.proxy import EngineProxy, engine_proxy
from e2e.support.slurm_lab import USERS, SlurmLab, find_obstacle, slurm_lab
from server.tests.executors.on_engine import COUNTS, Held
from starforge.contract.executor import FleetView, Target
from starforge.contract.ids import AttemptId
from starforge.contract.launch import LaunchRequest, Secret
from starforge.contract.observation import Phase, Seen
from starforge_console.executors.slurm.executor import SlurmExecutor
from starforge_console.executors.slurm.settings import ClusterSettings, SigningKey

ADA = f"{USERS['ada']}:{USERS['ada']}"


@contextlib.contextmanager
def ready_lab(**changes: object) -> Iterator[SlurmLab]:
    """A cluster; the test is skipped, with the reason, where none can run."""
    obstacle = find_obstacle()
    if obstacle:
        pytest.skip(obstacle)
    with slurm_lab(**changes) as lab:
        yield lab


class SlurmHarness:
    """One executor over one cluster; `partition` solo has one node of four GPUs."""

    total_gpus = 4

    def __init__(self, lab: SlurmLab, proxy: EngineProxy, root: Path, **settings: Any) -> None:
        self.lab = lab
        self.proxy = proxy
        self.root = root
        self._settings = settings
        # Slurm remembers the jobs of earlier tests: to this one they are another install's.
        self.install = f"lab-{uuid.uuid4().hex[:8]}"
        self._workdirs: dict[AttemptId, Path] = {}
        self.executor = self.open()

    def open(self, **changes: Any) -> SlurmExecutor:
        """An executor as a console that starts now makes it."""
        settings = ClusterSettings(
            fleet="cluster",
            install=self.install,
            url=f"unix://{self.proxy.socket_path}",
            user="ada",
            token=SigningKey(self.lab.jwt_key),
            state_dir=self.root / "state",
            storage_root=self.root,
            partition="solo",
            poll_s=0.2,
        )
        return SlurmExecutor(replace(settings, **{**self._settings, **changes}), find_made_up_series)

    def make_request(self, *, gpus: int = 1, secret: str = "", script: str = COUNTS, **changes: Any) -> LaunchRequest:
        secrets = {"TOKEN": Secret(secret)} if secret else {}
        request = make_request(self.root, script, gpus=gpus, secrets=secrets, user=ADA)
        request = replace(request, install=self.install, **changes)
        os.chown(request.workdir, USERS["ada"], USERS["ada"])
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
            await asyncio.sleep(0.02)

    def lose_next_launch_reply(self) -> None:
        self.proxy.lose_reply("/job/submit")

    async def hold_next_launch(self, launch: Callable[[], Awaitable[None]]) -> Held:
        there, let_pass = self.proxy.hold("/job/submit")
        launching = asyncio.ensure_future(launch())
        await asyncio.to_thread(there.wait, 20)
        return Held(launching, let_pass.set)

    def make_unreachable(self) -> None:
        self.proxy.go_away()

    def make_reachable(self) -> None:
        self.proxy.come_back()

    async def restart(self) -> None:
        await self.executor.close()
        await asyncio.to_thread(self.lab.restart)
        self.executor = self.open()

    def count_starts(self, attempt: AttemptId) -> int:
        record = self._workdirs[attempt] / "starts"
        return len(record.read_text().splitlines()) if record.exists() else 0

    def read_visible(self, attempt: AttemptId) -> str:
        shown = self.lab.control("show", "job", "-d")
        logs = [path.read_text(errors="replace") for path in self.lab.root.glob("log/*.log")]
        own = [path.read_text() for path in (self._workdirs[attempt] / ".slurm").iterdir()]
        return json.dumps([shown, logs, own, list(self.lab.list_pids().values()), self.lab.list_environments()])

    def close(self) -> None:
        self.lab.empty()
        # What a node leaves that failed under its job stays in its memory until it starts anew.
        for attempt in self._workdirs:
            for left in Path("/dev/shm").glob(f"starforge-{attempt}-*"):  # noqa: S108 - where nodes keep secrets
                shutil.rmtree(left, ignore_errors=True)


def find_made_up_series(gpu_type: str) -> str | None:
    return "h200-sxm" if gpu_type == "h200" else None


@contextlib.contextmanager
def slurm_harness(lab: SlurmLab, tmp_path: Path, **settings: Any) -> Iterator[SlurmHarness]:
    """A harness whose jobs are ended with it."""
    tmp_path.chmod(0o755)  # the jobs' user passes through
    for above in tmp_path.parents:
        if above.stat().st_uid == os.geteuid() and above.is_relative_to("/tmp"):  # noqa: S108 - pytest's own folders
            above.chmod(above.stat().st_mode | 0o055)
    address = ("127.0.0.1", lab.conf.rest_port)
    with lab.short_folder() as short, engine_proxy(short / "p.sock", address) as proxy:
        harness = SlurmHarness(lab, proxy, tmp_path, **settings)
        try:
            yield harness
        finally:
            proxy.come_back()
            harness.close()

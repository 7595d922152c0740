"""Real forgelet processes: each with a state directory and a port of its own."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from core.tests.containers.builders import wait_until
from forgelet.tests.support.registrar import JOIN_TOKEN, Registrar
from starforge.trust.contexts import build_client_context

FORGELET = str(Path(sys.executable).with_name("forgelet"))


def find_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@dataclass(slots=True)
class Daemon:
    """One machine's forgelet. `before` are words that run it elsewhere, such as in a machine's namespaces."""

    root: Path
    docker_socket: str
    secrets_dir: Path
    gpus: int = 4
    before: tuple[str, ...] = ()
    extra: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=find_free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def state_dir(self) -> Path:
        return self.root / "forgelet"

    @property
    def log(self) -> Path:
        return self.root / "forgelet.log"

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FORGE_")}
        return {
            **kept,
            "FORGE_NODE_STATE_DIR": str(self.state_dir),
            "FORGE_GPU_RUNTIME": "none",
            "FORGE_LOCAL_GPU_COUNT": str(self.gpus),
            "FORGE_LOCAL_GPU_NAME": "Test GPU",
            "FORGE_DOCKER_SOCKET": self.docker_socket,
            "FORGE_SECRETS_DIR": str(self.secrets_dir),
            **self.extra,
        }

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """One command, to its end."""
        return subprocess.run(
            [*self.before, FORGELET, *words],
            env={**self.environment(), **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def join(self, server: str, fleet: str, token: str = JOIN_TOKEN, address: str = "") -> None:
        advertise = address or f"127.0.0.1:{self.port}"
        words = ("join", "--server", server, "--fleet", fleet, "--advertise", advertise)
        done = self.run(*words, FORGE_JOIN_TOKEN=token)
        assert done.returncode == 0, done.stderr

    def start(self, host: str = "127.0.0.1") -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.before, FORGELET, "serve", "--host", host, "--port", str(self.port)],
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait(20)
            self.process = None

    def terminate(self) -> int:
        """End it in good order; its exit code."""
        assert self.process is not None
        self.process.terminate()
        code = self.process.wait(20)
        self.process = None
        return code

    def freeze(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def daemon_process(daemon: Daemon) -> Iterator[Daemon]:
    """`daemon`, ended at the end of the block however the test ends."""
    try:
        yield daemon
    finally:
        daemon.kill()


def console_client(registrar: Registrar, daemon: Daemon, folder: Path, **headers: str) -> httpx2.Client:
    """The console's connection to `daemon`."""
    key_file = folder / "console.pem"
    key_file.write_text(registrar.identity_pem)
    context = build_client_context(key_file, registrar.node_certificate)
    url = f"https://127.0.0.1:{daemon.port}"
    return httpx2.Client(base_url=url, verify=context, trust_env=False, timeout=20, headers=headers)


def wait_for_epoch(registrar: Registrar, epoch: int) -> None:
    wait_until(lambda: any(report.epoch == epoch for report in registrar.reports), f"a heartbeat of epoch {epoch}")

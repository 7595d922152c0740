"""What a user would take instead, each in an environment of its own below build/peers, to be measured beside ours.

`make bench PEERS=1` installs what is missing there, in the versions named here. A peer that cannot be had is said so.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.ground import Unmeasurable
from e2e.support.console import wait_for

ASKED: Final = "PEERS"
_FOLDER: Final = Path(__file__).parents[1] / "build" / "peers"
_PINNED: Final[Mapping[str, str]] = {
    "dstack": "dstack[server]==0.22.5",
    "mlflow": "mlflow==3.17.2",
    "ray": "ray[default]==2.60.0",
    "wandb": "wandb==0.31.0",
}
_INSTALL_S: Final = 900
_START_S: Final = 90.0
_END_S: Final = 20


@dataclass(frozen=True, slots=True)
class Peer:
    """An installed peer, and the environment in which it finds nothing of this machine's user."""

    name: str
    python: Path
    home: Path

    @property
    def environment(self) -> dict[str, str]:
        """A home and a language of its own, and nobody told about its use."""
        path = f"{self.python.parent}{os.pathsep}{os.environ['PATH']}"
        quiet = {"DO_NOT_TRACK": "1", "MLFLOW_DISABLE_TELEMETRY": "true", "RAY_USAGE_STATS_ENABLED": "0"}
        return {"PATH": path, "HOME": str(self.home), "LC_ALL": "C.UTF-8", **quiet}

    def command(self, *arguments: str) -> list[str]:
        """The command line of its program that has its name."""
        return [str(self.python.parent / self.name), *arguments]


def open_peer(name: str, home: Path) -> Peer:
    """The peer, installed if it has to be. Raises Unmeasurable."""
    if not os.environ.get(ASKED):
        raise Unmeasurable(f"{name} is measured by 'make bench {ASKED}=1'")
    folder, wanted = _FOLDER / name, _PINNED[name]
    mark = folder / "installed"
    if not mark.exists() or mark.read_text() != wanted:
        _install(folder, wanted)
        mark.write_text(wanted)
    return Peer(name, folder / "bin" / "python", home)


@contextlib.contextmanager
def serve(peer: Peer, command: Sequence[str], port: int, **more: str) -> Iterator[None]:
    """One of the peer's servers, until it answers on `port` and for as long as the block lasts."""
    with (
        (peer.home / "server.log").open("wb") as log,
        subprocess.Popen(
            command, env={**peer.environment, **more}, stdout=log, stderr=log, cwd=peer.home, start_new_session=True
        ) as process,
    ):
        try:
            wait_for(lambda: process.poll() is not None or _listens(port), f"{peer.name} to listen", _START_S)
            if process.poll() is not None:
                raise Unmeasurable(f"{peer.name} ended at once: {_last_line(log.name)}")
            yield
        finally:
            _end(process)


def free_port() -> int:
    """A port on which nothing listens now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _install(folder: Path, wanted: str) -> None:
    print(f"installing {wanted}", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--no-cache-dir", wanted]
    for command in ([sys.executable, "-m", "venv", str(folder)], pip):
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=_INSTALL_S)
        except subprocess.CalledProcessError as error:
            shutil.rmtree(folder, ignore_errors=True)
            said = error.stderr.strip().splitlines() or ["it said nothing"]
            raise Unmeasurable(f"{wanted} cannot be installed: {said[-1]}") from error
        except subprocess.TimeoutExpired as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise Unmeasurable(f"{wanted} cannot be installed: not done after {_INSTALL_S} s") from error


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End it and what it has started in its session."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _last_line(file: str) -> str:
    lines = Path(file).read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"

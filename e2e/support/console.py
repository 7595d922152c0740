"""A console of a test's own: the real commands in processes of their own, on free ports and in folders of their own."""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from e2e.support.owned import MEMORY, OwnedFolder

READY_S: Final = 30.0
_BIN: Final = Path(sys.executable).parent
_GIVEN_PORTS: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_PORTS_BELOW: Final = 16_000
_PORTS_TRIED: Final = 1000

T = TypeVar("T")


def wait_for(look: Callable[[], T | None], what: str, limit_s: float = 60.0) -> T:
    """What `look` gives once it gives something; asked again and again until `limit_s` is over."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    message = f"waited {limit_s} s for {what}"
    raise TimeoutError(message)


class ConsoleProcess:
    """`starforge-console` on a ledger and a storage of its own, and `sf` signed in to it."""

    def __init__(self, folder: Path, docker_socket: str, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.storage = Path((settings or {}).get("FORGE_STORAGE_ROOT", folder / "storage"))
        self.projects = folder / "projects"
        self.port, self.ingest_port = find_free_port(), find_free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        self._secrets = OwnedFolder(MEMORY)
        self.projects.mkdir(parents=True, exist_ok=True)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("FORGE_", "SF_"))},
            "PATH": f"{_BIN}:{os.environ['PATH']}",
            "FORGE_CONSOLE_STATE_DIR": str(folder / "state"),
            "FORGE_STORAGE_ROOT": str(self.storage),
            "FORGE_SECRETS_DIR": str(self._secrets.path),
            "FORGE_DOCKER_SOCKET": docker_socket,
            "FORGE_GPU_RUNTIME": "none",
            "FORGE_LOCAL_GPU_COUNT": "2",
            "FORGE_LOCAL_GPU_NAME": "NVIDIA L40S",
            "FORGE_LISTEN": f"127.0.0.1:{self.port}",
            "FORGE_PUBLIC_URL": self.url,
            "FORGE_INGEST_LISTEN": f"0.0.0.0:{self.ingest_port}",
            "FORGE_INGEST_URL": f"http://host.docker.internal:{self.ingest_port}",
            "FORGE_CONTAINER_RETENTION_S": "0",
            "FORGE_JOB_UID": "12345",
            "FORGE_JOB_GID": "12345",
            "SF_CONFIG_DIR": str(folder / "sf"),
            "GIT_CONFIG_GLOBAL": os.devnull,
            **(settings or {}),
        }

    def init(self) -> str:
        """Make the ledger and the first administrator, and sign `sf` in; gives what init printed."""
        printed = self.admin("init", "--admin", "ada").stdout
        token = self.token()
        self.start()
        self.sf("login", "--server", self.url, typed=token)
        return printed

    def token(self, *options: str) -> str:
        """A new personal token of the first administrator."""
        return self.admin("token", "create", "--user", "ada", *options).stdout.strip()

    def start(self) -> None:
        """Start the console and wait until it answers."""
        self.begin()
        wait_for(self.is_ready, "the console to answer", READY_S)

    def begin(self) -> None:
        """Start it, whatever comes of it."""
        with (self.folder / "console.log").open("ab") as log:
            self.process = subprocess.Popen(
                # The kernel ends it together with whoever made it, however that process dies.
                ["setpriv", "--pdeathsig", "KILL", _BIN / "starforge-console", "serve"],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def is_ready(self) -> bool:
        """Whether the console answers. Raises when its process has ended."""
        if self.process is not None and self.process.poll() is not None:
            message = f"the console ended with {self.process.returncode}:\n{self.read_log()[-4000:]}"
            raise RuntimeError(message)
        with contextlib.suppress(OSError, urllib.error.URLError):
            return bool(self.get("/healthz")["status"] == "ok")
        return False

    def kill(self) -> None:
        """kill -9, as a crash does it."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop the console in an orderly way."""
        self._end(signal.SIGTERM)

    def restart(self) -> None:
        """kill -9, then start again on the same ledger."""
        self.kill()
        self.start()

    def close(self) -> None:
        """Stop the console and remove what lies outside of its folder."""
        self.stop()
        self._secrets.close()

    def admin(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `starforge-console`."""
        return self._run(_BIN / "starforge-console", arguments, self.folder, None)

    def sf(
        self, *arguments: str, cwd: Path | None = None, typed: str | None = None, may_fail: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run `sf`, in the folder of projects unless told otherwise; `typed` is its standard input."""
        return self._run(_BIN / "sf", arguments, cwd or self.projects, typed, may_fail=may_fail)

    def get(self, path: str, token: str | None = None) -> Any:  # noqa: ANN401 - a JSON answer
        """The API's JSON answer to a GET of `path`."""
        request = urllib.request.Request(self.url + path)  # noqa: S310 - our own loopback address
        if token is not None:
            request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=40) as answer:  # noqa: S310 - our own loopback address
            return json.loads(answer.read())

    def read_log(self) -> str:
        """What the console has logged."""
        return (self.folder / "console.log").read_text(errors="replace")

    def _run(
        self,
        program: Path,
        arguments: tuple[str, ...],
        cwd: Path,
        typed: str | None,
        *,
        may_fail: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [program, *arguments],
            cwd=cwd,
            env=self.environment,
            input=typed or "",
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode != 0 and not may_fail:
            message = f"{program.name} {' '.join(arguments)} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
            raise RuntimeError(message)
        return done

    def _end(self, number: signal.Signals) -> None:
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait(timeout=20)
        self.process = None


@contextlib.contextmanager
def console_process(
    folder: Path, docker_socket: str, settings: Mapping[str, str] | None = None
) -> Iterator[ConsoleProcess]:
    """A console that is up, with its first administrator signed in; gone at the end."""
    console = ConsoleProcess(folder, docker_socket, settings)
    try:
        console.init()
        yield console
    finally:
        console.close()


def find_free_port() -> int:
    """A TCP port that nobody listens on now, and that no connection is given meanwhile: a console may start later."""
    first_given = int(_GIVEN_PORTS.read_text().split()[0])
    chance = random.SystemRandom()  # whatever a run's seed is: several processes look at one time
    for _ in range(_PORTS_TRIED):
        port = chance.randrange(max(1024, first_given - _PORTS_BELOW), first_given)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("0.0.0.0", port))  # noqa: S104 - nothing listens on it
            return port
    raise RuntimeError(f"no port below {first_given} is free")

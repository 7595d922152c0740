"""A console installed from its wheels on a clean machine under a real systemd, as its documentation says."""

import contextlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from e2e.support.clean_machine import CleanMachine
from e2e.support.console import ConsoleProcess, wait_for
from e2e.support.engines import PrivateEngine

REPOSITORY: Final = Path(__file__).parents[2]
PREFIX: Final = "/opt/starforge"
PROGRAM: Final = f"{PREFIX}/venv/bin/starforge-console"
SETTINGS: Final = "/etc/starforge/console.env"
SERVICE: Final = "starforge-console"
PORT: Final = 7080
_MEMBERS: Final = ("core", "server", "forgelet")

# Third-party packages as they were installed here, without our own, which lie there as links to the sources.
_LINK: Final = """
mkdir -p /opt/third
for path in /opt/all/*; do
  case ${path##*/} in *starforge*) ;; *) ln -s "$path" /opt/third/ ;; esac
done
python3 -m venv --without-pip /opt/starforge/venv
echo /opt/third >/opt/starforge/venv/lib/python3.11/site-packages/third.pth
printf '#!/bin/sh\\nexec /opt/starforge/venv/bin/python -m pip "$@"\\n' >/opt/starforge/venv/bin/pip
chmod 755 /opt/starforge/venv/bin/pip
"""


def build_wheels(sources: Path, target: Path) -> Path:
    """The three wheels of a tree, built without any network."""
    folders = [str(sources / member) for member in _MEMBERS]
    argv = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index", "-w"]
    subprocess.run([*argv, str(target), *folders], check=True, capture_output=True, text=True)
    return target


def copy_release(target: Path, version: str) -> Path:
    """The three packages' sources as another release."""
    for member in _MEMBERS:
        ignored = shutil.ignore_patterns("__pycache__", "tests")
        shutil.copytree(REPOSITORY / member, target / member, ignore=ignored)
    for file in (*target.glob("*/pyproject.toml"), target / "core/starforge/__init__.py"):
        text = file.read_text(encoding="utf-8")
        file.write_text(re.sub(r"0\.1\.0\+forge", version, text), encoding="utf-8")
    return target


@dataclass(slots=True)
class DeployedConsole:
    """The console of one machine. `settings` is what its file of settings says."""

    machine: CleanMachine
    storage: Path
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Where people find it."""
        return f"http://{self.machine.engine.address}:{PORT}"

    def put(self, path: str, text: str) -> None:
        """Write a file of the machine, for root alone."""
        done = self.machine.run(
            "sh", "-ec", 'umask 077; mkdir -p "${1%/*}"; cat >"$1"', "sh", path, typed=text.encode()
        )
        assert done.returncode == 0, done.stderr

    def put_settings(self) -> None:
        """Write the file of settings."""
        self.put(SETTINGS, "".join(f'{name}="{value}"\n' for name, value in self.settings.items()))

    def add_wheels(self, wheels: Path, name: str) -> None:
        """Lay a release's wheels where the steps expect them."""
        self.machine.run("mkdir", "-p", f"{PREFIX}/wheels/{name}")
        for wheel in sorted(wheels.glob("*.whl")):
            done = self.machine.run(
                "sh", "-c", 'cat >"$0"', f"{PREFIX}/wheels/{name}/{wheel.name}", typed=wheel.read_bytes()
            )
            assert done.returncode == 0, done.stderr

    def shell(self, script: str) -> str:
        """What root's shell on the machine says to `script`; it must go well."""
        done = self.machine.run("bash", "-euo", "pipefail", "-c", script, PIP_NO_INDEX="1", HOME="/root")
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}\n{self.journal()}"
        return done.stdout

    def admin(self, words: str) -> str:
        """`starforge-console` with the settings of its file."""
        return self.shell(f"set -a; . {SETTINGS}; set +a; {PROGRAM} {words}").strip()

    def show(self, member: str) -> str:
        """What systemd says of the service."""
        return self.machine.run("systemctl", "show", "-P", member, SERVICE).stdout.strip()

    def journal(self) -> str:
        """How the service is, and what it has logged last."""
        return self.machine.run("systemctl", "status", "--no-pager", "-n", "60", SERVICE).stdout

    def wait_until_up(self) -> None:
        """Wait until it answers."""
        try:
            wait_for(self._answers, "the console to answer")
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {self.show('ActiveState')}\n{self.journal()}") from None

    def client(self, folder: Path) -> "RemoteConsole":
        """`sf` of this host, signed in as the first administrator."""
        return RemoteConsole(self, folder)

    def _answers(self) -> bool:
        address = f"http://127.0.0.1:{PORT}/healthz"
        ask = f"import urllib.request as r; print(r.urlopen({address!r}, timeout=5).read().decode())"
        asked = self.machine.run("python3", "-c", ask)
        return asked.returncode == 0 and json.loads(asked.stdout)["status"] == "ok"


class RemoteConsole(ConsoleProcess):
    """A console that runs elsewhere, asked from here."""

    def __init__(self, deployed: DeployedConsole, folder: Path) -> None:
        super().__init__(folder, "/nonexistent.sock")
        self.url, self.storage, self._deployed = deployed.url, deployed.storage, deployed
        self.sf("login", "--server", self.url, typed=self.token())

    def token(self, *options: str) -> str:
        """A new personal token of the first administrator."""
        return self._deployed.admin(" ".join(("token", "create", "--user", "ada", *options)))

    def read_log(self) -> str:
        """What the console has logged last."""
        return self._deployed.journal()


@contextlib.contextmanager
def console_machine(engine: PrivateEngine, folder: Path, lower: Path) -> Iterator[DeployedConsole]:
    """A machine with systemd, an engine at /run/docker.sock and a storage at /srv/starforge; nothing installed yet."""
    storage = folder / "storage"
    storage.mkdir(parents=True)
    engine.run(
        "sh", "-ec", 'mount -t tmpfs none /srv; mkdir /srv/starforge; mount --bind "$0" /srv/starforge', str(storage)
    )
    machine = CleanMachine(engine, folder / "machine")
    root = machine.root
    deployed = DeployedConsole(machine, storage)
    deployed.settings = {
        "FORGE_STORAGE_ROOT": "/srv/starforge",
        "FORGE_DOCKER_SOCKET": "/run/docker.sock",
        "FORGE_GPU_RUNTIME": "none",
        "FORGE_LOCAL_GPU_COUNT": "2",
        "FORGE_LOCAL_GPU_NAME": "NVIDIA L40S",
        "FORGE_JOB_UID": "12345",
        "FORGE_JOB_GID": "12345",
        "FORGE_LISTEN": f"0.0.0.0:{PORT}",
        "FORGE_PUBLIC_URL": deployed.url,
        "FORGE_INGEST_URL": f"http://10.214.{engine.slot}.1:7081",
        "FORGE_RECONCILE_S": "2",
    }
    bound = {
        "/srv/starforge": "srv/starforge",
        str(REPOSITORY / ".venv/lib/python3.11/site-packages"): "opt/all",
    }
    try:
        machine.up(lower, [])
        for source, target in bound.items():
            engine.run("sh", "-ec", 'mkdir -p "$1"; mount --bind "$0" "$1"', source, str(root / target))
        engine.run("sh", "-ec", ': >"$1"; mount --bind "$0" "$1"', engine.socket_path, str(root / "run/docker.sock"))
        machine.boot()
        deployed.shell(_LINK)
        yield deployed
    finally:
        machine.close()
        engine.run("umount", "--recursive", "--lazy", str(root))
        engine.run("umount", "--recursive", "--lazy", "/srv")

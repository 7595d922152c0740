"""A fresh machine to install forgelet on: a clean root on top of a private machine with its engine.

The root is an overlay, so that the packed one stays clean. Programs run in it as on the machine itself, or under a real
systemd whose services and cgroups are its own.
"""

import contextlib
import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from e2e.support.console import ConsoleProcess, wait_for
from e2e.support.engines import PrivateEngine

PREFIX: Final = "/opt/starforge/forgelet"
STATE: Final = "/var/lib/starforge-forgelet"
PORT: Final = 7070
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MASKED: Final = (
    "systemd-firstboot systemd-machine-id-commit systemd-udevd systemd-logind systemd-resolved systemd-networkd"
    " getty@tty1 console-getty"
).split()
_BOOT_S: Final = 30.0

# Runs as the machine's root: $1 the clean root, $2 a folder for the overlay, then paths to be seen at the same place.
_MOUNT: Final = """
lower=$1 top=$2; shift 2
mkdir -p "$top/upper" "$top/work" "$top/root"
mount -t overlay -o "lowerdir=$lower,upperdir=$top/upper,workdir=$top/work" none "$top/root"
cd "$top/root"
mount -t proc none proc
mount --rbind /sys sys
mount -t tmpfs none dev
for node in null zero full random urandom; do : >dev/$node; mount --bind /dev/$node dev/$node; done
mkdir dev/shm; ln -s /proc/self/fd dev/fd; ln -s pts/ptmx dev/ptmx
mount -t tmpfs -o mode=755 none run
mkdir -p run/lock /run/starforge run/starforge
mount --bind /run/lock run/lock
mount --bind /run/starforge run/starforge
for path in "$@"; do
  if [ -d "$path" ]; then mkdir -p ".$path"; else mkdir -p ".${path%/*}"; : >".$path"; fi
  mount --bind "$path" ".$path"
done
"""
# Runs in namespaces of its own: PID 1 gets a cgroup of its own as the root of its hierarchy, then becomes systemd.
_BOOT: Final = """
root=$1
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  umount -R "$root/sys"; mount -t sysfs -o ro none "$root/sys"; mount -t cgroup2 none "$root/sys/fs/cgroup"
else
  umount -R "$root/sys"; mount -t sysfs -o ro none "$root/sys"; mount -t tmpfs none "$root/sys/fs/cgroup"
  mkdir "$root/sys/fs/cgroup/systemd"
  mount -t cgroup -o none,name=systemd none "$root/sys/fs/cgroup/systemd"
fi
umount "$root/proc"; mount -t proc none "$root/proc"
exec env -i container=starforge-test PATH=/usr/sbin:/usr/bin chroot "$root" \\
  /usr/lib/systemd/systemd --log-target=console
"""


@dataclass(slots=True)
class CleanMachine:
    """One machine. `settings` are FORGE_ variables that the installation is given."""

    engine: PrivateEngine
    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _systemd: int | None = None

    @property
    def root(self) -> Path:
        """The root as the machine sees it; on the host it is empty."""
        return self.folder / "root"

    def up(self, lower: Path, shared: Sequence[Path]) -> None:
        """Mount the root; `shared` are paths that it has in common with the engine."""
        self.folder.mkdir(parents=True, exist_ok=True)
        seen = [str(path) for path in (Path(self.engine.socket_path), *shared)]
        self.engine.run("sh", "-ec", _MOUNT, "sh", str(lower), str(self.folder), *seen)

    def boot(self) -> None:
        """Start systemd and wait until it has come up."""
        for name in _MASKED:
            self.run("ln", "-sf", "/dev/null", f"/etc/systemd/system/{name}.service")
        group = f"/sys/fs/cgroup/systemd/starforge-test-clean-{self.engine.slot}"
        if Path("/sys/fs/cgroup/cgroup.controllers").exists():
            group = f"/sys/fs/cgroup/starforge-test-clean-{self.engine.slot}"
        join = f'mkdir -p "{group}"; echo $$ >"{group}/cgroup.procs"; exec "$@"'
        apart = ["unshare", "--mount", "--propagation", "private", "--cgroup", "--pid", "--fork", "--kill-child"]
        argv = [*self.engine.entering(), "sh", "-ec", join, "sh", *apart, "sh", "-ec", _BOOT, "sh", str(self.root)]
        with (self.folder / "systemd.log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    ["setpriv", "--pdeathsig", "KILL", *argv],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )
        self._systemd = wait_for(self._find_systemd, "systemd to start", _BOOT_S)
        wait_for(self._is_up, "systemd to come up", _BOOT_S)

    def run(self, *argv: str, typed: bytes = b"", **environment: str) -> subprocess.CompletedProcess[str]:
        """A program in the root, with this environment and no other, to its end."""
        done = subprocess.run(
            self._call(argv, environment),
            input=typed,
            capture_output=True,
            timeout=180,
            check=False,
        )
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        )

    def install(
        self, console: ConsoleProcess, *words: str, shell: str = "sh", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """What the pasted line does: the console's script from standard input, as a shell reads it."""
        script = fetch(f"{console.url}/install.sh")
        arguments = ("-s", "--", *words) if words else ()
        return self.run(shell, *arguments, typed=script, **{**self.settings, **environment})

    def spawn(self, line: str) -> subprocess.Popen[bytes]:
        """Start what a shell makes of `line`, in the background; it ends with the machine at the latest."""
        with (self.folder / "spawned.log").open("ab") as log:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self._call(("sh", "-c", f"exec {line}"), self.settings)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """End what `spawn` started, in good order."""
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        for child in children.read_text().split():
            os.kill(int(child), signal.SIGTERM)
        process.wait(30)
        self._processes.remove(process)

    def read(self, path: str) -> str:
        """A file of the root."""
        done = self.run("cat", path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def find_node(self) -> str:
        """The name that its console knows it by."""
        return str(json.loads(self.read(f"{STATE}/identity.json"))["node"])

    def list_versions(self) -> list[str]:
        """The folders of versions that are there."""
        done = self.run("sh", "-c", f"cd {PREFIX} && for d in */; do [ -L ${{d%/}} ] || echo ${{d%/}}; done")
        return sorted(line for line in done.stdout.split() if line != "*")

    def current(self) -> str:
        """The version that the link names; empty when there is none."""
        return self.run("readlink", f"{PREFIX}/current").stdout.strip()

    def close(self) -> None:
        """End what was started here; the mounts end with the machine."""
        for process in reversed(self._processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(20)
        self._processes.clear()
        for place in ("/sys/fs/cgroup/systemd", "/sys/fs/cgroup"):
            _remove_cgroup(Path(place, f"starforge-test-clean-{self.engine.slot}"))

    def _call(self, argv: Sequence[str], environment: Mapping[str, str]) -> list[str]:
        assigned = [f"{name}={value}" for name, value in environment.items()]
        return [*self._entering(), "env", "-i", f"PATH={_PATH}", "HOME=/root", *assigned, *argv]

    def _entering(self) -> list[str]:
        if self._systemd is not None:
            return [
                "nsenter",
                "-t",
                str(self._systemd),
                "--mount",
                "--net",
                "--pid",
                "--uts",
                "--cgroup",
                "--root",
                "--wd",
                "--",
            ]
        return [*self.engine.entering(), "chroot", str(self.root)]

    def _find_systemd(self) -> int | None:
        """The process that has become systemd, as the host sees it."""
        left = [self._processes[-1].pid]
        while left:
            pid = left.pop()
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text().strip() == "systemd":
                    return pid
                left += [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return None

    def _is_up(self) -> bool:
        return self.run("systemctl", "is-system-running").stdout.strip() in {"running", "degraded"}


@contextlib.contextmanager
def clean_machine(
    engine: PrivateEngine, folder: Path, lower: Path, shared: Sequence[Path], *, systemd: bool = False
) -> Iterator[CleanMachine]:
    """A fresh machine on `engine`, for as long as the block lasts."""
    machine = CleanMachine(engine, folder)
    try:
        machine.up(lower, shared)
        if systemd:
            machine.boot()
        yield machine
    finally:
        machine.close()
        engine.run("umount", "--recursive", "--lazy", str(machine.root))


def fetch(url: str) -> bytes:
    """The bytes behind an address of a test's own console."""
    with urllib.request.urlopen(url, timeout=40) as answer:  # noqa: S310 - our own loopback address
        return bytes(answer.read())


def _remove_cgroup(folder: Path) -> None:
    deadline = time.monotonic() + 5
    while folder.is_dir() and time.monotonic() < deadline:
        for below in sorted(folder.rglob("*/"), key=lambda path: len(path.parts), reverse=True):
            with contextlib.suppress(OSError):  # a process that is just ending still holds it
                below.rmdir()
        with contextlib.suppress(OSError):
            folder.rmdir()

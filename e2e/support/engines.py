"""Private Docker engines for tests: each one behaves like a small machine of its own.

A machine is a set of namespaces (network, mount, pid, uts) under an init. Its end ends the engine, every container,
mount and interface at once, and it ends with the process that made it, however that process dies.
"""

import contextlib
import fcntl
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from e2e.support.owned import find_host_locks, owned_folder
from starforge.containers.engine import Engine
from starforge.errors import StarForgeError

NEEDED: Final = ("dockerd", "containerd", "runc", "tini", "unshare", "nsenter", "setpriv", "ip", "iptables", "mount")
_SLOTS: Final = 60
_READY_S: Final = 40.0
_INTERFACES: Final = Path("/sys/class/net")


def find_obstacle() -> str | None:
    """Why no private engine can run here, or None."""
    if os.geteuid() != 0:
        return "private engines need root"
    missing = [name for name in NEEDED if shutil.which(name) is None]
    return f"private engines need {', '.join(missing)}" if missing else None


@dataclass(slots=True)
class PrivateEngine:
    """A machine with an engine. `gateway` is the test's host as the machine and its containers see it."""

    root: Path
    slot: int
    arguments: tuple[str, ...] = ()
    path_prefix: str = ""
    _init: int | None = None
    _connected: bool = False
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def socket_path(self) -> str:
        return str(self.root / "docker.sock")

    @property
    def gateway(self) -> str:
        return f"10.213.{self.slot}.1"

    @property
    def address(self) -> str:
        return f"10.213.{self.slot}.2"

    @property
    def engine(self) -> Engine:
        return Engine(self.socket_path)

    def up(self) -> None:
        """Make the machine and start its engine."""
        self._make_machine()
        self.start()

    def start(self) -> None:
        """Start the engine and wait until it answers."""
        for stale in ("docker.pid", "exec/containerd/containerd.pid", "docker.sock"):
            (self.root / stale).unlink(missing_ok=True)
        arguments = [
            *("dockerd", "-H", f"unix://{self.socket_path}", "--data-root", str(self.root / "data")),
            *("--exec-root", str(self.root / "exec"), "--pidfile", str(self.root / "docker.pid")),
            *("--bip", f"10.214.{self.slot}.1/24", "--host-gateway-ip", self.gateway),
            *("--cgroup-parent", self._cgroup, "--insecure-registry", "10.213.0.0/16", *self.arguments),
        ]
        with (self.root / "dockerd.log").open("ab") as log:
            self._processes.append(self.spawn(arguments, log))
        self._wait_until(self.answers, "answer")

    def spawn(self, argv: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start a program inside the machine; it ends with the machine at the latest."""
        environment = dict(
            os.environ, PATH=f"{self.path_prefix}:{os.environ['PATH']}" if self.path_prefix else os.environ["PATH"]
        )
        return subprocess.Popen(
            [*self.entering(), *argv],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=environment,
        )

    def run(self, *argv: str) -> str:
        """Run a program inside the machine to its end."""
        return subprocess.run([*self.entering(), *argv], check=True, capture_output=True, text=True).stdout

    def ask(self, method: str, path: str) -> None:
        """A call that the product never makes."""
        connection = http.client.HTTPConnection("engine", timeout=60)
        with contextlib.closing(connection), socket.socket(socket.AF_UNIX) as sock:
            sock.connect(self.socket_path)
            connection.sock = sock
            connection.request(method, path, headers={"Content-Type": "application/json"})
            response = connection.getresponse()
            assert response.status < http.client.BAD_REQUEST, response.read()

    def remove_containers(self) -> None:
        """End and remove every container: the console of the next test would take them for a stranger's."""
        for container in self.engine.list_containers():
            self.engine.remove(container["Id"], force=True)

    def kill(self) -> None:
        """kill -9 of the engine, as a crash does it."""
        os.kill(self.engine_pid, signal.SIGKILL)
        self._reap()

    def stop(self) -> None:
        """Stop the engine in an orderly way."""
        os.kill(self.engine_pid, signal.SIGTERM)
        self._reap()

    def freeze(self) -> None:
        """Let the engine hang: its socket accepts and says nothing."""
        frozen = self.engine_pid
        os.kill(frozen, signal.SIGSTOP)
        # Each thread stops in its own time, and may answer until then.
        self._wait_until(lambda: all(_is_stopped(thread) for thread in Path(f"/proc/{frozen}/task").iterdir()), "stop")

    def thaw(self) -> None:
        """Let it go on."""
        os.kill(self.engine_pid, signal.SIGCONT)
        os.kill(self._processes[-1].pid, signal.SIGCONT)  # nsenter stops together with its child

    @contextlib.contextmanager
    def full(self, folder: str) -> Iterator[None]:
        """No room at all in a folder of the engine's data root, as on a disk that is full."""
        place = self.root / "data" / folder
        self.run("mount", "-t", "tmpfs", "-o", "size=4k,mode=0700", "none", str(place))
        try:
            self.run("sh", "-c", f"head -c 8k /dev/zero > {place}/ballast || true")
            yield
        finally:
            self.uncover(place)

    def uncover(self, place: Path) -> None:
        """Take away what was mounted over `place`, also while somebody has a file open there."""
        self.run("umount", "--lazy", str(place))

    def reboot(self) -> None:
        """Every process of the machine dies, then it starts anew."""
        self._end_machine()
        self.up()

    def down(self) -> None:
        """End the machine and remove what it left on the host."""
        self._end_machine()
        for controller in Path("/sys/fs/cgroup").glob(f"*/{self._cgroup.strip('/')}"):
            _remove_cgroup(controller)

    @property
    def engine_pid(self) -> int:
        """The engine's process as this host sees it."""
        enters = self._processes[-1].pid
        return _children_of(enters)[0]

    @property
    def _cgroup(self) -> str:
        return f"/starforge-test-{self.slot}"

    def _make_machine(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        unshare = ["unshare", "--mount", "--propagation", "private", "--net", "--uts", "--pid", "--fork"]
        # The kernel ends unshare with the thread that made it, and unshare's own setting ends its child.
        argv = [
            "setpriv",
            "--pdeathsig",
            "KILL",
            *unshare,
            "--kill-child",
            "--mount-proc",
            "tini",
            "-s",
            "--",
            "sleep",
            "infinity",
        ]
        with (self.root / "init.log").open("ab") as log:
            machine = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self._processes = [machine]
        self._wait_until(lambda: bool(_children_of(machine.pid)), "start")
        self._init = _children_of(machine.pid)[0]
        self._wait_until(self._is_inside, "enter its namespaces")
        self._connect()
        boot = self.root / "boot_id"
        boot.write_text(str(uuid.uuid4()) + "\n")
        self.run("mount", "--bind", str(boot), "/proc/sys/kernel/random/boot_id")

    def _is_inside(self) -> bool:
        # tini has replaced unshare once the new mount namespace is complete.
        return Path(f"/proc/{self._init}/comm").read_text().strip() == "tini"

    def _connect(self) -> None:
        host_end = name_interface(self.slot)
        self._disconnect()
        _ip("link", "add", host_end, "type", "veth", "peer", "name", "eth0", "netns", str(self._init))
        self._connected = True
        _ip("addr", "add", f"{self.gateway}/24", "dev", host_end)
        _ip("link", "set", host_end, "up")
        self.run(
            "sh",
            "-ec",
            f"hostname node{self.slot}; ip link set lo up; ip addr add {self.address}/24 dev eth0; ip link set eth0 up;"
            f" ip route add default via {self.gateway}; echo 1 >/proc/sys/net/ipv4/ip_forward;"
            " mount -t tmpfs none /run; mkdir -p /run/lock",
        )

    def _end_machine(self) -> None:
        if self._init is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._init, signal.SIGKILL)
        for process in reversed(self._processes):
            process.send_signal(signal.SIGCONT)  # one that was stopped with its child could not reap it
            process.wait(timeout=20)
        self._init, self._processes = None, []
        self._disconnect()

    def _disconnect(self) -> None:
        """Remove the interface that this machine made, if it is still there; never one that it did not make."""
        if self._connected:
            subprocess.run(["ip", "link", "del", name_interface(self.slot)], check=False, capture_output=True)
        self._connected = False

    def entering(self) -> list[str]:
        """The words that run a program inside the machine, which ends with the machine at the latest."""
        return ["nsenter", "-t", str(self._init), "--mount", "--net", "--pid", "--uts", "--"]

    def _reap(self) -> None:
        self._processes.pop().wait(timeout=60)

    def answers(self) -> bool:
        """Whether the engine answers now."""
        try:
            self.engine.ping()
        except StarForgeError:
            return False
        return True

    def _wait_until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _READY_S
        while not holds():
            ended = [process for process in self._processes if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise RuntimeError(f"engine {self.slot} did not {what}: {self._read_logs()}")
            time.sleep(0.02)

    def _read_logs(self) -> str:
        logs = (self.root / name for name in ("init.log", "dockerd.log"))
        return "\n".join(log.read_text(errors="replace")[-1500:] for log in logs if log.exists())


@contextlib.contextmanager
def private_engine(root: Path, *arguments: str, path_prefix: str = "") -> Iterator[PrivateEngine]:
    """An engine with its files below `root`; `arguments` go to dockerd, `path_prefix` before its PATH."""
    root.mkdir(parents=True, exist_ok=True)
    # A socket's path may have 107 bytes, and a test's folder is often longer.
    with reserve_slot() as slot, owned_folder(None if len(str(root)) > 60 else root) as short:
        machine = PrivateEngine(short, slot, arguments, path_prefix)
        try:
            machine.up()
            yield machine
        finally:
            machine.down()


def write_nvidia_hook(folder: Path, known: tuple[str, ...]) -> str:
    """Make a folder with a GPU hook that accepts `known` UUIDs; as `path_prefix` it gives an engine the driver."""
    folder.mkdir(parents=True, exist_ok=True)
    hook = folder / "nvidia-container-runtime-hook"
    hook.write_text(
        "#!/usr/bin/env python3\n"
        "import json, sys\n"
        "state = json.load(sys.stdin)\n"
        "config = json.load(open(state['bundle'] + '/config.json'))\n"
        "wanted = [e.split('=', 1)[1] for e in config['process']['env'] if e.startswith('NVIDIA_VISIBLE_DEVICES=')]\n"
        f"known = set({json.dumps(known)})\n"
        "bad = [u for u in wanted[-1].split(',') if u not in known and u != 'void']\n"
        "sys.exit('unknown device: ' + bad[0] if bad else 0)\n"
    )
    hook.chmod(0o755)
    return str(folder)


@contextlib.contextmanager
def reserve_slot(locks: Path | None = None, interfaces: Path = _INTERFACES) -> Iterator[int]:
    """A number that no other machine of this host has; its interface, addresses and cgroup are named after it."""
    for slot in range(1, _SLOTS + 1):
        with ((locks or find_host_locks()) / f"slot-{slot}").open("a") as claim:
            try:
                fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            if (interfaces / name_interface(slot)).exists():
                continue  # whoever made it does not use these locks: it is not ours to take
            yield slot
            return
    raise RuntimeError(f"{_SLOTS} private engines run already")


def name_interface(slot: int) -> str:
    """The host's end of the machine's cable."""
    return f"sft{slot}"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def _children_of(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def _is_stopped(thread: Path) -> bool:
    return (thread / "stat").read_text().rpartition(")")[2].split()[0] == "T"


def _remove_cgroup(folder: Path) -> None:
    for below in folder.iterdir():
        if below.is_dir():
            _remove_cgroup(below)
    with contextlib.suppress(OSError):  # a process that is just ending still holds it
        folder.rmdir()

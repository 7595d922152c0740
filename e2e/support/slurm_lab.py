"""A private Slurm for tests: real munged, slurmctld, slurmd and slurmrestd in namespaces of their own, up in a second.

Every node is a slurmd of this host that says it has GPUs. The lab's init ends every daemon, step and job at once, and
it ends with the process that made it, however that process dies.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from e2e.support.engines import reserve_slot
from e2e.support.owned import owned_folder
from e2e.support.slurm_conf import Conf, find_folder_of_plugins, write_conf

NEEDED: Final = ("slurmctld", "slurmd", "slurmrestd", "munged", "scontrol", "tini", "unshare", "nsenter", "setpriv")
USERS: Final = {"ada": 61001, "bob": 61002, "slurmrest": 61003}
"""Users that only the lab knows, by their number; their group has the same."""
_READY_S: Final = 40.0
_RELAY: Final = """
import pathlib, signal, sys
from e2e.support.proxy import engine_proxy
with engine_proxy(pathlib.Path(sys.argv[1]), sys.argv[2]):
    signal.pause()
"""
_CGROUPS: Final = Path("/sys/fs/cgroup")


def find_obstacle() -> str | None:
    """Why no Slurm can run here, or None."""
    if os.geteuid() != 0:
        return "a private Slurm needs root"
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        return f"a private Slurm needs {', '.join(missing)}"
    if find_folder_of_plugins() is None:
        return "a private Slurm needs its plugins, auth_jwt.so among them"
    if not (_CGROUPS / "freezer").is_dir():
        return "a private Slurm tracks its processes by the freezer of cgroups of version 1, which is not mounted here"
    return None


@dataclass(slots=True)
class SlurmLab:
    """A cluster whose controller, nodes and REST daemon can be ended and started one by one."""

    root: Path
    conf: Conf
    _init: int | None = None
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.conf.rest_port}"

    @property
    def jwt_key(self) -> Path:
        return self.root / "etc/jwt_hs256.key"

    @property
    def nodes(self) -> tuple[str, ...]:
        return self.conf.nodes

    def up(self) -> None:
        """Make the lab and start everything; returns when every node is idle and the REST daemon answers."""
        self._make_keys()
        write_conf(self.root, self.conf)
        self._make_namespaces()
        self._start_munge()
        self.start_controller()
        for node in self.nodes:
            self.start_node(node)
        self._wait_until(lambda: self.count_idle() == len(self.nodes), "have every node idle")
        self.start_rest()

    def down(self) -> None:
        """End everything and remove what it left on the host."""
        if self._init is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._init, signal.SIGKILL)
        for process in reversed(self._processes):
            process.wait(timeout=20)
        self._init, self._processes = None, []
        for node in self.nodes:
            for controller in _CGROUPS.glob(f"*/slurm_{node}"):
                _remove_cgroup(controller)

    def start_controller(self) -> None:
        """Start slurmctld and wait until it answers."""
        self._log("slurmctld.log").unlink(missing_ok=True)
        self.run("slurmctld", "-f", str(self._conf_file))
        self._wait_until(self.has_controller, "answer")

    def kill_controller(self) -> None:
        """kill -9 of slurmctld, as a crash does it."""
        self._kill("slurmctld.pid")

    def start_node(self, node: str) -> None:
        """Start the slurmd of `node`."""
        self.run("slurmd", "-f", str(self._conf_file), "-N", node)

    def kill_node(self, node: str) -> None:
        """kill -9 of the slurmd of `node`; its steps live on."""
        self._kill(f"slurmd.{node}.pid")

    def stop_controller(self) -> None:
        """Stop slurmctld in an orderly way: it writes its state down first."""
        pid = (self.root / "run/slurmctld.pid").read_text().strip()
        self.run("kill", "-TERM", pid)
        self._wait_until(lambda: not self._runs(pid), "end slurmctld")

    def restart(self) -> None:
        """Controller, nodes and REST daemon end and start anew; steps live on."""
        self._rest().kill()
        self._processes.pop().wait(timeout=20)
        for node in self.nodes:
            self.kill_node(node)
        self.stop_controller()
        self.start_controller()
        for node in self.nodes:
            self.start_node(node)
        self.start_rest()

    def start_rest(self) -> None:
        """Start slurmrestd and wait until it listens."""
        argv = ["setpriv", "--reuid", str(USERS["slurmrest"]), "--regid", str(USERS["slurmrest"]), "--clear-groups"]
        # Without the variable it takes no token at all.
        argv += ["env", f"SLURM_CONF={self._conf_file}", "SLURM_JWT=daemon", "slurmrestd", "-f", str(self._conf_file)]
        argv += ["-a", "rest_auth/jwt", "-s", self.conf.api, f"127.0.0.1:{self.conf.rest_port}"]
        with self._log("slurmrestd.log").open("ab") as log:
            self._processes.append(
                subprocess.Popen([*self._entering(), *argv], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            )
        self._wait_until(self._listens, "listen")

    @contextlib.contextmanager
    def local_rest(self, path: Path, user: str) -> Iterator[str]:
        """A second REST daemon, of `user`'s own, behind a socket at `path` whose other end needs no token; its URL."""
        number = str(USERS[user])
        argv = ["setpriv", "--reuid", number, "--regid", number, "--clear-groups"]
        argv += ["env", f"SLURM_CONF={self._conf_file}", "slurmrestd", "-f", str(self._conf_file)]
        argv += ["-a", "rest_auth/local", "-s", "openapi/v0.0.38", f"unix:{path}"]
        # It asks the kernel who calls, which knows nobody from outside of the lab's own processes.
        inside = path.with_suffix(".inside")
        root = Path(__file__).parents[2]
        relay = ["env", f"PYTHONPATH={root}", sys.executable, "-c", _RELAY, str(inside), str(path)]
        with self._log("local-rest.log").open("ab") as log, contextlib.ExitStack() as ends:
            for words, at in ((argv, path), (relay, inside)):
                daemon = subprocess.Popen([*self._entering(), *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
                ends.callback(daemon.wait, timeout=20)
                ends.callback(daemon.kill)
                self._wait_until(at.exists, f"listen at {at.name}")
            yield f"unix://{inside}"

    def control(self, *words: str, check: bool = True) -> str:
        """What scontrol says, as root."""
        return self.run("timeout", "10", "scontrol", *words, check=check)

    def run(self, *argv: str, check: bool = True) -> str:
        """Run a program of the cluster's to its end."""
        done = subprocess.run(
            [*self._entering(), "env", f"SLURM_CONF={self._conf_file}", *argv],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if check and done.returncode:
            raise RuntimeError(f"{argv} exited with {done.returncode}: {done.stderr}\n{self._read_logs()}")
        return done.stdout

    def make_token(self, user: str, lifespan_s: int = 3600) -> str:
        """A token of the controller's own making."""
        return self.control("token", f"username={user}", f"lifespan={lifespan_s}").strip().removeprefix("SLURM_JWT=")

    def submit_as(self, user: str, *words: str) -> None:
        """Queue a job that is none of ours."""
        number = str(USERS[user])
        self.run(
            *("setpriv", "--reuid", number, "--regid", number, "--clear-groups", "sbatch", "--output=/dev/null"), *words
        )

    def drain(self, node: str) -> None:
        """Let nothing more start on `node`."""
        self.control("update", f"nodename={node}", "state=drain", "reason=test")

    def set_down(self, node: str) -> None:
        """Declare `node` dead: its jobs end as such."""
        self.control("update", f"nodename={node}", "state=down", "reason=test")

    def resume(self, node: str) -> None:
        """Take `node` back."""
        self.control("update", f"nodename={node}", "state=resume")

    def count_idle(self) -> int:
        """How many nodes are idle and take jobs."""
        told = self.run("timeout", "3", "sinfo", "-h", "-N", "-p", "main", "-o", "%t", check=False)
        return told.split().count("idle")

    def list_pids(self) -> dict[int, str]:
        """Every process of the lab, by its pid on this host, and its command line."""
        here = Path(f"/proc/{self._init}/ns/pid").readlink()
        found = {}
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and (entry / "ns/pid").readlink() == here:
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
        return found

    def list_environments(self) -> list[str]:
        """The environment of every process of the lab."""
        found = []
        for pid in self.list_pids():
            with contextlib.suppress(OSError):
                found.append(Path(f"/proc/{pid}/environ").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        return found

    @contextlib.contextmanager
    def short_folder(self) -> Iterator[Path]:
        """A folder whose path leaves room for a socket's name."""
        with owned_folder() as folder:
            yield folder

    def has_controller(self) -> bool:
        """Whether slurmctld answers now."""
        return "is UP" in self.run("timeout", "2", "scontrol", "ping", check=False)

    def empty(self) -> None:
        """End every job and wait until the nodes are as at the start."""
        for user in ("ada", "bob"):
            self.run("scancel", "--user", user, check=False)
        for node in self.nodes:
            self.control("update", f"nodename={node}", "state=resume", check=False)
        self._wait_until(lambda: self.count_idle() == len(self.nodes), "be idle again")

    @property
    def _conf_file(self) -> Path:
        return self.root / "etc/slurm.conf"

    def _log(self, name: str) -> Path:
        return self.root / "log" / name

    def _make_keys(self) -> None:
        for folder in ("etc", "run", "log", "ctld", "spool", "dev"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
            (self.root / folder).chmod(0o755)
        self.root.chmod(0o755)
        for owned in ("ctld", "log"):
            shutil.chown(self.root / owned, "slurm", "slurm")
        for key, size in (("munge.key", 1024), ("jwt_hs256.key", 32)):
            path = self.root / "etc" / key
            path.write_bytes(os.urandom(size))
            path.chmod(0o600)
        shutil.chown(self.jwt_key, "slurm", "slurm")

    def _make_namespaces(self) -> None:
        unshare = ["unshare", "--mount", "--propagation", "private", "--uts", "--pid", "--fork", "--kill-child"]
        argv = ["setpriv", "--pdeathsig", "KILL", *unshare, "--mount-proc", "tini", "-s", "--", "sleep", "infinity"]
        with self._log("init.log").open("ab") as log:
            first = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self._processes = [first]
        children = Path(f"/proc/{first.pid}/task/{first.pid}/children")
        self._wait_until(lambda: bool(children.read_text().split()), "start")
        self._init = int(children.read_text().split()[0])
        self._wait_until(lambda: Path(f"/proc/{self._init}/comm").read_text().strip() == "tini", "enter")
        self._add_users()

    def _add_users(self) -> None:
        for name, form in (("passwd", "{0}:x:{1}:{1}::/nonexistent:/bin/bash\n"), ("group", "{0}:x:{1}:\n")):
            own = self.root / "etc" / name
            known = Path("/etc", name).read_text()
            own.write_text(known + "".join(form.format(user, number) for user, number in USERS.items()))
            self.run("mount", "--bind", str(own), f"/etc/{name}")
        self.run("hostname", self.conf.host)

    def _start_munge(self) -> None:
        run, etc = self.root / "run", self.root / "etc"
        self.run(
            "munged",
            f"--key-file={etc}/munge.key",
            f"--socket={run}/munge.sock",
            f"--pid-file={run}/munged.pid",
            f"--log-file={run}/munged.log",
            f"--seed-file={run}/munged.seed",
            "--force",
        )

    def _kill(self, pid_file: str) -> None:
        pid = (self.root / "run" / pid_file).read_text().strip()
        self.run("kill", "-KILL", pid)
        self._wait_until(lambda: not self._runs(pid), f"end {pid_file}")

    def _runs(self, pid: str) -> bool:
        """Whether the process lives, by its number inside; one that waits to be reaped does not."""
        return self.run("sh", "-c", f"cut -d' ' -f3 /proc/{pid}/stat", check=False).strip() not in {"", "Z", "X"}

    def _rest(self) -> subprocess.Popen[bytes]:
        return self._processes[-1]

    def _listens(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.conf.rest_port), 1):
            return True
        return False

    def _entering(self) -> list[str]:
        return ["nsenter", "-t", str(self._init), "--mount", "--pid", "--uts", "--"]

    def _wait_until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _READY_S
        while not holds():
            if time.monotonic() > deadline or self._processes[0].poll() is not None:
                raise RuntimeError(f"Slurm did not {what}: {self._read_logs()}")
            time.sleep(0.02)

    def _read_logs(self) -> str:
        logs = sorted((self.root / "log").glob("*.log"))
        return "\n".join(f"{log.name}: {log.read_text(errors='replace')[-1500:]}" for log in logs)


@contextlib.contextmanager
def slurm_lab(**changes: object) -> Iterator[SlurmLab]:
    """A cluster for as long as the block lasts; `changes` are those of its `Conf`."""
    with reserve_slot() as slot, owned_folder() as root, contextlib.ExitStack() as ports:
        names = [ports.enter_context(_reserve_port()) for _ in range(6)]
        conf = Conf(slot=slot, controller_port=names[0], rest_port=names[1], node_ports=tuple(names[2:]), **changes)  # type: ignore[arg-type]  # by name
        ports.close()
        lab = SlurmLab(root, conf)
        try:
            lab.up()
            yield lab
        finally:
            lab.down()


@contextlib.contextmanager
def _reserve_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def _remove_cgroup(folder: Path) -> None:
    """Remove `folder` and what is below it; processes that are just ending hold it a moment longer."""
    deadline = time.monotonic() + _READY_S
    for one in sorted([*folder.rglob("*/"), folder], reverse=True):
        while one.is_dir():
            try:
                one.rmdir()
            except FileNotFoundError:
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

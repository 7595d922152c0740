"""A fleet of machines of a test's own: a console, and forgelets inside private machines that joined it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from e2e.support.console import ConsoleProcess, wait_for
from e2e.support.engines import PrivateEngine
from e2e.support.images import host_image
from starforge.containers.engine import EngineError
from starforge.containers.labels import State

FLEET: Final = "farm"
PORT: Final = 7070
"""Each machine has a network of its own, so that all serve on the usual port."""
_FORGELET: Final = str(Path(sys.executable).with_name("forgelet"))


@dataclass(slots=True)
class Machine:
    """One machine of the fleet. `settings` are FORGE_ variables of its daemon."""

    engine: PrivateEngine
    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    port: int = PORT
    name: str = ""
    """The node's name, once it has joined."""
    _daemon: subprocess.Popen[bytes] | None = None

    @property
    def state_dir(self) -> Path:
        return self.folder / "state"

    @property
    def log(self) -> Path:
        return self.folder / "forgelet.log"

    def join(self, console: ConsoleProcess, token: str, fleet: str = FLEET) -> None:
        """Join by token, as an administrator does on the machine."""
        done = self.try_join(console, token, fleet)
        assert done.returncode == 0, done.stderr
        self.name = json.loads(done.stdout)["node"]

    def try_join(self, console: ConsoleProcess, token: str, fleet: str = FLEET) -> subprocess.CompletedProcess[str]:
        """The same, whatever comes of it."""
        server = f"http://{self.engine.gateway}:{console.port}"
        advertise = f"{self.engine.address}:{self.port}"
        words = ("join", "--server", server, "--fleet", fleet, "--advertise", advertise, "--json")
        return self.run(*words, FORGE_JOIN_TOKEN=token)

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """One forgelet command inside the machine, to its end."""
        return subprocess.run(
            [*self.engine.entering(), _FORGELET, *words],
            env=self._environment(environment),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def start(self) -> None:
        """Start the daemon; it ends with the machine at the latest."""
        self.folder.mkdir(parents=True, exist_ok=True)
        serving = ("serve", "--port", str(self.port))
        with self.log.open("ab") as log:
            self._daemon = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self.engine.entering(), _FORGELET, *serving],
                env=self._environment({}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        """kill -9 of the daemon."""
        self._end(signal.SIGKILL)

    def terminate(self) -> None:
        """End the daemon in good order."""
        self._end(signal.SIGTERM)

    def freeze(self) -> None:
        """SIGSTOP of the daemon: its port accepts and says nothing."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT, also of what carries the daemon there: it stops together with its child."""
        self._signal(signal.SIGCONT)
        if self._daemon is not None:
            self._daemon.send_signal(signal.SIGCONT)

    @property
    def serves(self) -> bool:
        """Whether the daemon's process is there, frozen or not."""
        return self._daemon is not None and self._daemon.poll() is None

    def cut(self) -> None:
        """Part the machine from everybody; what runs there goes on."""
        self.engine.run("ip", "link", "set", "eth0", "down")

    def heal(self) -> None:
        """Join it to the network again."""
        self.engine.run("sh", "-ec", f"ip link set eth0 up; ip route replace default via {self.engine.gateway}")

    def reboot(self) -> None:
        """Every process of the machine dies; it comes back with a new boot id, and its daemon starts."""
        self.kill()
        self.engine.reboot()
        self.start()

    def lose_storage(self, console: ConsoleProcess) -> None:
        """Cover the share in this machine alone, as a mount that is gone would."""
        self.engine.run("mount", "-t", "tmpfs", "none", str(console.storage))

    def find_storage(self, console: ConsoleProcess) -> None:
        """Mount it again."""
        self.engine.uncover(console.storage)

    @contextlib.contextmanager
    def full(self, folder: str) -> Iterator[None]:
        """No room at all in a folder of the engine's data root."""
        with self.engine.full(folder):
            yield

    def containers(self) -> list[dict[str, Any]]:
        """Every container that the engine lists, each in the state that it has: the listed one may be an old one."""
        return [told for listed in self.engine.engine.list_containers() if (told := self._ask_state(listed))]

    def remove_containers(self) -> None:
        """End and remove every container, whoever's it is."""
        for listed in self.containers():
            self.engine.engine.remove(listed["Id"], force=True)

    @property
    def daemon_pid(self) -> int:
        """The daemon's process as this host numbers it."""
        (pid,) = self._find_daemon()
        return pid

    def _environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FORGE_", "SF_"))}
        return {
            **kept,
            "FORGE_NODE_STATE_DIR": str(self.state_dir),
            "FORGE_DOCKER_SOCKET": self.engine.socket_path,
            "FORGE_GPU_RUNTIME": "none",
            "FORGE_LOCAL_GPU_COUNT": "8",
            "FORGE_LOCAL_GPU_NAME": "NVIDIA H200",
            **self.settings,
            **extra,
        }

    def _ask_state(self, listed: dict[str, Any]) -> dict[str, Any] | None:
        if listed["State"] == State.EXITED:
            return listed
        try:
            state = self.engine.engine.inspect(listed["Id"])["State"]
        except EngineError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None  # it was removed after it was listed
            raise
        return {**listed, "State": state["Status"]}

    def _signal(self, number: signal.Signals) -> None:
        """To the daemon itself, inside of what carries it there."""
        for pid in self._find_daemon():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _find_daemon(self) -> list[int]:
        if self._daemon is None:
            return []
        children = Path(f"/proc/{self._daemon.pid}/task/{self._daemon.pid}/children")
        with contextlib.suppress(FileNotFoundError):
            return [int(child) for child in children.read_text().split()]
        return []

    def _end(self, number: signal.Signals) -> None:
        if self._daemon is None:
            return
        self.thaw()
        self._signal(number)
        self._daemon.wait(20)
        self._daemon = None


@dataclass(slots=True)
class Farm:
    """The console and its machines."""

    console: ConsoleProcess
    machines: list[Machine]
    token: str
    """An administrator's."""

    def find(self, name: str) -> Machine:
        return next(machine for machine in self.machines if machine.name == name)

    def node(self, name: str) -> Any:  # noqa: ANN401 - a JSON answer
        """What the console says of a node."""
        return next(node for node in self.nodes() if node["name"] == name)

    def nodes(self) -> Any:  # noqa: ANN401 - a JSON answer
        """What the console says of all nodes."""
        return self.look()["nodes"]

    def look(self) -> Any:  # noqa: ANN401 - a JSON answer
        """What the console says of the fleet."""
        return self.console.get(f"/api/v1/fleets/{FLEET}", self.token)

    def new_token(self, fleet: str = FLEET) -> str:
        """A new join token."""
        return str(json.loads(self.console.sf("fleet", "token", fleet, "--json").stdout)["token"])

    def wait_ready(self, count: int | None = None, limit_s: float = 40.0) -> None:
        """Until so many nodes take jobs; all of them unless told otherwise."""
        wanted = len(self.machines) if count is None else count
        wait_for(
            lambda: sum(node["status"] == "ready" for node in self.nodes()) >= wanted,
            f"{wanted} nodes to take jobs",
            limit_s,
        )


@contextlib.contextmanager
def farm(
    folder: Path,
    engines: Sequence[PrivateEngine],
    settings: Mapping[str, str] | None = None,
    machine_settings: Sequence[Mapping[str, str]] = (),
    port: int = PORT,
) -> Iterator[Farm]:
    """A console with one fleet that a machine for each of `engines` has joined; all serve and take jobs.

    At the end no container of its jobs is left: another console would take it for a stranger's.
    """
    own = {
        "FORGE_DEFAULT_FLEET_KIND": "node",
        "FORGE_NODE_HEARTBEAT_S": "1",
        "FORGE_NODE_LAUNCH_TIMEOUT_S": "8",
        "FORGE_NODE_REQUEST_TIMEOUT_S": "4",
        "FORGE_RECONCILE_S": "2",
        **(settings or {}),
    }
    console = ConsoleProcess(folder, "/nonexistent.sock", own)
    console.environment["FORGE_LISTEN"] = f"0.0.0.0:{console.port}"
    machines = [Machine(engine, folder / f"machine-{number}", port=port) for number, engine in enumerate(engines, 1)]
    for machine, chosen in zip(machines, machine_settings, strict=False):
        machine.settings.update(chosen)
    try:
        console.init()
        console.sf("login", "--server", console.url, typed=console.token("--scopes", "read,submit,admin"))
        console.sf("fleet", "create", FLEET, "--kind", "node")
        made = Farm(console, machines, console.token("--scopes", "read,submit,admin"))
        for machine in machines:
            host_image(machine.engine)
            machine.join(console, made.new_token())
            machine.start()
        made.wait_ready()
        yield made
    finally:
        for machine in machines:
            machine.kill()
        console.close()
        for machine in machines:
            machine.remove_containers()

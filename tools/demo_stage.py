"""What the demo trains on: this host's engine, or with `FLEET=node` a machine that joins a fleet of the console."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from e2e.support.console import ConsoleProcess, console_process, wait_for
from e2e.support.engines import find_obstacle, private_engine
from e2e.support.farm import Machine
from starforge.containers.engine import Engine
from starforge.errors import StarForgeError

PUBLIC_IMAGE: Final = "python:3.12-slim"
HOST_SOCKET: Final = "/var/run/docker.sock"
PULL_S: Final = 60.0
JOINED_S: Final = 60.0
NODE_FLEET: Final = "lab"


@dataclass(frozen=True, slots=True)
class Stage:
    """A console, the fleet that the demo trains on, and the engine whose containers are looked at in the end."""

    console: ConsoleProcess
    fleet: str
    socket_path: str


@contextlib.contextmanager
def local_stage(folder: Path) -> Iterator[Stage]:
    """The console's own host as a fleet of one machine."""
    with _engine(folder) as socket_path, console_process(folder, socket_path) as console:
        yield Stage(console, "local", socket_path)


@contextlib.contextmanager
def node_stage(folder: Path) -> Iterator[Stage]:
    """A console without an engine, and a machine that joins its fleet with a token and serves."""
    obstacle = find_obstacle()
    if obstacle is not None:
        sys.exit(f"demo: FLEET=node makes a machine of its own, and {obstacle}. Run this as root.")
    say("starting a machine with a Docker engine of its own")
    with private_engine(folder / "engine") as engine:
        console = ConsoleProcess(folder, "/nonexistent.sock", {"FORGE_DEFAULT_FLEET_KIND": "node"})
        console.environment["FORGE_LISTEN"] = f"0.0.0.0:{console.port}"
        machine = Machine(engine, folder / "machine")
        try:
            console.init()
            console.sf("login", "--server", console.url, typed=console.token("--scopes", "read,submit,admin"))
            _join(console, machine)
            yield Stage(console, NODE_FLEET, engine.socket_path)
        finally:
            machine.kill()
            console.close()


STAGES: Final = MappingProxyType[str, Callable[[Path], AbstractContextManager[Stage]]](
    {"local": local_stage, "node": node_stage}
)
"""By the value of FLEET."""


def find_image(socket_path: str, make: Callable[[str], str]) -> str:
    """The public image where a registry gives it in time, else the one that `make` makes in that engine."""
    say(f"asking for {PUBLIC_IMAGE}, for {PULL_S:.0f} s at most")
    if _pull(socket_path):
        return PUBLIC_IMAGE
    say("no registry gave it: making an image from this host's own Python")
    return make(socket_path)


def run_sf(console: ConsoleProcess, *arguments: str, cwd: Path | None = None) -> None:
    """Show the command and run it, its output going where ours goes."""
    print(f"$ sf {' '.join(arguments)}", flush=True)
    done = subprocess.run(
        ["setpriv", "--pdeathsig", "TERM", "sf", *arguments],  # it ends with the demo, however that ends
        cwd=cwd or console.projects,
        env=console.environment,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode != 0:
        print(console.read_log()[-2000:], file=sys.stderr)
        sys.exit(f"demo: FAILED: `sf {arguments[0]}` ended with {done.returncode}")


def say(text: str) -> None:
    """What the demo does now."""
    print(f"demo: {text}", flush=True)


def _join(console: ConsoleProcess, machine: Machine) -> None:
    """Make the fleet and let the machine join it, as an administrator does; wait until it takes jobs."""
    run_sf(console, "fleet", "create", NODE_FLEET, "--kind", "node")
    minted = json.loads(console.sf("fleet", "token", NODE_FLEET, "--json").stdout)
    say("on a GPU machine of yours this one line, pasted as root, installs forgelet and lets it join and serve:")
    print(minted["line"])
    print(
        "$ forgelet join && forgelet serve    # inside the demo's own machine, with this checkout's forgelet",
        flush=True,
    )
    machine.join(console, str(minted["token"]), NODE_FLEET)
    machine.start()

    def takes_jobs() -> bool:
        nodes = console.get(f"/api/v1/fleets/{NODE_FLEET}", console.token())["nodes"]
        return any(node["status"] == "ready" for node in nodes)

    wait_for(takes_jobs, f"the machine to take jobs; its forgelet says in {machine.log}", JOINED_S)
    run_sf(console, "fleet", "show", NODE_FLEET)


@contextlib.contextmanager
def _engine(folder: Path) -> Iterator[str]:
    """The socket of this host's engine, or of a private one that ends with the demo."""
    if _answers(HOST_SOCKET):
        say("using this host's Docker engine")
        yield HOST_SOCKET
        return
    obstacle = find_obstacle()
    if obstacle is not None:
        sys.exit(f"demo: no Docker engine answers on {HOST_SOCKET}, and {obstacle}. Start Docker, or run this as root.")
    say("starting a private Docker engine")
    with private_engine(folder / "engine") as machine:
        yield machine.socket_path


def _answers(socket_path: str) -> bool:
    try:
        Engine(socket_path).ping()
    except StarForgeError:
        return False
    return True


def _pull(socket_path: str) -> bool:
    command = ["docker", "-H", f"unix://{socket_path}", "pull", "-q", PUBLIC_IMAGE]
    with contextlib.suppress(subprocess.TimeoutExpired, FileNotFoundError):
        return subprocess.run(command, capture_output=True, timeout=PULL_S, check=False).returncode == 0
    return False

"""What a fleet of machines costs its console, what a daemon costs its machine, and how soon an exit is seen."""

import asyncio
import contextlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.figures import Figure, Orientation
from bench.ground import Ground
from bench.processes import read_memory_bytes
from bench.stub_node import CONSOLE_FILE, INSTALL, NODE_FILE, PORT_FILE
from e2e.support.console import wait_for
from e2e.support.farm import farm
from e2e.support.projects import make_experiment
from starforge.containers.labels import JOB
from starforge.containers.seeing import parse_time
from starforge.contract.ids import AttemptId, new_attempt_id, new_job_id
from starforge.contract.wire import NodeReport
from starforge.trust.certificates import make_identity
from starforge_console.domain.nodes import NodeState
from starforge_console.executors.node.directory import KnownNode
from starforge_console.executors.node.fleet import NodeExecutor
from starforge_console.executors.node.link import LinkSettings

_NODES: Final = 50
_JOBS_EACH: Final = 8
_PERIOD_S: Final = 15.0
_ROUNDS: Final = 10
_EXITS: Final = 10


def observe(ground: Ground) -> list[Figure]:
    """CPU of the console's side of asking fifty nodes for eight attempts each, as a share of the default period."""
    with _stub(ground.folder()) as (folder, port):
        costs = asyncio.run(_measure_rounds(folder, port))
    share = statistics.median(costs) / _PERIOD_S * 100
    detail = f"of one core, {_NODES} nodes x {_JOBS_EACH} attempts every {_PERIOD_S:g} s, n={len(costs)}"
    return [Orientation("observe", share, "%", aim="<=1", detail=detail)]


def node_daemon(ground: Ground) -> list[Figure]:
    """Memory of an idle forgelet, and the time from a container's exit to the job's end in the ledger."""
    with farm(ground.folder(), [ground.machine], {"FORGE_CONTAINER_RETENTION_S": "3600"}) as fleet:
        (machine,) = fleet.machines
        memory = read_memory_bytes(machine.daemon_pid)
        experiment = make_experiment(fleet.console, ground.image, "exit 0", "first")
        delays = []
        for _ in range(_EXITS):
            job = experiment.submit()
            ended = experiment.wait_end(job)["job"]["ended_at"]
            (listed,) = ground.machine.engine.list_containers(f"{JOB}={job}")
            delays.append(ended - _find_finish(ground, str(listed["Id"])))
            ground.machine.engine.remove(str(listed["Id"]), force=True)
    seen = Orientation("exit_seen", statistics.median(delays) * 1000, "ms", aim="<=200", detail=f"n={len(delays)}")
    return [Orientation("forgelet_idle_mb", memory / 1e6, "MB", aim="<=60"), seen]


class _Fleet:
    """A directory of machines that are all one stub, and hold eight attempts each."""

    def __init__(self, port: int, certificate: str) -> None:
        self._nodes = [
            KnownNode(
                name=f"n{number}",
                fleet="bench",
                advertise=f"127.0.0.1:{port}",
                certificate=certificate,
                standing=NodeState.ACTIVE,
                fence=0,
            )
            for number in range(_NODES)
        ]
        self.places = {new_attempt_id(new_job_id(), 1): node for node in self._nodes for _ in range(_JOBS_EACH)}

    def nodes(self, fleet: str) -> Sequence[KnownNode]:
        return self._nodes if fleet == "bench" else []

    async def locate(self, attempts: Collection[AttemptId]) -> Mapping[AttemptId, KnownNode]:
        return {attempt: self.places[attempt] for attempt in attempts}

    def note_reach(self, name: str, why: str) -> bool:
        if why:
            raise RuntimeError(f"{name} was not reached: {why}")
        return False

    def note_report(self, name: str, report: NodeReport) -> None:
        raise RuntimeError(f"{name} is no legacy node: {report}")

    def subscribe(self, fleet: str, wake: Callable[[], None]) -> Callable[[], None]:
        del fleet, wake
        return lambda: None


async def _measure_rounds(folder: Path, port: int) -> list[float]:
    """Seconds of CPU that each round takes, connections open as they are in a console that runs for long."""
    pem = (folder / NODE_FILE).read_text()
    fleet = _Fleet(port, pem[pem.index("-----BEGIN CERTIFICATE") :])
    settings = LinkSettings(install=INSTALL, key_file=folder / CONSOLE_FILE)
    executor = NodeExecutor("bench", fleet, settings, lambda _name: None)
    costs = []
    try:
        for _ in range(_ROUNDS + 1):
            before = time.process_time()
            seen = await executor.observe(fleet.places)
            costs.append(time.process_time() - before)
            if len(seen) != _NODES * _JOBS_EACH:
                raise RuntimeError(f"{len(seen)} attempts were seen")
    finally:
        await executor.close()
    return costs[1:]


@contextlib.contextmanager
def _stub(folder: Path) -> Iterator[tuple[Path, int]]:
    for name in (NODE_FILE, CONSOLE_FILE):
        (folder / name).write_text(make_identity(name).pem)
    process = subprocess.Popen([sys.executable, "-m", "bench.stub_node", str(folder)])
    try:
        wait_for((folder / PORT_FILE).exists, "the stub to listen", 30)
        yield folder, int((folder / PORT_FILE).read_text())
    finally:
        process.terminate()
        process.wait(20)


def _find_finish(ground: Ground, container: str) -> float:
    finished = parse_time(str(ground.machine.engine.inspect(container)["State"]["FinishedAt"]))
    if finished is None:
        raise RuntimeError("the job has ended and its container has not")
    return finished

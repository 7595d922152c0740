"""The sample's fleet of machines: one whose GPUs are all held, and one that drains and has GPUs nobody knows."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.support.console import ConsoleProcess, wait_for
from e2e.support.engines import private_engine
from e2e.support.farm import Machine
from e2e.support.images import host_image
from e2e.support.projects import make_experiment
from e2e.support.relay import Relay

SAMPLE_FLEET: Final = "lab-a"
DRAINED_WHY: Final = "new power supply, back on Friday"
HOLDING: Final = ("grpo-math-r3", "kto-tone-zh-r2")
"""Experiments that hold four GPUs each, so that nothing else of the sample is placed there."""
_READY_S: Final = 60.0
_UNKNOWN: Final = {"FORGE_LOCAL_GPU_COUNT": "4", "FORGE_LOCAL_GPU_NAME": "NVIDIA H20-Custom"}


@dataclass(frozen=True, slots=True)
class SampleFleet:
    """The machine whose GPUs are held, and who holds them: jobs by the names of their experiments."""

    node: str
    jobs: dict[str, str]


@contextlib.contextmanager
def sample_fleet(console: ConsoleProcess, folder: Path) -> Iterator[SampleFleet]:
    """The fleet with its machines and jobs, as long as it is wanted."""
    console.sf("login", "--server", console.url, typed=console.token("--scopes", "read,submit,admin"))
    console.sf("fleet", "create", SAMPLE_FLEET, "--kind", "node")
    with ExitStack() as stack:
        engines = [stack.enter_context(private_engine(folder / f"engine-{number}")) for number in (1, 2)]
        machines = [Machine(engine, folder / f"machine-{number}") for number, engine in enumerate(engines, 1)]
        machines[1].settings.update(_UNKNOWN)
        for machine in machines:
            # The console listens on loopback alone; each machine reaches it at its own end of the cable.
            relay = Relay(("127.0.0.1", console.port), (machine.engine.gateway, console.port))
            stack.callback(relay.close)
            token = str(json.loads(console.sf("fleet", "token", SAMPLE_FLEET, "--json").stdout)["token"])
            machine.join(console, token, SAMPLE_FLEET)
            if machine is machines[1]:
                console.sf("node", "drain", machine.name, "--why", DRAINED_WHY)
            machine.start()
            stack.callback(machine.kill)
        yield SampleFleet(machines[0].name, _hold(console, machines))


def _hold(console: ConsoleProcess, machines: Sequence[Machine]) -> dict[str, str]:
    """Jobs that hold every GPU of the first machine."""
    image, jobs, token = host_image(machines[0].engine), {}, console.token()

    def is_told() -> bool:
        nodes = console.get(f"/api/v1/fleets/{SAMPLE_FLEET}", token)["nodes"]
        return {"ready", "draining"} == {node["status"] for node in nodes} and all(node["gpus"] for node in nodes)

    wait_for(is_told, "the machines of the sample to serve", _READY_S)
    for name in HOLDING:
        experiment = make_experiment(console, image, "echo warming up; sleep 36000", name)
        jobs[name] = experiment.submit("--fleet", SAMPLE_FLEET, profile="h200:4")
        experiment.wait_state(jobs[name], "RUNNING", limit_s=120)
    return jobs

"""From a submission to the start of its container, over the engine's own create and start of the same body."""

import http.client
import itertools
import json
import subprocess
import tempfile
import time
from dataclasses import dataclass
from typing import Any, Final

from bench.figures import Figure, Ratio, Skipped, compare
from bench.ground import Ground, Unmeasurable
from bench.peers import free_port, open_peer, serve
from e2e.support.console import ConsoleProcess, wait_for
from e2e.support.farm import farm
from e2e.support.projects import Experiment, make_experiment
from starforge.containers.engine import Document, Engine
from starforge.containers.labels import JOB
from starforge.containers.seeing import parse_time
from starforge.contract.api import API_PREFIX

_API_ROUNDS: Final = 20
_CLI_ROUNDS: Final = 8
_API_AT_MOST: Final = 1.3
_CLI_AT_MOST: Final = 2.5
_RAY_ROUNDS: Final = 4
_RAY_AT_LEAST: Final = 5.0
_NODE_AT_MOST: Final = 1.4
_KEEP: Final = {"FORGE_CONTAINER_RETENTION_S": "3600"}


@dataclass(frozen=True, slots=True)
class _Lab:
    """A console whose first job has run, and the body of that job's container for the engine alone."""

    experiment: Experiment
    engine: Engine
    submission: bytes
    body: Document
    numbers: "itertools.count[int]"

    @property
    def console(self) -> ConsoleProcess:
        return self.experiment.console

    def submit(self) -> float:
        """Seconds from sending the submission to the start of its container."""
        connection = http.client.HTTPConnection("127.0.0.1", self.console.port, timeout=60)
        headers = {"Authorization": f"Bearer {self.experiment.token}", "Content-Type": "application/json"}
        connection.connect()
        began = time.time()
        connection.request("POST", f"{API_PREFIX}/jobs", self.submission, headers)
        answer = json.loads(connection.getresponse().read())
        connection.close()
        return self._find_start(answer["job"]) - began

    def submit_by_command(self) -> float:
        """The same from the start of the `sf submit` process."""
        began = time.time()
        return self._find_start(self.experiment.submit()) - began

    def start_by_engine(self) -> float:
        """Seconds from sending the create call to the start of the container."""
        name = f"bench-{next(self.numbers)}"
        began = time.time()
        container = str(self.engine.create(name, self.body)["Id"])
        self.engine.start(container)
        started = wait_for(lambda: _find_end(self.engine, container), "the container's end") - began
        self.engine.remove(container, force=True)
        return started

    def _find_start(self, job: str) -> float:
        """When the job's container started; it is gone afterwards, so that every round has the same engine."""
        self.experiment.wait_end(job)
        (listed,) = self.engine.list_containers(f"{JOB}={job}")
        started = _find_end(self.engine, str(listed["Id"]))
        if started is None:
            raise RuntimeError(f"job {job} has ended and its container runs")
        self.engine.remove(str(listed["Id"]), force=True)
        return started


def submit_to_start_local(ground: Ground) -> list[Figure]:
    """A submission by API with full admission, image present."""
    with ground.console(_KEEP) as console:
        lab = _make_lab(ground, console)
        pairs = compare(lab.submit, lab.start_by_engine, _API_ROUNDS, limit_s=60)
    return [Ratio("submit_to_start_local", pairs.ratio, _API_AT_MOST, detail=pairs.describe())]


def submit_to_start_node(ground: Ground) -> list[Figure]:
    """The same on a machine of a fleet of kind `node`."""
    with farm(ground.folder(), [ground.machine], _KEEP) as fleet:
        lab = _make_lab(ground, fleet.console)
        pairs = compare(lab.submit, lab.start_by_engine, _API_ROUNDS, limit_s=60)
    return [Ratio("submit_to_start_node", pairs.ratio, _NODE_AT_MOST, detail=pairs.describe())]


def submit_cli(ground: Ground) -> list[Figure]:
    """A submission by `sf submit`, its whole process included."""
    with ground.console(_KEEP) as console:
        lab = _make_lab(ground, console)
        pairs = compare(lab.submit_by_command, lab.start_by_engine, _CLI_ROUNDS, limit_s=30)
        figure = Ratio("submit_cli", pairs.ratio, _CLI_AT_MOST, detail=pairs.describe())
        try:
            return [figure, _compare_ray(ground, lab)]
        except Unmeasurable as error:
            return [figure, Skipped("submit_cli_over_ray", str(error))]


def _compare_ray(ground: Ground, lab: _Lab) -> Figure:
    """`ray job submit` to a head of its own, whose jobs have no container: until the job's first command runs."""
    peer, started = open_peer("ray", ground.folder()), ground.folder() / "started"
    # Sockets lie below it, whose paths are bounded.
    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        ports = {name: free_port() for name in ("port", "dashboard-port", "dashboard-agent-listen-port")}
        here = ("--node-ip-address", "127.0.0.1", "--dashboard-host", "127.0.0.1", "--temp-dir", folder)
        named = [f"--{name}={port}" for name, port in ports.items()]
        head = peer.command("start", "--head", "--block", "--num-cpus=1", "--disable-usage-stats", *here, *named)
        address = {**peer.environment, "RAY_ADDRESS": f"http://127.0.0.1:{ports['dashboard-port']}"}
        job = f"echo $EPOCHREALTIME > {started}.tmp && mv {started}.tmp {started}"

        def submit() -> float:
            started.unlink(missing_ok=True)
            began = time.time()
            command = peer.command("job", "submit", "--no-wait", "--", "bash", "-c", job)
            subprocess.run(command, env=address, check=True, capture_output=True)
            wait_for(started.exists, "the job of ray to start", 60)
            return float(started.read_text()) - began

        with serve(peer, head, ports["dashboard-agent-listen-port"]):
            pairs = compare(submit, lab.submit_by_command, _RAY_ROUNDS, limit_s=90)
    return Ratio("submit_cli_over_ray", pairs.ratio, _RAY_AT_LEAST, at_least=True, detail=pairs.describe())


def _make_lab(ground: Ground, console: ConsoleProcess) -> _Lab:
    experiment = make_experiment(console, ground.image, "exit 0", "first")
    engine = ground.machine.engine
    job = experiment.submit()
    detail = experiment.wait_end(job)
    (listed,) = engine.list_containers(f"{JOB}={job}")
    return _Lab(
        experiment=experiment,
        engine=engine,
        submission=json.dumps({"spec": detail["spec"]}).encode(),
        body=_build_body(engine.inspect(str(listed["Id"]))),
        numbers=itertools.count(1),
    )


def _build_body(inspected: Document) -> Document:
    """The create call of a container like the inspected one, under labels that no console looks at."""
    config: dict[str, Any] = dict(inspected["Config"])
    config.pop("Hostname", None)
    config["Labels"] = {name.replace("forge.", "bench."): value for name, value in config["Labels"].items()}
    return {**config, "Cmd": ["-c", ":"], "HostConfig": inspected["HostConfig"]}


def _find_end(engine: Engine, container: str) -> float | None:
    """When a container that has ended was started; None while it runs."""
    state = engine.inspect(container)["State"]
    if state["Running"]:
        return None
    return parse_time(str(state["StartedAt"]))

"""A project whose experiments train a tiny model with real frameworks, and what the tests ask of its jobs."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from e2e.support.console import ConsoleProcess, wait_for
from e2e.support.engines import PrivateEngine
from e2e.support.projects import Experiment
from starforge.contract.capsule import CHECKPOINT_MANIFEST
from starforge.contract.ids import JobId
from starforge.recipes.adapters.trl import SETTINGS_FILE
from starforge_console.assembly.layout import StorageLayout

JOB_S: Final = 300.0
"""Longest wait for a job: importing the framework alone takes half a minute on a machine that is busy."""
_ONE_CPU: Final = {"resources.cpus": 1, "resources.memory_gib": 3}
_SMALL: Final = {"learning_rate": 1e-3, "gradient_checkpointing": False, "logging_steps": 2, "warmup_steps": 0}


@dataclass(frozen=True, slots=True)
class Lab:
    """A project on a console, and the folder with the model and the data sets that its jobs may name."""

    console: ConsoleProcess
    project: Path
    material: Path
    image: str
    token: str

    def experiment(self, name: str, method: str, files: Mapping[str, str] | None = None) -> Experiment:
        """A new experiment as `sf new` makes it; `files` are put over its own."""
        self.console.sf("new", name, "--method", method, "--image", self.image, cwd=self.project)
        made = Experiment(self.console, self.project, name, self.token)
        for path, text in (files or {}).items():
            (made.folder / path).write_text(text, encoding="utf-8")
        made.commit()
        return made

    def experiment_on(self, name: str, method: str) -> Experiment:
        """A new experiment that names no model: each job says what checkpoint it starts from."""
        made = self.experiment(name, method)
        config = made.folder / "config.yaml"
        lines = config.read_text(encoding="utf-8").splitlines(keepends=True)
        config.write_text("".join(line for line in lines if not line.startswith("model:")), encoding="utf-8")
        made.commit()
        return made

    def train(self, experiment: Experiment, steps: int, *options: str, **settings: object) -> str:
        """Submit it for so many steps, with the tiny model unless told what to start from; gives the job."""
        words = _SMALL | {"max_steps": steps, "save_steps": steps} | settings
        start = [] if "--init-from" in options else ["--model", str(self.material / "model")]
        named = _name_settings({f"hyperparameters.{key}": value for key, value in words.items()})
        return self.submit(experiment, *named, *start, *options)

    def submit(self, experiment: Experiment, *options: str) -> str:
        """Submit it on one processor unless told otherwise, as it stands and once; gives the job."""
        return experiment.submit(*_name_settings(_ONE_CPU), "--retries", "0", *options)

    def data(self, name: str) -> list[str]:
        """The option that names a data set of the material."""
        return ["--train-data", str(self.material / name)]

    def curve(self, job: str, key: str) -> list[tuple[int, float]]:
        """Steps and values as the console shows them."""
        got = self.console.get(f"/api/v1/jobs/{job}/metrics/{key}?points=2000", self.token)
        return list(zip(got["steps"], got["values"], strict=True))

    def keys(self, job: str) -> set[str]:
        """The names of the job's curves."""
        return set(self.console.get(f"/api/v1/jobs/{job}/metrics", self.token)["keys"])

    def checkpoints(self, job: str) -> list[int]:
        """The steps of the job's committed checkpoints."""
        outputs = self.console.get(f"/api/v1/jobs/{job}/outputs", self.token)
        return sorted(one["step"] for one in outputs["checkpoints"] if one["committed"])

    def attempt(self, job: str, number: int) -> Path:
        """The folder of one attempt."""
        return self.console.storage / "runs" / job / "attempts" / str(number)

    def checkpoint_folder(self, job: str, number: int) -> Path:
        """Where the checkpoints of one attempt lie."""
        return StorageLayout(self.console.storage).attempt_number(JobId(job), number).checkpoints

    def events(self, job: str, kind: str, number: int = 1) -> list[Any]:
        """What the runner of one attempt has told of that kind."""
        text = (self.attempt(job, number) / "spool" / "events.jsonl").read_text(encoding="utf-8")
        return [event for event in map(json.loads, text.splitlines()) if event["kind"] == kind]

    def metrics(self, job: str, number: int = 1) -> list[Any]:
        """What the runner of one attempt has told of the curves."""
        text = (self.attempt(job, number) / "spool" / "metrics.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def settings(self, job: str) -> Any:  # noqa: ANN401 - a JSON document
        """What the framework was told in its own file."""
        return json.loads((self.attempt(job, 1) / "work" / SETTINGS_FILE).read_text(encoding="utf-8"))

    def record(self, job: str, number: int = 1) -> Any:  # noqa: ANN401 - a JSON document
        """How one attempt ended, as its runner saw it."""
        return json.loads((self.attempt(job, number) / "exit.json").read_text(encoding="utf-8"))

    def told(self, job: str) -> str:
        """What `sf job show` says of the job."""
        return self.console.sf("job", "show", job, cwd=self.project).stdout

    def wait_committed(self, job: str) -> None:
        """Wait until the first attempt has a committed checkpoint."""
        folder = self.checkpoint_folder(job, 1)
        wait_for(lambda: list(folder.glob(f"*/{CHECKPOINT_MANIFEST}")), f"a checkpoint of {job}", JOB_S)


def kill_container(machine: PrivateEngine, job: str) -> None:
    """kill -9 of everything in the job's container, as a machine that fails does it."""
    (container,) = machine.engine.list_containers(f"forge.job={job}")
    machine.engine.kill(container["Id"], "SIGKILL")


def _name_settings(settings: Mapping[str, object]) -> list[str]:
    return [word for key, value in settings.items() for word in ("--set", f"{key}={json.dumps(value)}")]

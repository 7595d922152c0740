"""Projects and jobs for end-to-end tests, made with the real `sf`."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.support.console import ConsoleProcess, wait_for

ENDED = ("SUCCEEDED", "FAILED", "STOPPED")


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment of a project that is signed in to `console`."""

    console: ConsoleProcess
    project: Path
    name: str
    token: str

    @property
    def folder(self) -> Path:
        return self.project / "experiments" / self.name

    def submit(self, *options: str, profile: str = "cpu") -> str:
        """Submit it; gives the job's id."""
        done = self.console.sf("submit", self.name, "--profile", profile, "--json", *options, cwd=self.project)
        return str(json.loads(done.stdout)["job"])

    def refused(self, *options: str) -> str:
        """Submit it, see it refused; gives what was said."""
        done = self.console.sf("submit", self.name, "--profile", "cpu", *options, cwd=self.project, may_fail=True)
        if done.returncode == 0:
            message = f"the submission was admitted: {done.stdout}"
            raise AssertionError(message)
        return done.stderr

    def commit(self) -> None:
        """Commit whatever changed."""
        git(self.project, "add", "-A")
        git(self.project, "commit", "-q", "--allow-empty", "-m", "Change the experiment")

    def detail(self, job: str) -> Any:  # noqa: ANN401 - a JSON answer
        return self.console.get(f"/api/v1/jobs/{job}", self.token)

    def state(self, job: str) -> str:
        return str(self.detail(job)["job"]["state"])

    def reasons(self, job: str) -> list[str]:
        """Why the job's state changed, oldest first."""
        return [event["reason"] for event in self.detail(job)["events"] if event["kind"] == "state"]

    def wait_state(self, job: str, *states: str, limit_s: float = 60.0) -> str:
        def look() -> str | None:
            state = self.state(job)
            return state if state in states else None

        return wait_for(look, f"job {job} to be {' or '.join(states)}", limit_s)

    def wait_end(self, job: str, limit_s: float = 60.0) -> Any:  # noqa: ANN401 - a JSON answer
        """The job's detail once it has ended for good and its spool was read to the end."""

        def look() -> Any:  # noqa: ANN401 - a JSON answer
            detail = self.detail(job)
            over = detail["job"]["state"] in ENDED and detail["job"]["retry_at"] is None
            read = detail["log"]["produced_bytes"] is not None or not detail["attempts"]
            return detail if over and read else None

        try:
            return wait_for(look, f"job {job} to end", limit_s)
        except TimeoutError as error:
            told = json.dumps(self.detail(job), indent=1)
            message = f"{error}; it is now:\n{told}\nthe console says:\n{self.console.read_log()[-3000:]}"
            raise TimeoutError(message) from None

    def log(self, job: str, *options: str) -> str:
        return self.console.sf("job", "logs", job, *options, cwd=self.project).stdout


def make_experiment(console: ConsoleProcess, image: str, script: str, name: str = "probe") -> Experiment:
    """A project with one experiment whose train.sh is `script` (bash)."""
    project = console.projects / "proj"
    if not project.exists():
        console.sf("init", "proj")
    console.sf("new", name, "--image", image, cwd=project)
    experiment = Experiment(console, project, name, console.token())
    write_script(experiment, script)
    return experiment


def write_script(experiment: Experiment, script: str) -> None:
    """Replace the experiment's train.sh and commit it."""
    file = experiment.folder / "train.sh"
    file.write_text(f"#!/usr/bin/env bash\n{script}\n")
    file.chmod(0o755)
    experiment.commit()


def git(folder: Path, *arguments: str) -> None:
    """Run git with a name of its own."""
    environment = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    who = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
    subprocess.run(["git", *who, *arguments], cwd=folder, env=environment, check=True, capture_output=True)

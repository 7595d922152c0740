"""Jobs for a fleet under test: sent past `sf`, so that many cost little, and each attempt counted by its own script."""

import copy
import hashlib
import json
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from e2e.badinput.calls import Answer, Caller
from e2e.badinput.yard import add, pack
from e2e.support.console import ConsoleProcess, wait_for
from e2e.support.farm import FLEET, Farm, Machine
from e2e.support.invariants import Picture, find_faults, take_picture
from e2e.support.projects import ENDED, Experiment

COUNT = 'echo "$FORGE_ATTEMPT" >> "$FORGE_OUT_DIR/starts"\n'
"""The first line of every script: who starts leaves a line, whatever becomes of it later."""
UNTIL_TOLD = 'while [ ! -e "$FORGE_OUT_DIR/go" ]; do sleep 0.1; done\n'
_SETTLED_S = 60.0


@dataclass(slots=True)
class Work:
    """A fleet, and every job that a test has sent to it."""

    fleet: Farm
    probe: Experiment
    spec: dict[str, Any]
    jobs: list[str] = field(default_factory=list)
    uploaded: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def console(self) -> ConsoleProcess:
        return self.fleet.console

    @property
    def api(self) -> Caller:
        return Caller(self.console.port, self.fleet.token)

    def send(self, script: str, gpus: int = 1, series: str | None = None, **changes: Any) -> Answer:  # noqa: ANN401 - spec
        """Submit `script`; `changes` are members of the spec's lifecycle, or `image`."""
        spec = copy.deepcopy(self.spec)
        inner = spec["spec"]
        inner["workspace"] = self._upload(COUNT + script)
        inner["resources"]["pools"][0] |= {"gpus_per_node": gpus, "series": series}
        inner["placement"] = {"fleet": FLEET, "priority": "normal"}
        if "image" in changes:
            inner["framework"]["image"] = changes.pop("image")
        inner["lifecycle"] = inner.get("lifecycle", {}) | changes
        return self.api.send("POST", "/api/v1/jobs", {"spec": spec, "allow_dirty": True})

    def submit(self, script: str, gpus: int = 1, series: str | None = None, **changes: Any) -> str:  # noqa: ANN401 - spec
        """Submit `script`; gives the job."""
        answer = self.send(script, gpus, series, **changes)
        assert answer.status == 201, answer
        job = str(answer.body["job"])
        self.jobs.append(job)
        return job

    def run_on(self, machine: Machine, script: str = UNTIL_TOLD, gpus: int = 1, **changes: Any) -> str:  # noqa: ANN401 - spec
        """Submit `script` while no other machine takes jobs, and wait until it runs there."""
        with self.only(machine):
            job = self.submit(script, gpus, **changes)
            self.wait_started(job)
        return job

    @contextmanager
    def only(self, machine: Machine) -> Iterator[None]:
        """All other machines are drained for as long as the block lasts."""
        others = [other.name for other in self.fleet.machines if other is not machine]
        for other in others:
            self.order(other, "drain")
        try:
            yield
        finally:
            for other in others:
                self.order(other, "undrain")

    def order(self, node: str, what: str, **words: str) -> Answer:
        """An administrator's word about a node: drain, undrain, mark-lost, remove."""
        return self.api.send("POST", f"/api/v1/nodes/{node}/{what}", words)

    def tell(self, job: str) -> None:
        """Let a job whose script waits for it end."""
        (self.out(job) / "go").touch()

    def stop(self, job: str, grace_s: float = 0) -> None:
        """Ask for its end."""
        answer = self.api.send("POST", f"/api/v1/jobs/{job}/stop", {"grace_s": grace_s})
        assert answer.status == 202, answer

    def out(self, job: str) -> Path:
        """Where its newest attempt that was prepared leaves its outputs."""
        return list_outputs(self.console.storage / "runs" / job)[-1]

    def starts(self, job: str) -> list[str]:
        """Which attempts' scripts ran, in order; one that ran twice is there twice."""
        files = [out / "starts" for out in list_outputs(self.console.storage / "runs" / job)]
        return [attempt for file in files if file.exists() for attempt in file.read_text().split()]

    def node_of(self, job: str) -> str:
        """Where its newest attempt was sent."""
        return str(self.probe.detail(job)["attempts"][-1]["node"])

    def note(self, job: str) -> str:
        """What people read beside its state."""
        return str(self.probe.detail(job)["job"]["note"])

    def wait_started(self, job: str, times: int = 1, limit_s: float = 60.0) -> None:
        """Until so many of its attempts have run their script, and the console knows of the newest."""

        def look() -> bool:
            return len(self.starts(job)) >= times and self.probe.state(job) == "RUNNING"

        self._wait(look, job, f"job {job} to start {times} times", limit_s)

    def wait_end(self, job: str, limit_s: float = 60.0) -> Any:  # noqa: ANN401 - a JSON answer
        """The job's detail once it has ended for good."""
        return self.probe.wait_end(job, limit_s)

    def wait_reason(self, job: str, reason: str, limit_s: float = 60.0) -> None:
        """Until its state has changed for that reason."""
        self._wait(lambda: reason in self.probe.reasons(job), job, f"job {job} to change for {reason}", limit_s)

    def wait_note(self, job: str, words: str, limit_s: float = 60.0) -> None:
        """Until people read `words` beside its state."""
        self._wait(lambda: words in self.note(job), job, f"job {job} to say {words!r}", limit_s)

    def wait_status(self, machine: Machine, *statuses: str, limit_s: float = 60.0) -> Any:  # noqa: ANN401 - a JSON answer
        """What the console says of the machine once it is one of `statuses`."""

        def look() -> Any:  # noqa: ANN401 - a JSON answer
            node = self.fleet.node(machine.name)
            return node if node["status"] in statuses else None

        return wait_for(look, f"{machine.name} to be {' or '.join(statuses)}", limit_s)

    def picture(self) -> Picture:
        """Everything that the invariants speak of, now."""
        return take_picture(self.fleet, self.jobs)

    def check(self, limit_s: float = _SETTLED_S) -> None:
        """Wait until every invariant holds. Raises AssertionError with those that do not."""
        found: list[str] = []

        def look() -> bool:
            found[:] = find_faults(self.picture())
            return not found

        try:
            wait_for(look, "every invariant to hold", limit_s)
        except TimeoutError:
            said = self.console.read_log()[-3000:]
            raise AssertionError("\n".join([*found, f"the console says:\n{said}"])) from None

    def mend(self) -> None:
        """Bring everything back that a test has taken away."""
        for machine in self.fleet.machines:
            if not machine.engine.answers():
                machine.engine.start()
            if not machine.serves:
                machine.start()
            machine.thaw()
            machine.heal()
        if self.console.process is None:
            self.console.start()

    def end_all(self) -> None:
        """Stop whatever has not ended, and wait for it."""
        left = [job for job in self.jobs if not self._has_ended(job)]
        for job in left:
            self.stop(job)
        for job in left:
            self._wait(partial(self._has_ended, job), job, f"job {job} to end", _SETTLED_S)

    def _has_ended(self, job: str) -> bool:
        told = self.probe.detail(job)["job"]
        return told["state"] in ENDED and told["retry_at"] is None

    def _wait(self, look: Callable[[], bool], job: str, what: str, limit_s: float) -> None:
        try:
            wait_for(look, what, limit_s)
        except TimeoutError as error:
            detail = self.probe.detail(job)
            told = json.dumps({name: detail[name] for name in ("job", "events", "attempts")}, indent=1)
            said = self.console.read_log()[-3000:]
            raise TimeoutError(f"{error}; it is now:\n{told}\nthe console says:\n{said}") from None

    def _upload(self, script: str) -> dict[str, Any]:
        if script not in self.uploaded:
            content = pack(lambda tar: _write_script(tar, script))
            digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
            answer = self.api.call("PUT", f"/api/v1/blobs/{digest}", content)
            assert answer.status == 200, answer
            self.uploaded[script] = {"digest": digest, "bytes": len(content), "files": 1}
        return self.uploaded[script]


def make_work(fleet: Farm, probe: Experiment) -> Work:
    """Work like the experiment `probe`, with the spec that `sf` would send for it."""
    options = ("--profile", "any:1", "--dry-run", "--json")
    told = fleet.console.sf("submit", probe.name, *options, cwd=probe.project, may_fail=True)
    if not told.stdout:
        raise RuntimeError(f"sf shows no spec: {told.stderr}")
    return Work(fleet, probe, json.loads(told.stdout)["spec"])


def _write_script(tar: tarfile.TarFile, script: str) -> None:
    add(tar, "experiments/probe/train.sh", f"#!/usr/bin/env bash\n{script}".encode(), mode=0o755)


def list_outputs(run: Path) -> list[Path]:
    """The folders of outputs of a job's run, oldest first: another one begins after a lost attempt."""
    later = sorted(run.glob("out-*"), key=lambda folder: int(folder.name.removeprefix("out-")))
    return [run / "out", *later]

"""A console to be treated badly: jobs made past `sf`, and the proof that nothing stays behind."""

import copy
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from e2e.badinput.calls import Answer, Caller
from e2e.support.console import ConsoleProcess, wait_for
from e2e.support.engines import PrivateEngine
from e2e.support.projects import ENDED, Experiment, make_experiment, write_script

GPU_LABEL: Final = "forge.gpu.0"
FOLDER: Final = "experiments/probe"
SCRIPT: Final = f"{FOLDER}/train.sh"
_SOUND: Final = b"echo sound\n"

Fill = Callable[[tarfile.TarFile], None]


@dataclass(frozen=True, slots=True)
class Yard:
    """A console, an experiment signed in to it, and the spec that `sf` would send for it."""

    machine: PrivateEngine
    probe: Experiment
    spec: dict[str, Any]

    @property
    def console(self) -> ConsoleProcess:
        return self.probe.console

    @property
    def api(self) -> Caller:
        return Caller(self.console.port, self.probe.token)

    def run(self, script: str, *options: str, profile: str = "any:1", limit_s: float = 60.0) -> tuple[str, Any]:
        """Submit `script` with `sf` and wait for its end; gives the job and its detail."""
        job = self.begin(script, *options, profile=profile)
        return job, self.probe.wait_end(job, limit_s)

    def begin(self, script: str, *options: str, profile: str = "any:1") -> str:
        """Submit `script` with `sf`; gives the job."""
        write_script(self.probe, script)
        return self.probe.submit(*options, profile=profile)

    @contextmanager
    def batch(self, begin: Mapping[str, Callable[[], str]], limit_s: float = 60.0) -> Iterator[Mapping[str, str]]:
        """Begin jobs side by side and let them all end, whatever comes of each; afterwards nothing may be held."""
        jobs = {what: start() for what, start in begin.items()}
        try:
            wait_for(lambda: self._have_ended(jobs.values()), "a batch of jobs to end", limit_s)
            yield jobs
            self.check_nothing_is_held()
        finally:
            self.end_all()

    def _have_ended(self, jobs: Iterable[str]) -> bool:
        states = {job["id"]: job["state"] for job in self.show_jobs()}
        return all(states[job] in ENDED for job in jobs)

    def upload(self, fill: Fill) -> dict[str, Any]:
        """Upload an archive that `fill` writes, under its digest; gives what a spec says of it."""
        content = pack(fill)
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        answer = self.api.call("PUT", f"/api/v1/blobs/{digest}", content)
        assert answer.status == 200, answer
        return {"digest": digest, "bytes": len(content), "files": count_files(content)}

    def kept_of_an_upload(self, digest: str) -> list[Path]:
        """What the console keeps of an upload of this content that broke off."""
        incoming = self.console.storage / "blobs" / "incoming"
        return [path for path in incoming.iterdir() if digest.removeprefix("sha256:") in path.name]

    def submit(self, workspace: dict[str, Any], gpus: int = 1) -> str:
        """Submit a job with this workspace, past `sf`; gives the job."""
        answer = self.send(self.spec_with(workspace, gpus))
        assert answer.status == 201, answer
        return str(answer.body["job"])

    def send(self, spec: object) -> Answer:
        """Submit any spec."""
        return self.api.send("POST", "/api/v1/jobs", {"spec": spec, "allow_dirty": True})

    def spec_with(self, workspace: dict[str, Any], gpus: int = 1) -> dict[str, Any]:
        """The spec with another workspace."""
        spec = copy.deepcopy(self.spec)
        spec["spec"]["workspace"] = workspace
        spec["spec"]["resources"]["pools"][0]["gpus_per_node"] = gpus
        return spec

    def end_all(self) -> None:
        """Stop what a test that failed left behind, so that the next one fails only for its own reasons."""
        for job in self.list_jobs():
            if self.probe.state(job) not in ENDED:
                self.api.send("POST", f"/api/v1/jobs/{job}/stop", {"grace_s": 0})
                self.probe.wait_state(job, *ENDED, limit_s=30)

    def list_jobs(self) -> list[str]:
        return [str(job["id"]) for job in self.show_jobs()]

    def show_jobs(self) -> Any:  # noqa: ANN401 - a JSON answer
        """The list of jobs, as the API gives it."""
        return self.console.get("/api/v1/jobs?limit=500", self.probe.token)["items"]

    def run_folder(self, job: str) -> Path:
        return self.console.storage / "runs" / job

    def out(self, job: str) -> Path:
        return self.run_folder(job) / "out"

    def ingest_token(self, job: str) -> str:
        """The token that the job's first attempt reports with, as root on the host reads it."""
        folder = Path(self.console.environment["FORGE_SECRETS_DIR"])
        (token,) = wait_for(lambda: list(folder.glob(f"*/*{job}*/ingest-token")), "the attempt's token")
        return token.read_text().strip()

    def check_nothing_is_held(self) -> None:
        """Every job has ended or says what it waits for, no container holds a GPU, and a job that takes all runs."""
        for job in self.show_jobs():
            assert job["state"] in ENDED or job["note"], job
        wait_for(
            lambda: not self.machine.engine.list_containers(GPU_LABEL), "every container with a GPU to be gone", 20
        )
        job = self.submit(self.upload(write_sound), gpus=2)
        detail = self.probe.wait_end(job, 30)
        assert detail["job"]["state"] == "SUCCEEDED", detail


def make_yard(machine: PrivateEngine, console: ConsoleProcess, image: str) -> Yard:
    """A project with the experiment `probe`, and its spec."""
    probe = make_experiment(console, image, "exit 0")
    # A workspace that was never uploaded is refused, and the spec is shown all the same.
    told = console.sf("submit", "probe", "--profile", "any:1", "--dry-run", "--json", cwd=probe.project, may_fail=True)
    return Yard(machine, probe, json.loads(told.stdout)["spec"])


def pack(fill: Fill) -> bytes:
    """A plain tar of what `fill` writes."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.GNU_FORMAT) as tar:
        fill(tar)
    return content.getvalue()


def count_files(content: bytes) -> int:
    """How many members an archive has that are no folders, as far as it can be read."""
    try:
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            return sum(not member.isdir() for member in tar)
    except (tarfile.TarError, ValueError, RecursionError):
        return 1


def add(tar: tarfile.TarFile, name: str, content: bytes = b"", **fields: Any) -> None:  # noqa: ANN401 - of any member
    """Add one member with whatever fields."""
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), 0o755
    for field, value in fields.items():
        setattr(member, field, value)
    tar.addfile(member, io.BytesIO(content))


def write_sound(tar: tarfile.TarFile) -> None:
    """An archive as it should be."""
    add(tar, SCRIPT, _SOUND)

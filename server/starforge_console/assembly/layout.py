"""Where a run's files lie below the storage root: one place for every path that console, machines and jobs share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starforge.containers.storage import MARK_FILE
from starforge.contract import capsule
from starforge.contract.ids import AttemptId, Digest, JobId, job_of, number_of
from starforge_console.blobs.places import locate_blob
from starforge_console.domain.outputs import name_outputs

WORKSPACE_IN_CONTAINER: Final = "/opt/starforge/workspace.tar"


@dataclass(frozen=True, slots=True)
class AttemptLayout:
    """The folders and files of one attempt."""

    root: Path
    capsule: Path
    """The capsule as the console writes it, mounted read-only at `mount`. It lies outside of `root`, which the job may
    write: inside, a job that runs as root could change it under its own runner."""
    kept: Path
    """Holds the checkpoints' folder, and belongs to the console. They lie outside of `root` too: other attempts and
    other jobs mount them, and inside, a running job could lay a link in their place between a look and the mount."""

    @property
    def mount(self) -> Path:
        """Where the container sees the capsule."""
        return self.root / capsule.CAPSULE_MOUNT

    @property
    def control(self) -> Path:
        """The desired state, for the runner."""
        return self.root / capsule.CONTROL_FILE

    @property
    def exit_record(self) -> Path:
        """The runner's record of the end."""
        return self.root / capsule.EXIT_FILE

    @property
    def checkpoints(self) -> Path:
        """This attempt's checkpoints, mounted at `checkpoints_mount`."""
        return self.kept / capsule.CKPT_DIRECTORY

    @property
    def checkpoints_mount(self) -> Path:
        """Where this attempt's container, and whatever goes on from it, sees the checkpoints."""
        return self.root / capsule.CKPT_DIRECTORY

    def writable(self, nodes: int = 1) -> tuple[Path, ...]:
        """The folders that the attempt alone writes to, each made for its user; one is each node's own."""
        own = (capsule.node_directory(rank) for rank in range(nodes))
        names = (capsule.WORK_DIRECTORY, capsule.SPOOL_DIRECTORY, *own, "home")
        return (self.root, *(self.root / name for name in names), self.checkpoints)

    def own(self) -> tuple[Path, ...]:
        """The folders that the console alone writes to."""
        return (self.capsule, self.mount.parent, self.kept)

    def places(self) -> dict[Path, Path]:
        """Where the job looks for folders that lie elsewhere, and where they lie: mounts, or links without them."""
        return {self.mount: self.capsule, self.checkpoints_mount: self.checkpoints}


@dataclass(frozen=True, slots=True)
class StorageLayout:
    """Paths below the storage root."""

    root: Path

    @property
    def mark(self) -> Path:
        """Holds the storage's id; compared before every launch, so that an unmounted share is noticed."""
        return self.root / MARK_FILE

    def run(self, job: JobId) -> Path:
        """Everything of one job."""
        return self.root / "runs" / job

    @property
    def deleted(self) -> Path:
        """The folders of deleted jobs, until they are removed: beside the others, on the same file system."""
        return self.root / "runs" / ".deleted"

    def attempt(self, attempt: AttemptId) -> AttemptLayout:
        """The layout of one attempt."""
        return self.attempt_number(job_of(attempt), number_of(attempt))

    def attempt_number(self, job: JobId, number: int) -> AttemptLayout:
        """The layout of attempt `number` of `job`."""
        run = self.run(job)
        return AttemptLayout(
            root=run / "attempts" / str(number),
            capsule=run / "capsules" / str(number),
            kept=run / "checkpoints" / str(number),
        )

    def outputs(self, job: JobId, first: int) -> Path:
        """What the attempts of `job` from `first` on leave: see `starforge_console.domain.outputs`."""
        return self.run(job) / name_outputs(first)

    def hub_snapshot(self, kind: str, repo: str, commit: str) -> Path:
        """A model's or dataset's files at one commit. It is there once all of them are."""
        return self.root / "cache" / "hf" / f"{kind}s" / repo / commit

    def blob(self, digest: Digest) -> Path:
        """Where the blob of that digest lies."""
        return locate_blob(self.root, digest)

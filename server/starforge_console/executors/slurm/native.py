"""What Slurm says, in types of our own: the same whatever version said it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeJob:
    """A job, or one component of a heterogeneous one.

    Attributes:
        states: The state first, then what else is true of it, in capital letters.
        reason: Slurm's word for why it waits or ended; empty for none.
        exit_code: As a shell tells it: 128 and more for a signal; None where none is told.
        restarts: How often Slurm queued it again by itself.
        nodes: Where it is or was.
        gres: What it holds of generic resources, by node as in `nodes`; empty once it ended.
        het_job_id: The leader's id of a heterogeneous job, 0 for any other.
        time_limit_s: None where there is none.

    """

    job_id: int
    name: str
    user: str
    comment: str
    states: tuple[str, ...]
    workdir: str = ""
    reason: str = ""
    exit_code: int | None = None
    restarts: int = 0
    nodes: tuple[str, ...] = ()
    failed_node: str = ""
    gres: tuple[str, ...] = ()
    cpus: int = 0
    memory_mb: int = 0
    """In all, over all nodes."""
    submitted_at: float | None = None
    """Anew each time that Slurm queues it again."""
    started_at: float | None = None
    ended_at: float | None = None
    time_limit_s: float | None = None
    het_job_id: int = 0
    het_offset: int = 0

    @property
    def state(self) -> str:
        """Slurm's word for how it is."""
        return self.states[0] if self.states else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeNode:
    """A node; `gres` and `gres_used` as `starforge_console.executors.slurm.decode.gres` reads them."""

    name: str
    states: tuple[str, ...]
    partitions: tuple[str, ...]
    cpus: int
    cpus_taken: int
    memory_mb: int
    memory_taken_mb: int
    gres: str
    gres_used: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NativePartition:
    """A partition. `max_time_s` is None where jobs may go on for ever."""

    name: str
    is_up: bool
    max_time_s: float | None
    is_default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """One error of a reply: Slurm's number (0 for none) and its words."""

    number: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """What became of a submission. `job_id` is None where nothing was queued."""

    job_id: int | None
    complaints: tuple[Complaint, ...] = ()

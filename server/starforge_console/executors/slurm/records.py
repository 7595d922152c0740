"""What is remembered of attempts that Slurm forgets."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from starforge.containers.records import Fences
from starforge.contract.ids import AttemptId
from starforge.contract.launch import PoolRequest
from starforge.contract.observation import Seen
from starforge_console.executors.remembered import Launches, Sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A launch that may have reached Slurm.

    Attributes:
        user: The cluster's user that it was submitted as.
        job_id: Slurm's id, once its reply came or the job was found.
        end: What was seen of its end.
        is_removed: It was cleaned up: what Slurm still tells of it counts no more.

    """

    attempt: AttemptId
    user: str
    workdir: str
    pools: tuple[PoolRequest, ...]
    job_id: int | None = None
    end: Seen | None = None
    is_removed: bool = False


class SlurmLaunches(Launches[Launch]):
    """Every launch of one fleet that was not forgotten."""

    def __init__(self, state_dir: Path) -> None:
        super().__init__(state_dir, Launch)


class Records(NamedTuple):
    """All that is remembered of one fleet."""

    launches: SlurmLaunches
    fences: Fences
    sent: Sent

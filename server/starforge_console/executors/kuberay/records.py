"""What is remembered of attempts whose RayJobs anybody may delete."""

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
    """A launch that may have reached the cluster.

    Attributes:
        uid: The RayJob's, once it was seen.
        has_secret: Its Secret was made.
        end: What was seen of its end.
        deletes: What is left of it is to be taken away: nothing of it may run on, or begin.
        is_freed: None of its pods holds anything any more.
        is_removed: It was cleaned up: what the cluster still tells of it counts no more.

    """

    attempt: AttemptId
    workdir: str
    pools: tuple[PoolRequest, ...]
    uid: str = ""
    has_secret: bool = False
    end: Seen | None = None
    deletes: bool = False
    is_freed: bool = False
    is_removed: bool = False


class KubeLaunches(Launches[Launch]):
    """Every launch of one fleet that was not forgotten."""

    def __init__(self, state_dir: Path) -> None:
        super().__init__(state_dir, Launch)


class Records(NamedTuple):
    """All that is remembered of one fleet."""

    launches: KubeLaunches
    fences: Fences
    sent: Sent

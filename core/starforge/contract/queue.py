"""The messages about the queue and what it waits for (`/api/v1/queue`, `/api/v1/capacity`)."""

from typing import Final, Literal

from pydantic import Field

from starforge.contract.api import Answer, JobView, WaitView
from starforge.contract.jobspec import Frozen
from starforge.contract.sentence import Sentence
from starforge.contract.windows import WindowView

QueueMove = Literal["first", "last", "release"]
"""Before all other jobs, behind them, or where the job belongs by itself."""
QUEUE_MOVES: Final[tuple[QueueMove, ...]] = ("first", "last", "release")


class SeriesCapacity(Answer):
    """The GPUs of one series on the machines of all fleets, and how many queued jobs ask for.

    `gpus` counts by state, as `FleetSummary` does; it is empty for a series that no machine has.
    """

    series: str | None = Field(description="None: of GPUs that the hardware registry does not know")
    gpus: dict[str, int] = Field(default_factory=dict)
    waiting: int = Field(default=0, description="GPUs of this series that queued jobs ask for")


class CapacityList(Answer):
    """`GET /capacity`: by series, those that nobody knows last."""

    items: tuple[SeriesCapacity, ...]
    waiting_for_any: int = Field(default=0, description="GPUs of whatever series that queued jobs ask for")


class QueueEntry(Answer):
    """One queued job. `place` is where it stands in the whole queue, the first one at 1."""

    place: int
    priority: int
    moved: Literal["first", "last"] | None = Field(default=None, description="to which end an administrator moved it")
    job: JobView


class ShareView(Answer):
    """What a user with queued jobs has used of late, by which those of one priority are in order.

    GPU time counts half after seven days, and half of that after seven more. A user without a team is one.
    """

    user: str
    team: str | None
    jobs: int = Field(description="queued jobs of the user")
    gpu_hours: float = Field(description="of the user, as they counted at the last look, a minute ago at most")
    team_gpu_hours: float = Field(description="of the user's team together; the team with less comes first")


class PromiseView(Answer):
    """A queued job that others may pass only so far: while it starts by the time that it is promised, or so many times.

    Without `by` nothing bounds its start: `passed` counts, and at last `node` is kept for it.
    """

    place: int
    job: JobView
    by: float | None = Field(default=None, description="by when it starts at the latest (Unix seconds)")
    node: str | None = Field(default=None, description="the machine that it is promised, or that is kept")
    passed: int = Field(description="how many jobs started before it although it stood before them")
    passed_at_most: int = Field(description="so many times, then a machine is kept for it; promised starts count none")


class NodeWhy(Answer):
    """The first rule that keeps the job from a machine; without one, from all machines of the fleet."""

    fleet: str
    node: str = ""
    why: Sentence
    code: str | None = Field(default=None, description="of the sentence; null where it has none")


class StartsWith(Answer):
    """With this change of its request the job, submitted again, would start at once on that machine.

    `change` is what to ask for otherwise: so many `gpus` on each machine, GPUs of this `series`, or this `fleet`.
    """

    change: Literal["gpus", "series", "fleet"]
    value: str
    fleet: str
    node: str


class JobWhy(Answer):
    """`GET /jobs/{id}/why`. Of a job that is not queued it says `state` alone; without `waits` it starts at once."""

    job: str
    state: str
    place: int | None = Field(default=None, description="where it stands in the whole queue, the first one at 1")
    waits: tuple[WaitView, ...] = ()
    nodes: tuple[NodeWhy, ...] = ()
    starts_with: tuple[StartsWith, ...] = ()


class MoveInQueue(Frozen):
    """`PUT /admin/queue/{job}`: lasts until the job starts."""

    to: QueueMove


class QueueList(Answer):
    """`GET /queue?series=&after=&limit=`: queued jobs in the order in which they are placed.

    `jobs` and `gpus` are all that are queued, of the series that was asked for; `next` continues the list as `after`.
    """

    items: tuple[QueueEntry, ...]
    jobs: int
    gpus: int
    next: int | None = None
    own: tuple[QueueEntry, ...] = Field(default=(), description="the caller's first queued jobs, wherever they stand")
    own_jobs: int = Field(default=0, description="how many jobs of the caller are queued")
    shares: tuple[ShareView, ...] = Field(default=(), description="users with queued jobs, who comes first at first")
    promises: tuple[PromiseView, ...] = Field(default=(), description="jobs that others may pass only so far")
    closed: tuple[WindowView, ...] = Field(default=(), description="windows that bind the caller and are closed now")

"""The messages about quotas (`/api/v1/quotas`): what binds the caller's jobs, and which runs count against it."""

from typing import Final, Literal

from pydantic import Field

from starforge.contract.api import Answer

RUNS_NAMED: Final = 200
"""So many runs of one quota are named; the rest is one sum."""


class Held(Answer):
    """What jobs have together from when they leave the queue until they have ended; a paused one has no GPUs."""

    gpus: int
    jobs: int


class QuotaRun(Answer):
    """What one job adds to a quota: a place and GPUs held now, GPU time of the last 24 hours, and what it stores."""

    job: str
    user: str
    gpus: int = Field(description="GPUs held now; 0 once it has ended, and while it is paused")
    jobs: int = Field(description="1 while it holds a place or is paused, else 0")
    gpu_seconds: int = Field(description="GPU time in the 24 hours before the answer; a deleted job's too")
    stored_bytes: int = Field(
        default=0, description="what it holds on the storage: artifacts, checkpoints and logs of attempts that ended"
    )
    unanswered: bool = Field(
        default=False,
        description="whether its machine does not answer: it counts all the same, and if it turns out to have ended"
        " earlier, the hours since then are given back",
    )


class OtherRuns(Answer):
    """What the runs that are not named add together."""

    runs: int
    gpus: int
    jobs: int
    gpu_seconds: int
    stored_bytes: int = 0


class QuotaView(Answer):
    """The limits of one holder, and what counts against them; null is no limit.

    Each number of `held`, `gpu_seconds` and `stored_bytes` are the sums of what `runs` and `other_runs` say.
    """

    kind: Literal["user", "team"]
    name: str
    gpus: int | None = Field(description="GPUs at once")
    jobs: int | None = Field(description="jobs at once")
    series: tuple[str, ...] | None = Field(description="which series and families of GPUs may be asked for")
    gpu_hours: int | None = Field(default=None, description="GPU-hours in any 24 hours")
    storage_gib: int | None = Field(default=None, description="GiB on the storage, of all jobs together")
    profiles: tuple[str, ...] | None = Field(default=None, description="which profiles may be asked for")
    held: Held
    gpu_seconds: int = Field(default=0, description="GPU time in the 24 hours before the answer")
    stored_bytes: int = Field(default=0, description="bytes on the storage")
    runs: tuple[QuotaRun, ...] = Field(default=(), description=f"what counts, at most {RUNS_NAMED}, the largest first")
    other_runs: OtherRuns | None = Field(default=None, description="what is not named; null where all are")


class QuotaList(Answer):
    """`GET /quotas`: the caller's own, then that of the caller's team, each also where it limits nothing."""

    items: tuple[QuotaView, ...]

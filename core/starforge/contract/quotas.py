"""The messages about quotas (`/api/v1/quotas`): what binds the caller's jobs, and what is held under it now."""

from typing import Literal

from pydantic import Field

from starforge.contract.api import Answer


class Held(Answer):
    """What jobs that hold a place have together: from when they leave the queue until their attempt has ended."""

    gpus: int
    jobs: int


class QuotaView(Answer):
    """The limits of one holder; null is no limit."""

    kind: Literal["user", "team"]
    name: str
    gpus: int | None = Field(description="GPUs at once")
    jobs: int | None = Field(description="jobs at once")
    series: tuple[str, ...] | None = Field(description="which series and families of GPUs may be asked for")
    held: Held


class QuotaList(Answer):
    """`GET /quotas`: the caller's own, then that of the caller's team, each also where it limits nothing."""

    items: tuple[QuotaView, ...]

"""The messages of retention (`/api/v1/admin/gc`): what would go, what went, and the hold that a backup takes."""

from typing import Annotated, Final, Literal

from pydantic import Field

from starforge.contract.api import Answer
from starforge.contract.jobspec import Frozen, Text

SHOWN_AT_MOST: Final = 500
"""So many things that may go are named in one answer."""
LONGEST_HOLD_H: Final = 168.0


class RemovalView(Answer):
    """One thing that may go, or went. `name` tells which of its kind: a checkpoint's path, a digest, a file's name."""

    kind: Literal["container", "work", "log", "checkpoint", "blob", "upload", "model"]
    job: str | None = None
    attempt: int | None = None
    name: str = ""
    bytes: int | None = None
    why: str


class FailedRemoval(Answer):
    """What could not be removed, and why."""

    removal: RemovalView
    error: str


class HoldView(Answer):
    """While it stands nothing is removed. `until` is in Unix seconds; with `id` it can be ended before."""

    id: str = ""
    until: float
    by: str
    why: str


class LastCollection(Answer):
    """The last pass that removed something or failed to; `by` is who asked for it, empty for the console itself."""

    at: float
    by: str
    removed: int
    bytes: int
    failed: int
    expired: dict[str, int] = Field(default_factory=dict)


class Collection(Answer):
    """`GET /admin/gc`: what would go now. `POST /admin/gc`: what went in one bounded pass; ask again while `more`."""

    applied: bool
    items: tuple[RemovalView, ...]
    total_bytes: int = Field(description="of the items, as far as it is known")
    more: bool = Field(description="there may be more than what is named here")
    failed: tuple[FailedRemoval, ...] = ()
    expired: dict[str, int] = Field(default_factory=dict, description="rows of the ledger that nobody can use any more")
    hold: HoldView | None = Field(None, description="the one that lasts longest")
    holds: tuple[HoldView, ...] = ()
    last: LastCollection | None = None


class HoldRequest(Frozen):
    """`PUT /admin/gc/hold`: remove nothing for so long. The hold stands beside all others."""

    hours: Annotated[float, Field(gt=0, le=LONGEST_HOLD_H)]
    why: Text | None = None

"""The messages about windows (`/api/v1/windows`, `/api/v1/admin/windows`): when fleets, teams and profiles may run."""

from typing import Annotated, Final, Literal

from pydantic import Field

from starforge.contract.api import Answer
from starforge.contract.jobspec import Frozen
from starforge.contract.sentence import Sentence

WindowKind = Literal["fleet", "team", "profile"]
EDGES_SHOWN: Final = 10
MOST_EDGES: Final = 100

_Text = Annotated[str, Field(min_length=1, max_length=100)]


class SetWindow(Frozen):
    """`PUT /admin/windows/{kind}/{name}`, in place of the window before."""

    zone: _Text = Field(description="a time zone of the IANA database, for instance Europe/Berlin")
    open: tuple[_Text, ...] = Field(
        min_length=1, max_length=50, description="spans of a week, for instance `mon-fri 20:00-08:00`"
    )
    without: tuple[_Text, ...] = Field(
        default=(), max_length=400, description="dates on which no span starts, for instance `2026-12-24`"
    )
    goes_on: bool = Field(default=True, description="whether jobs that it stopped go on when it opens again")


class WindowView(Answer):
    """One window, and how it is at the moment of the answer."""

    kind: WindowKind
    name: str
    zone: str
    open: tuple[str, ...]
    without: tuple[str, ...]
    goes_on: bool
    is_open: bool
    changes_at: float | None = Field(
        description="when it closes or opens next (Unix seconds); null where that does not come within 400 days"
    )
    set_by: str
    set_at: float
    lost: Sentence = Field(
        default="", description="why nobody can say when it is open, and it counts as closed; empty where that is known"
    )


class WindowList(Answer):
    """`GET /admin/windows`: all, fleets first, by name."""

    items: tuple[WindowView, ...]


class EdgeView(Answer):
    """One opening or closing to come. `local` is what the clocks of the window's zone show then."""

    at: float
    edge: Literal["opens", "closes"]
    kind: WindowKind
    name: str
    zone: str
    local: str


class OpeningHours(Answer):
    """`GET /windows?edges=`: the windows that may bind jobs of the caller, and their next edges in order."""

    windows: tuple[WindowView, ...]
    edges: tuple[EdgeView, ...]

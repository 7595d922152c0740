"""A job's history as its page shows it: entries in a row that differ in their figures alone are folded. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from starforge_console.ledger.views import EventRecord

FOLDED_FROM: Final = 3
"""So many like entries in a row are folded; fewer are read as fast as what would stand for them."""
_FIGURES: Final = re.compile(r"\d+")
_CHECKPOINT: Final = re.compile(r"checkpoint of step (-?\d+) committed: ")


@dataclass(frozen=True, slots=True)
class Stretch:
    """Entries that follow one another, newest first: one, or several like ones.

    `last_step` is the step of the newest where all are of committed checkpoints.
    """

    events: tuple[EventRecord, ...]
    last_step: int | None = None

    @property
    def is_folded(self) -> bool:
        """Whether one line stands for all of them."""
        return len(self.events) >= FOLDED_FROM

    @property
    def oldest(self) -> int:
        """The number of its oldest event, which stays while more like ones follow."""
        return self.events[-1].number


def fold_events(events: Sequence[EventRecord]) -> list[Stretch]:
    """All of `events`, which are oldest first, as stretches, newest first."""
    runs = (tuple(run) for _, run in groupby(reversed(events), _shape_of))
    return [stretch for run in runs for stretch in _build_stretches(run)]


def _shape_of(event: EventRecord) -> tuple[object, ...]:
    """What like entries share; a change of state is like no other event."""
    if event.kind == "state":
        return (event.number,)
    return (event.attempt, _FIGURES.sub("", event.note))


def _build_stretches(run: tuple[EventRecord, ...]) -> Iterable[Stretch]:
    if len(run) < FOLDED_FROM:
        return [Stretch((event,)) for event in run]
    found = _CHECKPOINT.match(run[0].note)
    return [Stretch(run, None if found is None else int(found[1]))]

"""Whether each edge of a window works once for each attempt, in time, and not for an attempt that began behind it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, select

from simulation.install import Install
from simulation.rules import Asks
from starforge.contract.ids import JobId
from starforge.contract.states import DesiredState, Reason
from starforge.said.sentence import code_of, read_said
from starforge_console.ledger.holding import HOLDING
from starforge_console.ledger.tables import attempts, events, jobs, users

CLOSES: Final = "note.window_closes"
_OF_ATTEMPT: Final[tuple[ColumnElement[Any], ...]] = (
    *(jobs.c.gpus, users.c.name.label("user"), attempts.c.id.label("attempt_id"), attempts.c.dequeued_at),
    attempts.c.number.label("attempt"),
)
_OF_EVENT: Final[tuple[ColumnElement[Any], ...]] = (
    *(events.c.number.label("number"), events.c.job_id, events.c.at, events.c.kind, events.c.reason),
    *(events.c.note, events.c.note_said),
)


@dataclass(slots=True)
class Edges:
    """Watches the timelines of one install."""

    install: Install
    closed: set[tuple[JobId, int]] = field(default_factory=set)
    opened: set[tuple[JobId, int]] = field(default_factory=set)
    _seen: int = 0

    def find_fouls(self) -> list[str]:
        """What was wrong with the edges that worked since the last look."""
        if not self.install.rules.hours and not self.closed:
            return []
        return [foul for event in self._list_new() for foul in self._judge(event)]

    def find_missed(self) -> list[str]:
        """Jobs that run on though their window is closed; to be asked after a pass of the queue alone."""
        if not self.install.rules.hours:
            return []
        rows = self.install.read(
            lambda connection: connection.execute(
                select(jobs.c.id.label("job"), *_OF_ATTEMPT)
                .join(attempts, attempts.c.id == jobs.c.attempt_id)
                .join(users, users.c.id == jobs.c.user_id)
                .where(jobs.c.state.in_(HOLDING), jobs.c.desired == DesiredState.RUN.value)
            ).all()
        )
        now = self.install.clock.now()
        return [
            f"{row.job} runs on though its window is closed"
            for row in rows
            if self._is_closing(Asks(row.user, row.gpus), now, row)
        ]

    def _list_new(self) -> Sequence[Row[Any]]:
        found = self.install.read(
            lambda connection: connection.execute(
                select(*_OF_EVENT, *_OF_ATTEMPT)
                .join(jobs, jobs.c.id == events.c.job_id)
                .join(users, users.c.id == jobs.c.user_id)
                .join(attempts, (attempts.c.job_id == jobs.c.id) & (attempts.c.number == events.c.attempt))
                .where(events.c.number > self._seen)
                .order_by(events.c.number)
            ).all()
        )
        self._seen = max((row.number for row in found), default=self._seen)
        return found

    def _judge(self, event: Row[Any]) -> list[str]:
        attempt, asks = (JobId(event.job_id), int(event.attempt)), Asks(event.user, event.gpus)
        name = f"attempt {event.attempt} of {event.job_id}"
        fouls = []
        if event.kind == "timeline" and _is_closing_note(event.note, event.note_said):
            if attempt in self.closed:
                fouls.append(f"{name} was told twice that its window closes")
            if not self._is_closing(asks, event.at, event):
                fouls.append(f"{name} was ended by a window's edge that it had behind it")
            self.closed.add(attempt)
        elif event.reason == Reason.WINDOW_OPENED.value:
            if attempt in self.opened or attempt not in self.closed:
                fouls.append(f"{name} went on more often than a window ended it")
            if self.install.rules.is_closed(asks, event.at):
                fouls.append(f"{name} went on while its window is closed")
            self.opened.add(attempt)
        return fouls

    def _is_closing(self, asks: Asks, at: float, attempt: Row[Any]) -> bool:
        """Whether the attempt has to end at that moment, for an edge that came after its beginning."""
        begun, since = self.install.judge.begun[attempt.attempt_id], attempt.dequeued_at
        at = max(at, since)
        closed = self.install.rules.list_closed(asks)
        # A window made at the very moment of the start came after it: a start while it is closed is a foul by itself.
        return any(one.holds(at) and (one.made_at >= begun or not one.holds(since)) for one in closed)


def _is_closing_note(note: str, said: str | None) -> bool:
    return code_of(read_said(note, said)) == CLOSES

"""What a cluster's executor must remember of attempts that the cluster forgets; durable, a file an attempt."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

from starforge.containers.records import list_attempts, make_private, write_durably
from starforge.contract.ids import AttemptId
from starforge.contract.wire import decode, encode
from starforge.errors import LaunchRefused, NodeFault, SpecError
from starforge.said.sentence import say

SENT_KEPT_S: Final = 30 * 86_400.0
"""How long what was sent is kept for people to look at."""


class _OfAttempt(Protocol):
    @property
    def attempt(self) -> AttemptId: ...


Launch = TypeVar("Launch", bound=_OfAttempt)
"""A frozen dataclass of a launch that may have reached the cluster."""


class Launches(Generic[Launch]):
    """Every launch of one fleet that was not forgotten."""

    def __init__(self, state_dir: Path, kind: type[Launch]) -> None:
        """Raises NodeFault when something of it cannot be read."""
        self._folder = make_private(state_dir / "launches")
        self._kind = kind
        self._known: dict[AttemptId, Launch] = {attempt: self._load(attempt) for attempt in list_attempts(self._folder)}

    def write(self, launch: Launch) -> None:
        """Remember it; it holds once this returns, also after a power cut. Raises NodeFault."""
        write_durably(self._folder / launch.attempt, encode(launch))
        self._known[launch.attempt] = launch

    def change(self, launch: Launch, **changes: Any) -> Launch:  # noqa: ANN401 - fields of a Launch
        """Remember what became of it, if that is news. Raises NodeFault."""
        changed: Launch = replace(launch, **changes)  # type: ignore[type-var]
        if changed != launch:
            self.write(changed)
        return changed

    def find(self, attempt: AttemptId) -> Launch | None:
        """What is remembered of it."""
        return self._known.get(attempt)

    def all(self) -> Mapping[AttemptId, Launch]:
        """Everything that is remembered."""
        return dict(self._known)

    def forget(self, attempt: AttemptId) -> None:
        """Remember it no more."""
        self._known.pop(attempt, None)
        (self._folder / attempt).unlink(missing_ok=True)

    def _load(self, attempt: AttemptId) -> Launch:
        path = self._folder / attempt
        try:
            return decode(path.read_bytes(), self._kind)
        except SpecError as error:
            raise NodeFault(
                say("attempt.record_unreadable", attempt=attempt),
                why=f"{path}: {error}",
                next_step=say("attempt.record_unreadable_next"),
            ) from error


def explain_fenced(attempt: AttemptId) -> LaunchRefused:
    """What to raise for an attempt that a fence has closed."""
    return LaunchRefused(say("attempt.fenced", attempt=attempt), why=say("attempt.fenced_why"))


class Sent:
    """What was sent for each attempt, to the letter, for people."""

    def __init__(self, state_dir: Path) -> None:
        self._folder = make_private(state_dir / "sent")

    def write(self, attempt: AttemptId, text: str) -> None:
        """Keep it, in place of an earlier one. Raises NodeFault."""
        write_durably(self._folder / attempt, text.encode())

    def find(self, attempt: AttemptId) -> str | None:
        """What was sent for it."""
        try:
            return (self._folder / attempt).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def drop_old(self, now: float) -> None:
        """Let go what was sent longer ago than it is kept."""
        for attempt in list_attempts(self._folder):
            path = self._folder / attempt
            if path.stat().st_mtime < now - SENT_KEPT_S:
                path.unlink(missing_ok=True)

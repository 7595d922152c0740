"""When ingest last heard of each attempt: what says whether its live view comes from ingest or from its spool."""

from typing import Final

from starforge.contract.ids import AttemptId
from starforge_console.clock import Clock

SILENT_S: Final = 15.0


class Presence:
    """Kept in memory: after a restart everything counts as heard of at the first question."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heard: dict[AttemptId, float] = {}

    def note(self, attempt: AttemptId) -> None:
        """Ingest hears of `attempt` now."""
        self._heard[attempt] = self._clock.monotonic()

    def silent_for_s(self, attempt: AttemptId) -> float:
        """How long nothing was heard of `attempt`, counted from the first question at the latest."""
        now = self._clock.monotonic()
        return now - self._heard.setdefault(attempt, now)

    def is_silent(self, attempt: AttemptId) -> bool:
        """Whether so little was heard of `attempt`, which runs, that it is read from its spool."""
        return self.silent_for_s(attempt) >= SILENT_S

    def keep_only(self, attempts: set[AttemptId]) -> None:
        """Forget all others."""
        for attempt in self._heard.keys() - attempts:
            del self._heard[attempt]

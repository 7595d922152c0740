"""Ask containers to end: TERM now, KILL at a deadline that the engine keeps, whatever becomes of this process."""

import time
from threading import Lock, Thread
from typing import Final

from starforge.containers.engine import Engine, EngineError
from starforge.contract.ids import AttemptId
from starforge.errors import BackendUnreachable

_SLACK_S: Final = 2.0
"""A repeat comes with what remains of the same deadline, give or take the way here: it is no shorter stop."""


class Stops:
    """Stops under way at one engine.

    The engine's stop call blocks until the end, so a thread waits there. A second, shorter stop would cut the first:
    a repeat with the same deadline is not sent. After a restart of this process it is sent again, which is harmless.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = Lock()
        self._deadlines: dict[AttemptId, float] = {}

    def begin(self, attempt: AttemptId, container: str, kill_after_s: float) -> None:
        """TERM `container` now and KILL it `kill_after_s` from now; returns at once."""
        deadline = time.monotonic() + max(0.0, kill_after_s)
        with self._lock:
            running = self._deadlines.get(attempt)
            if running is not None and deadline >= running - _SLACK_S:
                return
            self._deadlines[attempt] = deadline
        Thread(target=self._wait, args=(attempt, container, deadline), name=f"stop {attempt}", daemon=True).start()

    def _wait(self, attempt: AttemptId, container: str, deadline: float) -> None:
        try:
            self._engine.stop(container, max(0.0, deadline - time.monotonic()))
        except (EngineError, BackendUnreachable):
            # The container is gone, or the engine went away: the caller repeats its stop until it sees the end.
            return
        finally:
            with self._lock:
                if self._deadlines.get(attempt) == deadline:
                    del self._deadlines[attempt]

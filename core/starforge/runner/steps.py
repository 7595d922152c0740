"""Steps that may fail or hang without changing how the job ended: each in a frame of its own, bounded in time."""

from __future__ import annotations

import threading
from typing import Callable, List, Set, TypeVar

from starforge.runner.spool import Spool

T = TypeVar("T")


class Steps:
    """Runs steps and notes what went wrong, each trouble once. Safe from several threads."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._noted: Set[str] = set()

    def note(self, code: str, text: str) -> None:
        """Put a trouble into the run's timeline, unless it is there already."""
        if text in self._noted or len(self._noted) >= 100:  # noqa: PLR2004 - a job can make up troubles without end
            return
        self._noted.add(text)
        self._spool.event("note", code=code, message=text)

    def attend(self, what: str, step: Callable[[], T], otherwise: T) -> T:
        """Do one step here; give `otherwise` when it fails, whatever it raised."""
        try:
            return step()
        except Exception as error:  # noqa: BLE001 - the outermost frame of a step beside the job
            self.note("step_failed", f"{what} failed: {type(error).__name__}: {str(error)[:500]}")
            return otherwise

    def bound(self, what: str, step: Callable[[], T], otherwise: T, patience_s: float) -> T:
        """Do one step in a thread; give `otherwise` when it fails or is not over in time: it is then left alone."""
        results: List[T] = []
        thread = threading.Thread(
            target=lambda: results.append(self.attend(what, step, otherwise)), name=what, daemon=True
        )
        thread.start()
        thread.join(patience_s)
        if thread.is_alive():
            self.note("step_slow", f"{what} was not over after {patience_s:.0f} s: the storage is slow or too full")
        return results[0] if results else otherwise


class Repeater:
    """Does one step again and again in a thread of its own until `end`. The step is told whether it is the last."""

    def __init__(self, what: str, step: Callable[[bool], None], period_s: float, steps: Steps) -> None:
        self._what = what
        self._step = step
        self._period_s = period_s
        self._steps = steps
        self._is_ending = False
        self._asked = threading.Event()
        self._answered = threading.Event()
        self._thread = threading.Thread(target=self._run, name=what, daemon=True)
        self._thread.start()

    def ask(self, patience_s: float) -> None:
        """Have it done now, from its beginning; wait for that, a bounded time."""
        self._answered.clear()
        self._asked.set()
        self._answered.wait(patience_s)

    def end(self, patience_s: float) -> bool:
        """Have it done a last time; say whether that was over in time."""
        self._is_ending = True
        self._asked.set()
        self._thread.join(max(0.0, patience_s))
        return not self._thread.is_alive()

    def _run(self) -> None:
        is_last = False
        while not is_last:
            self._asked.wait(self._period_s)
            self._asked.clear()
            is_last = self._is_ending
            self._steps.attend(self._what, lambda: self._step(is_last), None)  # noqa: B023 - called at once
            if not self._asked.is_set():
                self._answered.set()

"""How long a follower waits for a console that is away, and what it says of it."""

import os
import queue
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from starforge.errors import BackendUnreachable, Unavailable

ItemT = TypeVar("ItemT")

_MINUTE_S: Final = 60.0


def is_wanted() -> bool:
    """Whether somebody may still read stdout: its reader is there, and so is whoever started this process."""
    return _has_reader() and not _is_left_behind()


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """When a silent console is spoken of again, when it is given up, and whether anybody still waits."""

    remind_s: float = 3 * _MINUTE_S
    give_up_s: float = 15 * _MINUTE_S
    is_wanted: Callable[[], bool] = is_wanted


PATIENT: Final = Patience()


class Outage:
    """Says that the console is away, says it again while it lasts, and once that it is back, whoever sees it first."""

    def __init__(self, patience: Patience, again: str, say: Callable[[str], object]) -> None:
        self._patience = patience
        self._again = again
        self._say = say
        self._lock = threading.Lock()
        self._since: float | None = None
        self._said = 0.0
        self.count = 0

    def note_away(self, error: Unavailable) -> None:
        """Take that a call found nobody.

        Raises:
            BackendUnreachable: nobody has answered for so long that following ends.

        """
        with self._lock:
            now = time.monotonic()
            if self._since is None:
                self._since = self._said = now
                self.count += 1
                self._say(f"{error.what}; trying again until it answers")
                return
            silent_s = now - self._since
            if silent_s >= self._patience.give_up_s:
                raise BackendUnreachable(
                    f"no longer following: the console has not answered for {_describe(silent_s)}",
                    why=f"last: {error}",
                    next_step=f"the job is not touched by this; when the console is back: {self._again}",
                )
            if now - self._said >= self._patience.remind_s:
                self._said = now
                left_s = self._patience.give_up_s - silent_s
                self._say(f"still no answer after {_describe(silent_s)}; giving up in {_describe(left_s)}")

    def note_back(self, count: int) -> None:
        """Take the success of a call that began after outage `count`; one that began before says nothing of now."""
        with self._lock:
            if self._since is not None and count == self.count:
                self._say("the console answers again")
                self._since = None


def take_next(items: "queue.SimpleQueue[ItemT]", patience: Patience, look_s: float) -> ItemT:
    """The next of `items`.

    Raises:
        BrokenPipeError: nobody wants it any more; looked at every `look_s` while there is none.

    """
    while True:
        try:
            return items.get(timeout=look_s)
        except queue.Empty:
            if not patience.is_wanted():
                raise BrokenPipeError from None


def _describe(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 2 * _MINUTE_S else f"{seconds / _MINUTE_S:.0f} min"


def _has_reader() -> bool:
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError, AttributeError):
        return True  # no descriptor of the system's: nothing can be known of a reader
    poll = select.poll()
    poll.register(descriptor, 0)
    return not any(happened & (select.POLLERR | select.POLLHUP | select.POLLNVAL) for _, happened in poll.poll(0))


_PARENT: Final = os.getppid()


def _is_left_behind() -> bool:
    """Whether the process that started this one has ended. One that was put into the background on purpose stays."""
    if os.getppid() == _PARENT:
        return False
    ignored = signal.getsignal(signal.SIGHUP), signal.getsignal(signal.SIGINT)
    return signal.SIG_IGN not in ignored and os.getsid(0) != os.getpid()

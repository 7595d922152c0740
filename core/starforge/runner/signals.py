"""Signals and rings as something a loop can wait for: one pipe that becomes readable."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from contextlib import contextmanager
from types import FrameType
from typing import Deque, Iterator, List, Literal, Optional

from starforge.runner.senders import is_from_job

_DRAIN_BYTES = 4096
_TERMS = (signal.SIGTERM, signal.SIGINT)
# What would end a runner by default, from anybody who may signal it.
_HARMLESS = (signal.SIGCHLD, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)

TermSender = Literal["inside", "outside"]


class Signals:
    """Notes TERM and INT and who sent them; any signal, an ended child and `ring` make `fd` readable.

    To be made in the main thread before there are others: they take over that TERM and INT are blocked, so that these
    reach the one thread that waits for them with their sender.
    """

    def __init__(self) -> None:
        self.fd, self._writer = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._writer, False)
        self._terms: Deque[TermSender] = deque()
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in _TERMS:
            signal.signal(number, self._count)
        for number in _HARMLESS:
            signal.signal(number, _only_wake)
        if hasattr(signal, "sigwaitinfo"):  # else the handler counts, and the sender is not known
            signal.pthread_sigmask(signal.SIG_BLOCK, _TERMS)
            threading.Thread(target=self._wait, name="signals", daemon=True).start()

    def ring(self) -> None:
        """Make `fd` readable; from any thread."""
        try:
            os.write(self._writer, b"\0")
        except BlockingIOError:
            return  # it is readable already

    def drain(self) -> None:
        """Empty the pipe."""
        try:
            while len(os.read(self.fd, _DRAIN_BYTES)) == _DRAIN_BYTES:
                continue
        except BlockingIOError:
            return

    def take_term(self) -> Optional[TermSender]:
        """Say who sent a TERM since the last call, if anybody did; one from outside counts before one from inside."""
        terms: List[TermSender] = []
        while self._terms:
            terms.append(self._terms.popleft())
        if not terms:
            return None
        return "outside" if "outside" in terms else "inside"

    def _wait(self) -> None:
        while True:
            found = signal.sigwaitinfo(_TERMS)
            try:
                inside = is_from_job(found.si_pid, found.si_code)
            except Exception:  # noqa: BLE001 - the outermost frame of the thread: a TERM must arrive in any case
                inside = False
            self._terms.append("inside" if inside else "outside")
            self.ring()

    def _count(self, number: int, frame: Optional[FrameType]) -> None:
        del number, frame
        self._terms.append("outside")


@contextmanager
def unblocked() -> Iterator[None]:
    """Unblock TERM and INT, for a child takes over what is blocked. One that comes meanwhile is counted as outside."""
    before = signal.pthread_sigmask(signal.SIG_UNBLOCK, _TERMS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _only_wake(number: int, frame: Optional[FrameType]) -> None:
    """The wake-up pipe has the byte already."""
    del number, frame

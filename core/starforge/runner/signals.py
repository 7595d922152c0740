"""Signals and rings as something a loop can wait for: one pipe that becomes readable."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Optional

_DRAIN_BYTES = 4096


class Signals:
    """Counts TERM and INT; any signal, an ended child and `ring` make `fd` readable. To be made in the main thread."""

    def __init__(self) -> None:
        self.fd, self._writer = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._writer, False)
        self._terms = 0
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._count)
        for number in (signal.SIGCHLD, signal.SIGHUP):
            signal.signal(number, _only_wake)

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

    def take_term(self) -> bool:
        """Say whether a TERM came since the last call."""
        came, self._terms = self._terms > 0, 0
        return came

    def _count(self, number: int, frame: Optional[FrameType]) -> None:
        del number, frame
        self._terms += 1


def _only_wake(number: int, frame: Optional[FrameType]) -> None:
    """The wake-up pipe has the byte already."""
    del number, frame

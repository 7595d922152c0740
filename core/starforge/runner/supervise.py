"""Watches the training process from its start to the end of its last descendant: output, reports, wishes, limits."""

from __future__ import annotations

import os
import selectors
import signal
import time
from dataclasses import dataclass
from typing import Optional

from starforge.contract.capsule import ExitCause
from starforge.runner.echo import Echo
from starforge.runner.masking import Masker
from starforge.runner.processes import Child
from starforge.runner.signals import Signals
from starforge.runner.sources import Source
from starforge.runner.spool import Spool
from starforge.runner.wishes import Wishes

HOLD_S = 0.1  # how long a suffix that may begin a secret is held
REPORT_PERIOD_S = 0.1
WISH_PERIOD_S = 0.5
_READ_BYTES = 256 << 10
_READS_IN_A_ROW = 16  # then the other duties have their turn
_DRAIN_S = 2.0


@dataclass(frozen=True)
class Outlet:
    """Where the training process's output goes: masked, into the spool and onto the runner's own stdout."""

    spool: Spool
    masker: Masker
    echo: Echo

    def take(self, raw: bytes) -> None:
        """Pass on what is decided; the rest is held."""
        self._give(self.masker.feed(raw))

    def flush(self) -> None:
        """Pass on what is held."""
        self._give(self.masker.flush())

    def _give(self, masked: bytes) -> None:
        if masked:
            self.spool.log(masked)
            self.echo.show(masked)


class Supervisor:
    """One training process under watch. `run` returns when nothing of it is left."""

    def __init__(self, child: Child, outlet: Outlet, report: Source, wishes: Wishes, signals: Signals) -> None:
        self._child = child
        self._outlet = outlet
        self._report = report
        self._wishes = wishes
        self._signals = signals
        self._held_since: Optional[float] = None
        self._stopping_since: Optional[float] = None
        self._next_report = self._next_wish = 0.0
        self._has_output = True

    def run(self, end_by: Optional[float]) -> Optional[ExitCause]:
        """Watch until the end; `end_by` (monotonic) limits the run. Gives "max_runtime" when that ended it."""
        cause: Optional[ExitCause] = None
        with selectors.DefaultSelector() as selector:
            selector.register(self._child.output, selectors.EVENT_READ)
            selector.register(self._signals.fd, selectors.EVENT_READ)
            while not self._is_over():
                for key, _ in selector.select(self._patience_s()):
                    if key.fd == self._child.output and not self._pump():
                        selector.unregister(self._child.output)
                self._signals.drain()
                self._do_duties()
                if end_by is not None and time.monotonic() > end_by and self._stopping_since is None:
                    cause = "max_runtime"
                    self._begin_stop("max_runtime")
        self._finish()
        return cause

    def _do_duties(self) -> None:
        now = time.monotonic()
        self._child.reap()
        if self._signals.take_term():
            self._wishes.receive_term()
        if self._held_since is not None and now - self._held_since >= HOLD_S:
            self._outlet.flush()
            self._held_since = None
        if now >= self._next_report:
            self._report.poll()
            self._next_report = now + REPORT_PERIOD_S
        if now >= self._next_wish:
            self._wishes.poll()
            self._next_wish = now + WISH_PERIOD_S
        if self._wishes.must_end and self._stopping_since is None:
            self._begin_stop(self._wishes.desired if self._wishes.desired != "run" else "term")

    def _begin_stop(self, why: str) -> None:
        self._stopping_since = time.monotonic()
        self._outlet.spool.event("stopping", why=why, grace_s=self._wishes.grace_s)
        self._child.signal_group(signal.SIGTERM)

    def _is_over(self) -> bool:
        """The process ended; while stopping, its group too, since a launcher may die before its workers have saved."""
        if self._stopping_since is None:
            return self._child.code is not None
        if time.monotonic() - self._stopping_since >= self._wishes.grace_s:
            return True
        return self._child.code is not None and not self._child.is_group_alive()

    def _patience_s(self) -> float:
        until = min(self._next_report, self._next_wish)
        if self._held_since is not None:
            until = min(until, self._held_since + HOLD_S)
        if self._stopping_since is not None:
            until = min(until, self._stopping_since + self._wishes.grace_s)
        return max(0.0, until - time.monotonic())

    def _pump(self) -> bool:
        """Take what the pipe holds; False at its end."""
        for _ in range(_READS_IN_A_ROW):
            try:
                chunk = os.read(self._child.output, _READ_BYTES)
            except BlockingIOError:
                break
            if not chunk:
                self._has_output = False
                break
            self._outlet.take(chunk)
            held = self._outlet.masker.held_bytes
            if not held:
                self._held_since = None
            elif self._held_since is None or held <= len(chunk):
                self._held_since = time.monotonic()
        return self._has_output

    def _finish(self) -> None:
        """End every descendant, then take the last of the output and of the reports."""
        left = self._child.end_descendants()
        if left:
            text = (
                f"processes {left} could not be ended: they hang in the kernel, often on storage that does not answer"
            )
            self._outlet.spool.event("note", code="unkillable", message=text)
        deadline = time.monotonic() + _DRAIN_S
        with selectors.DefaultSelector() as selector:
            selector.register(self._child.output, selectors.EVENT_READ)
            while self._has_output and time.monotonic() < deadline:
                if selector.select(deadline - time.monotonic()):
                    self._pump()
        self._outlet.flush()
        os.close(self._child.output)
        self._report.poll()

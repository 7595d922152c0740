"""Watches the training process from its start to the end of its last descendant: output, reports, wishes, limits."""

from __future__ import annotations

import math
import os
import selectors
import signal
import time
from dataclasses import dataclass, field
from typing import Callable, List, Optional

from starforge.contract.capsule import ExitCause
from starforge.runner.echo import Echo
from starforge.runner.masking import Masker
from starforge.runner.processes import Child
from starforge.runner.signals import Signals
from starforge.runner.spool import Spool
from starforge.runner.steps import Steps
from starforge.runner.throttle import Throttle
from starforge.runner.wishes import Wishes

HOLD_S = 0.1  # how long a suffix that may begin a secret is held while nothing comes: see masking
TICK_S = 0.5
_LOOK_S = 1.0
_READ_BYTES = 256 << 10
_READS_IN_A_ROW = 16  # then the other duties have their turn
_DRAIN_S = 2.0


@dataclass(frozen=True)
class Outlet:
    """Where the training process's output goes: masked, thinned out, into the spool and onto the runner's stdout."""

    spool: Spool
    masker: Masker
    echo: Echo
    throttle: Throttle = field(default_factory=Throttle)

    def take(self, raw: bytes) -> None:
        """Pass on what is decided; the rest is held."""
        self._give(self.masker.feed(raw))

    def flush(self) -> None:
        """Pass on what is held because it may begin a secret."""
        self._give(self.masker.flush())

    def rest(self) -> None:
        """Pass on what waits because there was too much, if it may pass now."""
        self._write(self.throttle.release(time.monotonic()))

    def close(self) -> None:
        """Pass on everything that is held, and say how much was left out in all."""
        self.flush()
        self._write(self.throttle.finish())
        throttle = self.throttle
        if throttle.left_out_bytes:
            text = (
                f"the job wrote more than is kept: {throttle.left_out_lines} lines "
                f"({throttle.left_out_bytes} bytes) of its log are left out, where the log says so"
            )
            self.spool.event("note", code="log_thinned", message=text)

    def _give(self, masked: bytes) -> None:
        if masked:
            self._write(self.throttle.feed(masked, time.monotonic()))

    def _write(self, output: bytes) -> None:
        if output:
            self.spool.log(output)
            self.echo.show(output)


class Supervisor:
    """One training process under watch. `run` returns when nothing of it is left.

    Here nothing is opened, listed or read that the job could have put there: whatever it does to its files, a stop and
    the limit hold. `look` brings the newest wish from elsewhere, within the seconds it is given.
    """

    def __init__(
        self, child: Child, outlet: Outlet, wishes: Wishes, signals: Signals, look: Callable[[float], None]
    ) -> None:
        self._child = child
        self._outlet = outlet
        self._wishes = wishes
        self._signals = signals
        self._look = look
        self._held_since: Optional[float] = None
        self._stopping_since: Optional[float] = None
        self._kill_at = math.inf  # moves to earlier times only
        self._has_output = True

    def run(self, end_by: Optional[float]) -> Optional[ExitCause]:
        """Watch until the end; `end_by` (monotonic) limits the run. Gives "max_runtime" when that ended it."""
        cause: Optional[ExitCause] = None
        limit_grace_s = self._wishes.grace_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._child.output, selectors.EVENT_READ)
            selector.register(self._signals.fd, selectors.EVENT_READ)
            while not self._is_over():
                ready = [key.fd for key, _ in selector.select(self._patience_s(end_by))]
                if self._child.output in ready:
                    if not self._pump():
                        selector.unregister(self._child.output)
                else:
                    self._release()
                self._signals.drain()
                self._do_duties()
                if end_by is not None and time.monotonic() > end_by:
                    cause = cause or self._begin_limit()
                    self._kill_at = min(self._kill_at, end_by + limit_grace_s)
        return cause

    def finish(self, steps: Steps) -> None:
        """End every descendant, then take the last of the output; whatever fails of it, the rest is done."""
        left: List[int] = steps.attend("ending what is left of the job", self._child.end_descendants, [])
        if left:
            text = (
                f"processes {left} could not be ended: they hang in the kernel, often on storage that does not answer"
            )
            steps.note("unkillable", text)
        steps.attend("reading the last output", self._drain, None)
        steps.attend("writing the last output", self._outlet.close, None)
        os.close(self._child.output)

    def _release(self) -> None:
        """Show what was held long enough. Only after a look found the pipe empty: the duties may take longer."""
        if self._held_since is not None and time.monotonic() - self._held_since >= HOLD_S:
            self._outlet.flush()
            self._held_since = None
        self._outlet.rest()

    def _do_duties(self) -> None:
        self._child.reap()
        sender = self._signals.take_term()
        if sender is not None:
            self._look(_LOOK_S)
            self._wishes.receive_term(from_inside=sender == "inside")
            if sender == "inside":
                text = "a process of the job sent TERM to the runner: the run is ended as the job's own doing"
                self._outlet.spool.event("note", code="term_from_inside", message=text)
        if self._wishes.must_end:
            if self._stopping_since is None:
                self._begin_stop(self._wishes.desired if self._wishes.desired != "run" else "term")
            begun = self._stopping_since or 0.0
            self._kill_at = min(self._kill_at, begun + self._wishes.grace_s, self._wishes.end_by)

    def _begin_limit(self) -> Optional[ExitCause]:
        """Begin the stop that the limit asks for; None when the job was being stopped already."""
        if self._stopping_since is not None:
            return None
        self._begin_stop("max_runtime")
        return "max_runtime"

    def _begin_stop(self, why: str) -> None:
        self._stopping_since = time.monotonic()
        self._child.signal_group(signal.SIGTERM)
        self._outlet.spool.event("stopping", why=why, grace_s=self._wishes.grace_s)

    def _is_over(self) -> bool:
        """The process ended; while stopping, its group too, since a launcher may die before its workers have saved."""
        if self._stopping_since is None:
            return self._child.code is not None
        if time.monotonic() >= self._kill_at:
            return True
        return self._child.code is not None and not self._child.is_group_alive()

    def _patience_s(self, end_by: Optional[float]) -> float:
        """Wishes, signals and ends ring; a group that dies does not."""
        now = time.monotonic()
        until = min(now + TICK_S, self._kill_at)
        if self._held_since is not None:
            until = min(until, self._held_since + HOLD_S)
        if end_by is not None and self._stopping_since is None:
            until = min(until, end_by)
        return max(0.0, until - now)

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
            self._held_since = time.monotonic() if self._outlet.masker.held_bytes else None
        return self._has_output

    def _drain(self) -> None:
        deadline = time.monotonic() + _DRAIN_S
        with selectors.DefaultSelector() as selector:
            selector.register(self._child.output, selectors.EVENT_READ)
            while self._has_output and time.monotonic() < deadline:
                if selector.select(deadline - time.monotonic()):
                    self._pump()

"""Keeps a job that writes without end from filling the storage: the flood is thinned out, and what is left out is said.

Output passes as it is while it fits an allowance that fills up again with time. What does not fit waits: the newest of
it is kept, older lines are let go, and a line in their place says how many. So the end of a flood is always there, and
the job is never held up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class Allowance:
    """How much output passes."""

    burst_bytes: int = 256 << 20  # so much at once
    rate_bytes_s: int = 8 << 20  # then so much a second
    long_bytes: int = 2 << 30  # once so much has passed
    slow_bytes_s: int = 64 << 10  # so much a second
    kept_bytes: int = 1 << 20  # of what does not fit, the newest so much
    pause_s: float = 1.0  # so long what waits is gathered, at least


class Throttle:
    """One stream of output. Times are monotonic seconds."""

    def __init__(self, allowance: Optional[Allowance] = None) -> None:
        allowance = allowance or Allowance()
        self._allowance = allowance
        self._tokens = float(allowance.burst_bytes)
        self._filled_at: Optional[float] = None
        self._held = bytearray()
        self._held_since: Optional[float] = None
        self._is_line_begun = False
        self._passed_bytes = 0
        self._new_lines = 0
        self._new_bytes = 0
        self.left_out_lines = 0
        self.left_out_bytes = 0

    def feed(self, chunk: bytes, now: float) -> bytes:
        """Take output; give what is to be written now."""
        self._fill(now)
        if self._held_since is None and len(chunk) <= self._tokens:
            return self._pass(chunk)
        if self._held_since is None:
            self._held_since = now
        self._held += chunk
        self._thin()
        return self.release(now)

    def release(self, now: float) -> bytes:
        """Give what waits, once it has waited long enough and fits."""
        if self._held_since is None or now - self._held_since < self._allowance.pause_s:
            return b""
        self._fill(now)
        return self.finish() if len(self._held) <= self._tokens else b""

    def finish(self) -> bytes:
        """Give what waits, whether it fits or not."""
        self._held_since = None
        held, self._held = bytes(self._held), bytearray()
        return self._pass(self._take_marker() + held) if held or self._new_bytes else b""

    def _pass(self, output: bytes) -> bytes:
        self._tokens -= len(output)
        self._passed_bytes += len(output)
        if output:
            self._is_line_begun = not output.endswith(b"\n")
        return output

    def _fill(self, now: float) -> None:
        limits = self._allowance
        rate_bytes_s = limits.rate_bytes_s if self._passed_bytes < limits.long_bytes else limits.slow_bytes_s
        elapsed_s = 0.0 if self._filled_at is None else max(0.0, now - self._filled_at)
        self._filled_at = now
        self._tokens = min(float(limits.burst_bytes), self._tokens + elapsed_s * rate_bytes_s)

    def _thin(self) -> None:
        """Let go of whole lines until no more waits than is kept; of one that is longer, of its beginning."""
        excess_bytes = len(self._held) - self._allowance.kept_bytes
        if excess_bytes <= 0:
            return
        end = self._held.find(b"\n", excess_bytes - 1) + 1
        cut = end if 0 < end < len(self._held) else excess_bytes
        self._new_lines += self._held.count(b"\n", 0, cut)
        self._new_bytes += cut
        del self._held[:cut]

    def _take_marker(self) -> bytes:
        """Say what was let go of, in a line of its own."""
        lines, size_bytes = self._new_lines, self._new_bytes
        self._new_lines = self._new_bytes = 0
        if not size_bytes:
            return b""
        self.left_out_lines += lines
        self.left_out_bytes += size_bytes
        text = f"[starforge: {lines} lines ({size_bytes} bytes) are left out here: the job writes more than is kept]\n"
        return (b"\n" if self._is_line_begun else b"") + text.encode("ascii")

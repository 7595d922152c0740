"""What is wished of the attempt: run, stop or pause, from control.json, from ingest's answers and from signals."""

from __future__ import annotations

import math
import os
import threading
import time
from typing import Optional

from starforge.contract.capsule import ControlFile, Desired
from starforge.runner.plainfiles import load_bytes, parse_object

_CONTROL_BYTES = 64 << 10
_MOST_GRACE_S = 86_400.0


class Wishes:
    """The newest wish. A stop or a pause is not taken back, only changed into the other. Safe from several threads."""

    def __init__(self, control_path: str, grace_s: float) -> None:
        self.desired: Desired = "run"
        self.grace_s = grace_s
        self.end_by = math.inf
        """When the training must have ended (monotonic), as far as somebody has told how long it still has."""
        self.term_received_at: Optional[float] = None
        self.term_from_inside = False
        self._control_path = control_path
        self._stamp: Optional[tuple[int, int, int]] = None
        self._lock = threading.Lock()

    @property
    def must_end(self) -> bool:
        """Whether the training process is to be ended, by whomever."""
        return self.desired != "run" or self.term_received_at is not None or self.term_from_inside

    def offer(self, desired: Desired, grace_s: Optional[float]) -> None:
        """Take a wish; `run` changes nothing, since nobody can unsay a TERM that the job has seen.

        `grace_s` counts from now: the console tells again and again what is left of it. Once the attempt is to end,
        that only becomes shorter: the job may write control.json as well.
        """
        with self._lock:
            if desired == "run":
                return
            if grace_s is not None and math.isfinite(grace_s):
                wanted = min(max(0.0, grace_s), _MOST_GRACE_S)
                if not self.must_end:
                    self.grace_s = wanted
                self.end_by = min(self.end_by, time.monotonic() + wanted)
            self.desired = desired

    def poll(self) -> None:
        """Look at control.json; one stat when nothing changed, and a missing one wishes nothing.

        A bad one is as good as missing. Its `sequence` is not compared: a job that wrote a
        high one would make the console's own count for nothing. Raises OSError or ValueError.
        """
        try:
            found = os.lstat(self._control_path)
        except FileNotFoundError:
            return
        stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
        if stamp == self._stamp:
            return
        content = load_bytes(self._control_path, _CONTROL_BYTES)  # storage that failed once is asked again
        self._stamp = stamp
        control = ControlFile.from_json(parse_object(content))
        self.offer(control.desired, control.grace_s)

    def receive_term(self, *, from_inside: bool) -> None:
        """Note a TERM, to be called after a `poll`: it is a surprise when nobody wished it.

        One from outside is then remembered with its time: the engine or the machine goes down. One that the job sent
        to its own runner is only noted as such.
        """
        if from_inside:
            self.term_from_inside = True
        elif self.desired == "run" and self.term_received_at is None:
            self.term_received_at = time.time()

"""What is wished of the attempt: run, stop or pause, from control.json, from ingest's answers and from signals."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Optional

from starforge.contract.capsule import ControlFile, Desired


class Wishes:
    """The newest wish. A stop or a pause is not taken back, only changed into the other. Safe from several threads."""

    def __init__(self, control_path: str, grace_s: float) -> None:
        self.desired: Desired = "run"
        self.grace_s = grace_s
        self.term_received_at: Optional[float] = None
        self.was_signalled = False
        self._control_path = control_path
        self._stamp: Optional[tuple[int, int, int]] = None
        self._sequence = -1
        self._lock = threading.Lock()

    @property
    def must_end(self) -> bool:
        """Whether the training process is to be ended, by whomever."""
        return self.was_signalled or self.desired != "run"

    def offer(self, desired: Desired, grace_s: Optional[float]) -> None:
        """Take a wish; `run` changes nothing, since nobody can unsay a TERM that the job has seen."""
        with self._lock:
            if desired == "run":
                return
            self.desired = desired
            if grace_s is not None:
                self.grace_s = max(0.0, grace_s)

    def poll(self) -> None:
        """Look at control.json; one stat when nothing changed. An unreadable file counts as unchanged: ask again."""
        try:
            found = _read_stamp(self._control_path)
            if found == self._stamp:
                return
            with open(self._control_path, encoding="utf-8") as file:
                control = ControlFile.from_json(json.load(file))
        except (OSError, ValueError):
            return
        self._stamp = found
        if control.sequence > self._sequence:
            self._sequence = control.sequence
            self.offer(control.desired, control.grace_s)

    def receive_term(self) -> None:
        """Note a TERM. One that nobody wished is remembered with its time: the engine or the machine goes down."""
        self.poll()
        if self.desired == "run" and self.term_received_at is None:
            self.term_received_at = time.time()
        self.was_signalled = True


def _read_stamp(path: str) -> "tuple[int, int, int]":
    """Give what changes when a file is replaced: inode, time and size. Raises OSError."""
    found = os.stat(path)
    return (found.st_ino, found.st_mtime_ns, found.st_size)

"""How much of what an attempt reports is kept and read, so that no job fills the console's disk or its time."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starforge.contract.capsule import STREAM_LOG
from starforge.errors import Busy
from starforge_console.ledger.series import Segment
from starforge_console.settings.console import LOG_MAX_BYTES

FILE_BYTES: Final = 64 << 20
"""A new file of a log is begun once this one holds so much."""
_FILES_OF_TAIL: Final = 8
"""The tail of a log lies in so many files at least: the oldest is let go as a whole."""
RESERVE_BYTES: Final = 256 << 20
_RESERVE_SHARE: Final = 20
"""Of a small disk only this part is kept free: 5 %."""
_AGAIN_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The limits of one attempt's streams, and of the disk that holds them.

    Attributes:
        log_max_bytes: So much of an attempt's log is kept: its head, and its newest part.
        log_read_bytes: So far a spool file of the log is read.
        lines_max_bytes: So much of a spool file of lines is read.
        slack_bytes: What is read beyond the length that the runner's record declares: writers may end after it.
        round_bytes: After so much of one stream others get their turn.
        reserve_bytes: What stays free on the disk of the state directory; None for 256 MiB or 5 %, the smaller one.

    """

    log_max_bytes: int = LOG_MAX_BYTES
    log_read_bytes: int = 1 << 50
    lines_max_bytes: int = 1 << 30
    slack_bytes: int = 1 << 20
    round_bytes: int = 256 << 20
    reserve_bytes: int | None = None

    def of(self, stream: str) -> int:
        """How far a stream is read, whatever is said of its length."""
        return self.log_read_bytes if stream.startswith(STREAM_LOG) else self.lines_max_bytes

    def check_space(self, folder: Path) -> None:
        """Raises Busy when the disk of `folder` has to be left to the ledger."""
        disk = os.statvfs(folder)
        free_bytes, total_bytes = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
        reserve_bytes = self.reserve_bytes
        if reserve_bytes is None:
            reserve_bytes = min(RESERVE_BYTES, total_bytes // _RESERVE_SHARE)
        if free_bytes < reserve_bytes:
            raise Busy(
                f"the console's disk is almost full: {free_bytes} bytes are free on the one of {folder}",
                why=f"{reserve_bytes} are kept for the ledger (FORGE_STATE_RESERVE_BYTES)",
                next_step="make room there; what is not taken now stays in the spool",
                retry_after_s=_AGAIN_S,
            )


@dataclass(frozen=True, slots=True)
class LogRoom:
    """How the bytes of an attempt's log that are kept are divided: half for its head, half for what came last."""

    max_bytes: int

    @property
    def head_bytes(self) -> int:
        """So much from the beginning on is never let go."""
        return self.max_bytes // 2

    @property
    def tail_bytes(self) -> int:
        """So much of what came last is kept, less what a whole file is longer than it must be."""
        return self.max_bytes - self.head_bytes

    def find_passed(self, at: int, size_bytes: int) -> int:
        """Where what is kept of a piece begins that is longer than the whole tail."""
        return at if at < self.head_bytes else max(at, at + size_bytes - self.tail_bytes)

    def find_fitting(self, at: int) -> int:
        """How much of a piece that begins at `at` is kept in one go: the head ends where a file ends."""
        return self.head_bytes - at if at < self.head_bytes else self.tail_bytes

    def begins_file(self, position: int, at: int, last: Segment | None) -> bool:
        """Whether a piece begins a file, where `position` bytes lie in the present one and `last` is its end."""
        if position == 0 or at < self.head_bytes:
            return position >= FILE_BYTES
        return position >= min(FILE_BYTES, max(1, self.tail_bytes // _FILES_OF_TAIL)) or (
            last is not None and last.from_byte < self.head_bytes
        )


def describe_cap(log_max_bytes: int) -> tuple[str, str]:
    """What the timeline says, once, of a log that is longer than is kept, as (code, text)."""
    text = (
        f"the log is longer than {log_max_bytes} bytes (FORGE_LOG_MAX_BYTES of the console): its beginning and its end "
        "are kept, what lies between shows as missing; the job goes on"
    )
    return "log_cap", text

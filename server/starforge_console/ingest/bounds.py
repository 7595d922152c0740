"""How much of what an attempt reports is kept and read, so that no job fills the console's disk or its time."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starforge.contract.capsule import STREAM_LOG
from starforge.errors import Busy
from starforge_console.settings.console import LOG_MAX_BYTES

RESERVE_BYTES: Final = 256 << 20
_RESERVE_SHARE: Final = 20
"""Of a small disk only this part is kept free: 5 %."""
_AGAIN_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The limits of one attempt's streams, and of the disk that holds them.

    Attributes:
        log_max_bytes: So much of an attempt's log is kept.
        lines_max_bytes: So much of a spool file of lines is read.
        slack_bytes: What is read beyond the length that the runner's record declares: writers may end after it.
        round_bytes: After so much of one stream others get their turn.
        reserve_bytes: What stays free on the disk of the state directory; None for 256 MiB or 5 %, the smaller one.

    """

    log_max_bytes: int = LOG_MAX_BYTES
    lines_max_bytes: int = 1 << 30
    slack_bytes: int = 1 << 20
    round_bytes: int = 256 << 20
    reserve_bytes: int | None = None

    def of(self, stream: str) -> int:
        """How far a stream is read, whatever is said of its length."""
        return self.log_max_bytes if stream == STREAM_LOG else self.lines_max_bytes

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


def describe_cap(log_max_bytes: int) -> tuple[str, str]:
    """What the timeline says, once, of a log that is longer than is kept, as (code, text)."""
    text = (
        f"the log is longer than {log_max_bytes} bytes (FORGE_LOG_MAX_BYTES of the console): "
        "what follows is not kept here and shows as missing; the job goes on"
    )
    return "log_cap", text

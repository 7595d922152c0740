"""Brings a stream up to what its spool file holds, through the receiver that ingest uses: each byte counts once.

The job can write to that file, and make it as long as it likes without writing anything: what was never written is not
read, nor what lies beyond the given end.
"""

import asyncio
import contextlib
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from starforge.contract.bounds import BODY_BYTES
from starforge.contract.capsule import SPOOL_DIRECTORY, SPOOL_FILES, node_directory
from starforge_console.errors import StreamGap
from starforge_console.ingest.receive import Receiver
from starforge_console.ingest.spool import SpoolFile, open_file
from starforge_console.ingest.streams import LINE_STREAMS, kind_of
from starforge_console.ledger.reports import ReportingAttempt


@dataclass(frozen=True, slots=True)
class Reach:
    """How far to read: not beyond `end`, and about `round_bytes` at once.

    `is_final`: nothing is written any more, so that a last line that was cut off counts as dropped.
    """

    end: int
    round_bytes: int
    is_final: bool


class Stop(Enum):
    """Why no more was read."""

    NO_MORE = auto()
    ROUND = auto()
    BEYOND_END = auto()
    HOLE = auto()


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """The stream is received to `received_to`; its file is `size_bytes` long, None when there is no file."""

    received_to: int
    size_bytes: int | None
    stop: Stop


async def catch_up(receiver: Receiver, attempt: ReportingAttempt, stream: str, root: Path, reach: Reach) -> CaughtUp:
    """Receive what the spool file below the attempt's folder `root` holds beyond the mark, a piece at a time.

    Raises:
        StrangeFile: the file is not a plain one.
        Busy, Unavailable: try again; nothing was lost.

    """
    mark = await receiver.find_mark(attempt, stream)
    with contextlib.ExitStack() as stack:
        opening = open_file(root, *_find_file(stream))
        file = await asyncio.to_thread(stack.enter_context, opening)
        if file is None:
            return CaughtUp(mark.received_to, None, Stop.NO_MORE)
        at, round_end = mark.received_to, mark.received_to + reach.round_bytes
        while not mark.ended and at < reach.end:
            if at >= round_end:
                return CaughtUp(at, await asyncio.to_thread(file.size_bytes), Stop.ROUND)
            to = await _step(receiver, attempt, stream, (file, at, reach))
            if to == at:
                break
            at = to
        return await asyncio.to_thread(_sum_up, file, at, reach)


def _find_file(stream: str) -> tuple[str, str]:
    """Where a stream lies below the attempt's folder: a node's log in the node's own."""
    _, _, rank = stream.partition("-")
    return (node_directory(int(rank)) if rank else SPOOL_DIRECTORY, SPOOL_FILES[kind_of(stream)])


def _sum_up(file: SpoolFile, at: int, reach: Reach) -> CaughtUp:
    size_bytes = file.size_bytes()
    if size_bytes <= at:
        return CaughtUp(at, size_bytes, Stop.NO_MORE)
    if file.written_to(at, at + 1) == at:
        return CaughtUp(at, size_bytes, Stop.HOLE)
    return CaughtUp(at, size_bytes, Stop.BEYOND_END if at >= reach.end else Stop.NO_MORE)


async def _step(receiver: Receiver, attempt: ReportingAttempt, stream: str, place: tuple[SpoolFile, int, Reach]) -> int:
    file, at, reach = place
    content = await asyncio.to_thread(file.read_written, at, min(at + BODY_BYTES, reach.end))
    if not content:
        return at
    if stream in LINE_STREAMS and b"\n" not in content:
        to, is_line = await asyncio.to_thread(file.find_line_end, at, reach.end)
        if not is_line and not reach.is_final:
            return at
        return (await receiver.skip(attempt, stream, at, to - at)).received_to
    try:
        return (await receiver.take(attempt, stream, at, content)).received_to
    except StreamGap as gap:  # another sender was here meanwhile, or its bytes were not kept after all
        return gap.received_to

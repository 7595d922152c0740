"""Brings a stream up to what its spool file holds, through the receiver that ingest uses: each byte counts once."""

import asyncio
import contextlib
from dataclasses import dataclass
from pathlib import Path

from starforge.contract.capsule import SPOOL_DIRECTORY, SPOOL_FILES
from starforge_console.errors import StreamGap
from starforge_console.ingest.receive import Receiver
from starforge_console.ingest.spool import SpoolFile, open_file
from starforge_console.ingest.streams import BODY_BYTES, LINE_STREAMS
from starforge_console.ledger.reports import ReportingAttempt


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """The stream is received to `received_to`; its file is `size_bytes` long, None when there is no file."""

    received_to: int
    size_bytes: int | None


async def catch_up(
    receiver: Receiver, attempt: ReportingAttempt, stream: str, root: Path, limit_bytes: int | None = None
) -> CaughtUp:
    """Receive what the spool file below the attempt's folder `root` holds beyond the mark, a piece at a time.

    Without a limit this is the end of the stream: a last line that was cut off counts as dropped. With one, about so
    many bytes are read, and what may still be written is left alone.

    Raises:
        StrangeFile: the file is not a plain one.
        Busy, Unavailable: try again; nothing was lost.

    """
    mark = await receiver.find_mark(attempt, stream)
    with contextlib.ExitStack() as stack:
        opening = open_file(root, SPOOL_DIRECTORY, SPOOL_FILES[stream])
        file = await asyncio.to_thread(stack.enter_context, opening)
        if file is None:
            return CaughtUp(mark.received_to, None)
        at, stop = mark.received_to, None if limit_bytes is None else mark.received_to + limit_bytes
        while not mark.ended and (stop is None or at < stop):
            to = await _step(receiver, attempt, stream, (file, at, stop is None))
            if to == at:
                break
            at = to
        return CaughtUp(at, await asyncio.to_thread(file.size_bytes))


async def _step(receiver: Receiver, attempt: ReportingAttempt, stream: str, place: tuple[SpoolFile, int, bool]) -> int:
    file, at, is_final = place
    content = await asyncio.to_thread(file.read, at, BODY_BYTES)
    if not content:
        return at
    if stream in LINE_STREAMS and b"\n" not in content:
        end = await asyncio.to_thread(file.find_line_end, at)
        if end is None and not is_final:
            return at
        return (await receiver.skip(attempt, stream, at, (end or file.size_bytes()) - at)).received_to
    try:
        return (await receiver.take(attempt, stream, at, content)).received_to
    except StreamGap as gap:  # another sender was here meanwhile, or its bytes were not kept after all
        return gap.received_to

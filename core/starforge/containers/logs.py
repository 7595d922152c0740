"""The engine's own log of a container: what it said before the runner wrote its record."""

from collections.abc import Iterator
from typing import Final

from starforge.containers.engine import Engine, EngineError
from starforge.containers.seeing import parse_time
from starforge.contract.executor import LogChunk

_CHUNK_BYTES: Final = 64 * 1024
_NOT_FOUND: Final = 404


def read_logs(engine: Engine, container: str, cursor: str | None) -> Iterator[LogChunk]:
    """Lines behind `cursor` (the engine's time of the last line that was read), both streams in the order of time.

    Nothing when the container does not exist. Raises BackendUnreachable, EngineError.
    """
    content, last = bytearray(), cursor
    for at, line in sorted(_read_lines(engine, container, cursor), key=lambda entry: entry[0]):
        content += line
        last = at
        if len(content) >= _CHUNK_BYTES:
            yield LogChunk(bytes(content), last)
            content.clear()
    if content and last is not None:
        yield LogChunk(bytes(content), last)


def _read_lines(engine: Engine, container: str, cursor: str | None) -> Iterator[tuple[str, bytes]]:
    since = parse_time(cursor) if cursor else None
    # One second back: the engine compares with less precision than a cursor has.
    begin = "0" if since is None else str(max(0, int(since) - 1))
    try:
        for _stream, frame in engine.logs(container, begin):
            stamp, _, line = frame.partition(b" ")
            at = stamp.decode(errors="replace")
            if cursor is None or at > cursor:
                yield at, line
    except EngineError as error:
        if error.status != _NOT_FOUND:
            raise

"""What a stream of an attempt is to ingest: names, limits, and the one thing that each kind of stream must do."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from starforge.contract.capsule import STREAM_EVENTS, STREAM_LOG, STREAM_METRICS
from starforge.contract.ids import AttemptId
from starforge.errors import Busy
from starforge_console.ingest.bounds import Bounds
from starforge_console.ingest.masking import Masker
from starforge_console.ledger.database import Database
from starforge_console.ledger.reports import ReportingAttempt

STREAMS: Final = (STREAM_LOG, STREAM_METRICS, STREAM_EVENTS)
"""What the node that leads an attempt sends; of the others the log alone is kept."""
LINE_STREAMS: Final = frozenset({STREAM_METRICS, STREAM_EVENTS})


def log_stream(rank: int) -> str:
    """The stream of what node `rank` prints; node 0 leads, and its log is the attempt's."""
    return STREAM_LOG if rank == 0 else f"{STREAM_LOG}-{rank}"


def list_streams(nodes: int) -> tuple[str, ...]:
    """The streams of an attempt over so many nodes."""
    return (*STREAMS, *map(log_stream, range(1, nodes)))


def kind_of(stream: str) -> str:
    """Which of STREAMS a stream is like: a node's log is a log."""
    return STREAM_LOG if stream.startswith(STREAM_LOG) else stream


@dataclass(frozen=True, slots=True)
class Stores:
    """Where reports are kept: the two databases, and the folder of the log's segment files; and how much of them."""

    ledger: Database
    series: Database
    logs_dir: Path
    masker: Masker
    bounds: Bounds = field(default_factory=Bounds)


@dataclass(frozen=True, slots=True)
class Mark:
    """Up to which byte a stream is durable, and whether nothing more is taken."""

    received_to: int
    ended: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of a stream that follow what is durable: `at` is the offset of the first one."""

    attempt: ReportingAttempt
    at: int
    content: bytes


class Sink(Protocol):
    """Makes one kind of stream durable. Calls for one attempt come one at a time."""

    async def load_mark(self, attempt: ReportingAttempt) -> Mark:
        """The mark as it is on disk."""

    async def keep(self, piece: Piece) -> int:
        """Make the piece durable, together with the mark, and give the new mark.

        Lines are kept whole: a last line without its end stays out, and the mark stands before it.

        Raises:
            StreamMoved: the mark on disk stands elsewhere by now; nothing was kept.

        """

    def forget(self, attempt: AttemptId) -> None:
        """Drop what is remembered of the attempt; it is read anew when it is needed."""


class SkipSink(Sink, Protocol):
    """A sink of lines, which can pass over bytes that are no line."""

    async def skip(self, attempt: ReportingAttempt, at: int, to: int) -> int:
        """Move the mark over bytes that cannot be a line, and say so in the timeline."""


class StreamMoved(Busy):
    """Somebody else has moved the mark: it is read anew at the next try."""

    def __init__(self) -> None:
        super().__init__("the stream was received by another hand", retry_after_s=0.1, next_step="send again")

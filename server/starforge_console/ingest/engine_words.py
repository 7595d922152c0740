"""The engine's own output of an attempt that left no record of its end: what the runner could not write to the spool.

That is what was said before the runner ran (no Python, a changed capsule), or after the storage refused its bytes.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Final, Protocol

from starforge.contract.executor import LogChunk
from starforge.contract.ids import AttemptId
from starforge.errors import BackendUnreachable
from starforge_console.clock import Clock
from starforge_console.ingest.masking import Masker
from starforge_console.ledger.endings import EndedAttempt

WORDS_BYTES: Final = 64 << 10
"""The most that is kept of it: the last lines."""
PATIENCE_S: Final = 600.0
"""So long after the end a backend that is away is waited for; after that the attempt is read without its words."""
SEAM_BYTES: Final = 4 << 10
"""So much of a log's end says where in the words it stands."""
_MARGIN_BYTES: Final = 4 << 10
"""Longer than any token, and stretched to the attempt's longest secret: one that the cut went through lies in what is
thrown away after masking."""

_OWN: Final = b"starforge: "
_LINE_BYTES: Final = 500


class Speaks(Protocol):
    """A backend that kept an attempt's output (contract.Executor)."""

    def logs(self, attempt: AttemptId, cursor: str | None = None) -> AsyncIterator[LogChunk]:
        """The output from its beginning; nothing when nothing is left of the attempt. Raises BackendUnreachable."""


class WordsLost(Exception):
    """The backend did not answer for so long that its words are given up."""


class EngineWords:
    """Reads the last lines that each fleet's backend kept."""

    def __init__(self, fleets: Mapping[str, Speaks], masker: Masker, clock: Clock) -> None:
        self._fleets = fleets
        self._masker = masker
        self._clock = clock

    async def read(self, attempt: EndedAttempt) -> bytes:
        """The last lines, `WORDS_BYTES` at most, without the attempt's secrets; empty when there are none.

        Raises:
            BackendUnreachable: call again later.
            WordsLost: it has been away for too long.

        """
        backend = self._fleets.get(attempt.fleet)
        if backend is None:
            return b""
        mask = await self._masker.of(attempt.id)
        margin_bytes = max(_MARGIN_BYTES, mask.longest_bytes)
        try:
            words, is_whole = await _read_tail(backend, attempt.id, WORDS_BYTES + margin_bytes)
        except BackendUnreachable as error:
            if self._clock.now() - attempt.ended_at < PATIENCE_S:
                raise
            raise WordsLost(f"what the backend kept of the attempt's output could not be read: {error}") from error
        # Surrogates carry bytes that are no text there and back.
        cleaned = mask.clean(words.decode(errors="surrogateescape")).encode(errors="surrogateescape")
        return cleaned if is_whole and len(cleaned) <= WORDS_BYTES else _cut(cleaned[margin_bytes:])


def find_news(received_end: bytes, words: bytes) -> bytes:
    """What `words` say beyond a log that ends with `received_end`: all of it for an empty log.

    Empty when the two do not meet: what follows the log is not known then.
    """
    seam = received_end[-SEAM_BYTES:]
    if not seam:
        return words
    at = words.rfind(seam)
    return b"" if at < 0 else words[at + len(seam) :]


def find_own_words(words: bytes) -> str | None:
    """The last line that a part of ours speaks in, which says what it could not do."""
    lines = [line for line in words.splitlines() if line.startswith(_OWN)]
    return lines[-1][:_LINE_BYTES].decode(errors="replace") if lines else None


async def _read_tail(backend: Speaks, attempt: AttemptId, limit_bytes: int) -> tuple[bytes, bool]:
    tail, is_whole = b"", True
    async for chunk in backend.logs(attempt):
        tail += chunk.content
        is_whole = is_whole and len(tail) <= limit_bytes
        tail = tail[-limit_bytes:]
    return tail, is_whole


def _cut(words: bytes) -> bytes:
    """The last whole lines that fit; of a line that is longer than that, its end."""
    words = words[-WORDS_BYTES:]
    line_end = words.find(b"\n", 0, len(words) - 1)
    return words[line_end + 1 :]

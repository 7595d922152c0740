"""A log is sent as a file of the announced length, with every byte in its place, whatever is let go meanwhile."""

import asyncio
from dataclasses import dataclass, field

import pytest

from server.tests.web.support import Logs
from starforge_console.ingest.logs import LogPart
from starforge_console.web.log_files import PIECE_BYTES, iterate_file, measure_file

ATTEMPT = "j-1-abc"
Range = tuple[int, int]


@dataclass
class LettingGo(Logs):
    """A log that loses more of itself with every read: `next_lost` are what is lost then, one after the other."""

    next_lost: list[Range] = field(default_factory=list)

    async def read_part(self, attempt: str, from_byte: int, limit_bytes: int) -> LogPart:
        read = await super().read_part(attempt, from_byte, limit_bytes)
        if limit_bytes and self.next_lost:
            self.lost[attempt] = self.next_lost.pop(0)
        return read


def send(logs: Logs, part: Range | None = None) -> tuple[int, list[bytes]]:
    """The length that was announced, and the pieces that were sent."""

    async def run() -> tuple[int, list[bytes]]:
        file = await measure_file(logs, ATTEMPT)
        wanted = part or (0, file.size_bytes)
        return file.size_bytes, [piece async for piece in iterate_file(logs, ATTEMPT, file, wanted)]

    return asyncio.run(run())


def test_what_is_let_go_behind_a_range_that_was_missing_leaves_the_rest_in_its_place() -> None:
    head, middle, tail = b"h" * 500, b"m" * 300, b"t" * 400
    logs = LettingGo({ATTEMPT: head + b"x" * 1000 + middle + tail}, {ATTEMPT: (500, 1500)}, next_lost=[(500, 1800)])
    announced, pieces = send(logs)
    sent = b"".join(pieces)
    assert announced == len(sent) == 1200
    assert (sent[:500], sent[800:]) == (head, tail)
    assert sent[500:800].strip() == b"[starforge: bytes 500 to 1800 of this log are lost]"


@pytest.mark.parametrize("grown", [0, 5_000])
def test_a_log_that_is_let_go_of_altogether_ends_in_blanks_of_its_length_in_small_pieces(grown: int) -> None:
    size = 5 * PIECE_BYTES + 17
    logs = LettingGo({ATTEMPT: b"a" * size}, next_lost=[(0, size + grown)])
    announced, pieces = send(logs)
    assert announced == sum(map(len, pieces)) == size
    assert max(map(len, pieces)) <= PIECE_BYTES
    assert pieces[0] == b"a" * PIECE_BYTES


def test_a_part_of_the_file_is_cut_from_the_same_bytes() -> None:
    logs = LettingGo({ATTEMPT: bytes(range(200))}, {ATTEMPT: (50, 100)}, next_lost=[(50, 160)])
    _, (first, second, last) = send(logs, (40, 90))
    assert (first, len(second), last) == (bytes(range(40, 50)), 60, bytes(range(160, 180)))

"""Logs that are longer than is kept, and lines found by their numbers."""

import random
from pathlib import Path

import pytest
from sqlalchemy import update

from server.tests.ingest.builders import Site, ended, open_site, run
from starforge_console.ingest.bounds import Bounds, LogRoom
from starforge_console.ingest.finalise import Finaliser
from starforge_console.ingest.logs import LinePlace, Logs
from starforge_console.ledger.reports import ReportingAttempt
from starforge_console.ledger.tables import log_segments

MOST = 4000
HEAD = MOST // 2
BOUNDS = Bounds(log_max_bytes=MOST)
LINES = b"".join(b"line %d\n" % number for number in range(1, 20_001))


async def _send(site: Site, attempt: ReportingAttempt, content: bytes, piece_bytes: int) -> None:
    at = (await site.receiver.find_mark(attempt, "log")).received_to
    while at < len(content):
        at = (await site.receiver.take(attempt, "log", at, content[at : at + piece_bytes])).received_to


async def _read(site: Site, attempt: ReportingAttempt) -> tuple[dict[int, bytes], list[tuple[int, int]]]:
    """What is here of the log, by offset, and the gaps."""
    logs, at, kept, gaps = Logs(site.stores), 0, {}, []
    while True:
        part = await logs.read_part(attempt.id, at, 700)
        if part.gap is not None:
            gaps.append(part.gap)
        elif part.content:
            kept[at] = part.content
        else:
            return kept, gaps
        at = part.next_offset


@pytest.mark.parametrize("way", ["sent", "spooled", "sent in part"])
@pytest.mark.parametrize("piece_bytes", [90, 700, 100_000])
def test_of_a_log_that_is_too_long_its_head_and_its_end_are_kept_and_the_gap_is_exact(
    tmp_path: Path, way: str, piece_bytes: int
) -> None:
    content = random.Random(7).randbytes(30_000)

    async def _scenario() -> None:
        async with open_site(tmp_path, BOUNDS) as site:
            attempt = await site.start_attempt()
            sent = {"sent": len(content), "spooled": 0, "sent in part": 9000}[way]
            await _send(site, attempt, content[:sent], piece_bytes)
            (site.spool(attempt) / "log.bin").write_bytes(content)
            _, produced = await Finaliser(site.receiver, site.stores, site.storage, site.clock, {}).finalise(
                ended(attempt)
            )
            kept, gaps = await _read(site, attempt)
            assert all(content[at : at + len(part)] == part for at, part in kept.items())
            assert sum(map(len, kept.values())) <= MOST
            ((first, behind),) = gaps
            assert first == HEAD
            assert len(content) - HEAD <= behind <= len(content) - HEAD // 2
            assert await Logs(site.stores).find_missing(attempt.id, produced) == ((first, behind),)
            assert produced == len(content)
            assert len([note for note in await site.notes(attempt) if "FORGE_LOG_MAX_BYTES" in note]) == 1
            on_disk = sum(file.stat().st_size for file in (tmp_path / "logs").rglob("log-*"))
            assert on_disk <= MOST

    run(_scenario())


def test_while_a_log_grows_beyond_what_is_kept_its_newest_bytes_are_always_there(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path, BOUNDS) as site:
            attempt = await site.start_attempt()
            for end in range(500, 20_000, 500):
                await _send(site, attempt, LINES[:end], 500)
                part = await Logs(site.stores).read_part(attempt.id, end - 100, 100)
                assert part.content == LINES[end - 100 : end]
            site.receiver = site.new_receiver()  # as after a restart
            await _send(site, attempt, LINES[:25_000], 500)
            part = await Logs(site.stores).read_part(attempt.id, 24_900, 100)
            assert part.content == LINES[24_900:25_000]
            logs = Logs(site.stores)
            assert await logs.number_of(attempt.id, 24_900) == LINES[:24_900].count(b"\n") + 1

    run(_scenario())


def test_nothing_is_let_go_of_a_log_that_fits(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path, BOUNDS) as site:
            attempt = await site.start_attempt()
            await _send(site, attempt, LINES[:MOST], 333)
            kept, gaps = await _read(site, attempt)
            assert (b"".join(kept.values()), gaps) == (LINES[:MOST], [])
            assert await site.notes(attempt) == []

    run(_scenario())


def test_lines_are_found_by_their_numbers_and_numbers_by_bytes(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            await _send(site, attempt, LINES, 30_011)
            logs = Logs(site.stores)
            for number in (1, 2, 77, 9_999, 20_000):
                place = await logs.find_line(attempt.id, number)
                assert place == LinePlace(number, LINES.index(b"line %d\n" % number))
                assert await logs.number_of(attempt.id, place.offset + 1) == number
            assert await logs.find_line(attempt.id, 20_001) == LinePlace(20_001, len(LINES))
            assert await logs.find_line(attempt.id, 20_002) is None
            assert await logs.number_of(attempt.id, len(LINES)) == 20_001
            assert await logs.find_line("j-1", 5) is None

    run(_scenario())


def test_a_line_that_was_let_go_leads_to_the_first_one_behind_it(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path, BOUNDS) as site:
            attempt = await site.start_attempt()
            await _send(site, attempt, LINES, 300)
            ((_, behind),) = (await _read(site, attempt))[1]
            logs = Logs(site.stores)
            assert await logs.find_line(attempt.id, 5000) == LinePlace(LINES[:behind].count(b"\n") + 1, behind)
            assert await logs.find_line(attempt.id, 20_000) == LinePlace(20_000, LINES.index(b"line 20000\n"))

    run(_scenario())


def test_what_an_older_version_kept_is_numbered_when_it_is_asked_for(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            await _send(site, attempt, LINES[:100_000], 30_011)
            await site.stores.series.write(lambda c: c.execute(update(log_segments).values(lines_before=None)))
            site.receiver = site.new_receiver()
            await _send(site, attempt, LINES, 30_011)
            place = await Logs(site.stores).find_line(attempt.id, 19_000)
            assert place == LinePlace(19_000, LINES.index(b"line 19000\n"))

    run(_scenario())


def test_the_room_of_a_log_is_half_its_head_and_half_its_end() -> None:
    room = LogRoom(1000)
    assert (room.head_bytes, room.tail_bytes) == (500, 500)
    assert (room.find_fitting(0), room.find_fitting(499), room.find_fitting(500)) == (500, 1, 500)
    assert (room.find_passed(0, 9000), room.find_passed(600, 400), room.find_passed(600, 700)) == (0, 600, 800)

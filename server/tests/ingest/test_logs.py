from pathlib import Path

from server.tests.ingest.builders import open_site, run
from starforge_console.ingest.logs import Logs

LOG = bytes(range(256)) * 1024


def test_a_log_is_read_back_in_pieces(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            for at in range(0, len(LOG), 10_000):
                await site.receiver.take(attempt, "log", at, LOG[at : at + 10_000])
            logs, read, at = Logs(site.stores), b"", 0
            while at < len(LOG):
                piece = await logs.read_log(attempt.id, at, 7777)
                assert piece.next_offset == at + len(piece.content)
                assert piece.received_to == len(LOG)
                assert not piece.missing
                read, at = read + piece.content, piece.next_offset
            assert read == LOG
            assert (await logs.read_log(attempt.id, at, 10)).content == b""
            assert not (await logs.read_log(attempt.id, at, 10)).ended
            await site.receiver.end(attempt)
            assert (await logs.read_log(attempt.id, at, 10)).ended

    run(_scenario())


def test_an_unknown_log_is_empty(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            piece = await Logs(site.stores).read_log("j-1", 0, 10)
            assert (piece.content, piece.received_to, piece.ended) == (b"", 0, False)

    run(_scenario())


def test_a_damaged_range_is_named_and_marked_at_its_length(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            for number in range(3):  # 100,000 bytes make a segment each
                await site.receiver.take(attempt, "log", number * 100_000, bytes([65 + number]) * 100_000)
            file = next((tmp_path / "logs" / attempt.id).iterdir())
            with file.open("r+b") as damaged:
                damaged.seek(150_000)
                damaged.write(b"?")
            logs = Logs(site.stores)
            piece = await logs.read_log(attempt.id, 50_000, 200_000)
            assert piece.missing == ((100_000, 200_000),)
            assert len(piece.content) == 200_000
            assert piece.content[:50_000] == b"A" * 50_000
            assert b"bytes 100000 to 200000 of this log are lost" in piece.content
            assert piece.content[150_000:] == b"C" * 50_000
            assert await logs.find_missing(attempt.id) == ()

    run(_scenario())


def test_a_file_that_is_gone_and_bytes_never_received_are_missing(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            await site.receiver.take(attempt, "log", 0, b"0123456789")
            logs = Logs(site.stores)
            assert await logs.find_missing(attempt.id, 15) == ((10, 15),)
            file = next((tmp_path / "logs" / attempt.id).iterdir())
            file.write_bytes(b"0123")
            assert await logs.find_missing(attempt.id, 10) == ((0, 10),)
            await logs.remove_logs([attempt.id])
            await logs.remove_logs([attempt.id])
            assert await logs.find_missing(attempt.id, 15) == ((0, 15),)
            piece = await logs.read_log(attempt.id, 2, 4)
            assert (piece.missing, len(piece.content)) == (((2, 6),), 4)

    run(_scenario())


def test_a_long_log_goes_into_several_files(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            body = LOG * 4  # 1 MiB
            for number in range(66):
                await site.receiver.take(attempt, "log", number * len(body), body)
            assert len(list((tmp_path / "logs" / attempt.id).iterdir())) == 2
            logs = Logs(site.stores)
            assert await logs.find_missing(attempt.id) == ()
            piece = await logs.read_log(attempt.id, 64 * len(body) - 100, 200)
            assert piece.content == body[-100:] + body[:100]

    run(_scenario())

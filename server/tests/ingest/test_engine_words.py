"""An attempt without a record of its end: what only the engine heard becomes the end of its log."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from server.tests.ingest.builders import (
    Site,
    ended,
    long_secret_of,
    open_site,
    run,
    secret_of,
    token_of,
    write_exit,
)
from starforge.contract.executor import LogChunk
from starforge.contract.ids import AttemptId
from starforge.errors import BackendUnreachable
from starforge_console.ingest.engine_words import PATIENCE_S, WORDS_BYTES, find_news
from starforge_console.ingest.finalise import Finaliser
from starforge_console.ledger.reports import ReportingAttempt

SAID = b"starforge: the runner needs Python 3.8 or newer; this image has no Python on its PATH\n"


@dataclass
class Engine:
    """A backend that kept `chunks` of every attempt's output, and may be away."""

    chunks: list[bytes]
    is_away: bool = False
    asked: list[AttemptId] = field(default_factory=list)

    async def logs(self, attempt: AttemptId, cursor: str | None = None) -> AsyncIterator[LogChunk]:
        assert cursor is None
        self.asked.append(attempt)
        if self.is_away:
            raise BackendUnreachable("the engine did not answer")
        for number, chunk in enumerate(self.chunks):
            yield LogChunk(chunk, str(number))


async def _finalise(site: Site, attempt: ReportingAttempt, engine: Engine) -> int | None:
    finaliser = Finaliser(site.receiver, site.stores, site.storage, site.clock, {"local": engine})
    _, produced_bytes = await finaliser.finalise(replace(ended(attempt), ended_at=site.clock.at))
    return produced_bytes


async def _log_after(site: Site, spooled: bytes | None, *said: bytes) -> bytes:
    attempt = await site.start_attempt()
    if spooled is not None:
        (site.spool(attempt) / "log.bin").write_bytes(spooled)
    engine = Engine(list(said))
    produced_bytes = await _finalise(site, attempt, engine)
    log = await site.log_bytes(attempt)
    assert produced_bytes == (len(log) if log or spooled is not None else None)
    again = await _finalise(site, attempt, engine)
    assert (again, await site.log_bytes(attempt)) == (produced_bytes, log), "a repeat adds nothing"
    return log


@pytest.mark.parametrize(
    ("spooled", "said", "log"),
    [
        (None, (SAID,), SAID),
        (b"", (SAID[:30], SAID[30:]), SAID),
        (None, (), b""),
        (b"one\n", (b"one\n", b"two\nthe disk is full\n"), b"one\ntwo\nthe disk is full\n"),
        (b"one\ntwo\n", (b"one\ntwo\n",), b"one\ntwo\n"),
        (b"one\ntwo\n", (b"something else\n",), b"one\ntwo\n"),
        (None, (b"no text: \xff\xfe\n",), b"no text: \xff\xfe\n"),
    ],
)
def test_the_log_goes_on_with_what_only_the_engine_heard(
    tmp_path: Path, spooled: bytes | None, said: tuple[bytes, ...], log: bytes
) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            assert await _log_after(site, spooled, *said) == log

    run(_scenario())


def test_a_reading_that_broke_off_before_the_streams_ended_takes_the_words_once(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            await site.receiver.take(attempt, "log", 0, SAID)  # as far as the console that died had come
            assert await _finalise(site, attempt, Engine([SAID])) == len(SAID)
            assert await site.log_bytes(attempt) == SAID

    run(_scenario())


def test_an_attempt_with_a_record_has_its_whole_log_in_the_spool_and_the_engine_is_not_asked(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt, engine = await site.start_attempt(), Engine([SAID])
            (site.spool(attempt) / "log.bin").write_bytes(b"")
            write_exit(site, attempt, log=0)
            assert await _finalise(site, attempt, engine) == 0
            assert (engine.asked, await site.log_bytes(attempt)) == ([], b"")

    run(_scenario())


@pytest.mark.parametrize("word_of", [token_of, secret_of, long_secret_of])
def test_no_secret_is_among_the_words_wherever_they_are_cut(
    tmp_path: Path, word_of: Callable[[AttemptId], str]
) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            for extra_bytes in range(0, 60, 3):
                attempt = await site.start_attempt(f"hash {extra_bytes}")
                token = word_of(attempt.id).encode()
                said = b"x" * 90_000 + token + b"y" * (WORDS_BYTES - extra_bytes) + token + b"\n"
                await _finalise(site, attempt, Engine([said]))
                log = await site.log_bytes(attempt)
                assert len(log) <= WORDS_BYTES
                assert log.endswith(b"y***\n")
                assert not any(token[start : start + 8] in log for start in range(len(token) - 7))

    run(_scenario())


def test_of_many_words_the_last_lines_are_kept_whole(tmp_path: Path) -> None:
    lines = [b"line %06d\n" % number for number in range(20_000)]

    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            log = await _log_after(site, None, *lines)
            assert WORDS_BYTES - len(lines[0]) < len(log) <= WORDS_BYTES
            assert log == b"".join(lines[-len(log) // len(lines[0]) :])

    run(_scenario())


def test_an_engine_that_is_away_is_waited_for_and_then_told_of(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt, engine = await site.start_attempt(), Engine([SAID], is_away=True)
            finaliser = Finaliser(site.receiver, site.stores, site.storage, site.clock, {"local": engine})
            over = replace(ended(attempt), ended_at=site.clock.at)
            site.clock.at += PATIENCE_S - 1
            with pytest.raises(BackendUnreachable):
                await finaliser.finalise(over)
            site.clock.at += 1
            assert await finaliser.finalise(over) == ({"artifacts": [], "checkpoints": []}, None)
            (note,) = await site.notes(attempt)
            assert "the engine did not answer" in note

    run(_scenario())


def test_an_engine_that_comes_back_in_time_is_heard(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt, engine = await site.start_attempt(), Engine([SAID], is_away=True)
            with pytest.raises(BackendUnreachable):
                await _finalise(site, attempt, engine)
            engine.is_away = False
            assert await _finalise(site, attempt, engine) == len(SAID)
            assert await site.log_bytes(attempt) == SAID
            assert await site.notes(attempt) == ["the engine heard: " + SAID.decode().strip()]

    run(_scenario())


def test_an_attempt_of_a_fleet_that_is_gone_is_read_without_words(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            finaliser = Finaliser(site.receiver, site.stores, site.storage, site.clock, {})
            assert await finaliser.finalise(ended(attempt)) == ({"artifacts": [], "checkpoints": []}, None)

    run(_scenario())


@pytest.mark.parametrize(
    ("received_end", "words", "news"),
    [
        (b"", b"all", b"all"),
        (b"a\n", b"a\na\nb\n", b"b\n"),
        (b"older\na\n", b"a\nb\n", b""),
        (b"x" * 10_000, b"x" * 5_000 + b"new", b"new"),
    ],
)
def test_what_is_new_follows_the_last_place_where_the_log_ends(received_end: bytes, words: bytes, news: bytes) -> None:
    assert find_news(received_end, words) == news

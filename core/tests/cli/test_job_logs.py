from pathlib import Path

import pytest

from core.tests.cli.conftest import Sf
from core.tests.client.server import ConsoleState

LOG = b"step 1\nstep 2\n[rank1]: one\n10%\r\x1b[31m20%\x1b[0m\nlast\n"
SHOWN = "step 1\nstep 2\n[rank1]: one\n20%\nlast\n"


@pytest.fixture
def logged(sf: Sf, server: str, state: ConsoleState, project: Path) -> str:
    """A job that has ended, with a log of a few lines."""
    assert server.startswith("http")
    assert project.is_dir()
    job = sf("submit", "first", "--profile", "cpu").out.strip()
    state.start_attempt(job)
    state.append_log(job, LOG)
    state.move(job, "SUCCEEDED", "exited_zero")
    state.append_log(job, b"", ended=True)
    return job


def test_a_log_is_shown_as_lines_however_it_arrives(sf: Sf, state: ConsoleState, logged: str) -> None:
    for piece in (1, 7, 4096):
        state.log_piece = piece
        assert sf("job", "logs", logged).out == SHOWN
        assert sf("job", "logs", "-f", logged).out == SHOWN


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (("--tail", "2"), "20%\nlast\n"),
        (("--since-line", "4"), "20%\nlast\n"),
        (("--since-line", "5"), "last\n"),
        (("--offset", "7"), SHOWN[7:]),
        (("--rank", "1"), "[rank1]: one\n"),
        (("-f", "--tail", "1"), "last\n"),
        (("-f", "--since-line", "3", "--rank", "1"), "[rank1]: one\n"),
    ],
)
def test_a_part_of_a_log_is_shown(sf: Sf, logged: str, options: tuple[str, ...], shown: str) -> None:
    result = sf("job", "logs", logged, *options)
    assert (result.out, result.code) == (shown, 0)


def test_bytes_that_are_not_at_the_console_are_named(sf: Sf, state: ConsoleState, logged: str) -> None:
    state.jobs[logged].lost = (7, 27)
    result = sf("job", "logs", logged)
    assert result.out == "step 1\n[starforge: bytes 7 to 27 of this log are not at the console]\n20%\nlast\n"
    raw = sf("job", "logs", "-f", "--raw", logged)
    assert raw.out.encode() == LOG[:7] + LOG[27:]
    assert "bytes 7 to 27 of this log are not at the console" in raw.err


def test_what_another_node_printed_is_shown_by_its_number_or_after_the_first(
    sf: Sf, state: ConsoleState, logged: str
) -> None:
    state.jobs[logged].of_nodes = {1: b"[rank8]: here\n"}
    assert sf("job", "logs", logged, "--node", "1").out == "[rank8]: here\n"
    assert sf("job", "logs", logged, "--node", "0").out == SHOWN
    state.spread(logged, nodes=2)
    both = sf("job", "logs", logged, "--node", "all")
    assert both.out == SHOWN + "[rank8]: here\n"
    assert both.err == "── node 0 ──\n── node 1 ──\n"


def test_json_holds_the_text_and_where_it_begins(sf: Sf, logged: str) -> None:
    answer = sf("job", "logs", logged, "--tail", "1", "--json").json
    assert (answer["text"], answer["offset"], answer["ended"]) == ("last\n", LOG.index(b"last"), True)
    assert sf("job", "logs", logged, "--rank", "1", "--json").json["text"] == "[rank1]: one\n"


def test_lines_that_hold_a_text_are_printed_with_their_numbers(sf: Sf, state: ConsoleState, logged: str) -> None:
    hit = {"line": 2, "offset": 7, "text": "step 2", "begin": 0, "end": 4, "level": ""}
    answer = {"attempt": 1, "items": [hit], "next": None, "searched_from": 0, "searched_to": 50, "received_to": 50}
    state.answers[f"GET /jobs/{logged}/log/search"] = {**answer, "ended": True}
    result = sf("job", "logs", logged, "--grep", "STEP")
    assert (result.out, result.code) == ("2:step 2\n", 0)
    assert "1 line of the log holds 'STEP'" in result.err
    assert sf("job", "logs", logged, "--search", "STEP", "--json").json == {"job": logged, "items": [hit]}
    state.answers[f"GET /jobs/{logged}/log/search"] = {**answer, "items": [hit, hit], "ended": True}
    assert "2 lines of the log hold 'STEP'" in sf("job", "logs", logged, "--search", "STEP").err
    state.answers[f"GET /jobs/{logged}/log/search"] = {**answer, "items": [], "ended": True}
    assert "no line holds 'nothing'" in sf("job", "logs", logged, "--search", "nothing").err


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--tail", "1", "--offset", "3"), "--tail and --offset"),
        (("--raw", "--rank", "1"), "--rank"),
        (("--search", "x", "-f"), "--search"),
        (("--search", ""), "empty"),
        (("--node", "first"), "'first'"),
        (("--node", "all", "-f"), "--node all"),
    ],
)
def test_options_that_contradict_one_another_are_refused(
    sf: Sf, logged: str, options: tuple[str, ...], named: str
) -> None:
    result = sf("job", "logs", logged, *options)
    assert result.code != 0
    assert named in result.err

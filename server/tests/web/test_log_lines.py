import asyncio
from typing import Any

import pytest

from server.tests.web.lives import begin
from server.tests.web.support import ConsoleUnderTest, Logs, spread, submit
from starforge_console.web.log_windows import LINES_SHOWN, LogWindow, find_first_error, load_around, load_end

LINES = b"".join(b"line %d\n" % number for number in range(1, 3001))
ATTEMPT = "a"


def logs_of(content: bytes, *, ended: bool = False) -> Logs:
    return Logs(written={ATTEMPT: content}, ended={ATTEMPT} if ended else set())


def end_of(content: bytes, *, ended: bool = False) -> LogWindow:
    return asyncio.run(load_end(logs_of(content, ended=ended), ATTEMPT))


def around(content: bytes, number: int, before: int, after: int) -> LogWindow:
    return asyncio.run(load_around(logs_of(content), ATTEMPT, number, before, after))


def numbers(window: LogWindow) -> list[int]:
    return [item.number for item in window.items if hasattr(item, "number")]


def test_a_page_opens_at_the_end_of_a_log() -> None:
    window = end_of(LINES + b"half")
    assert numbers(window) == list(range(3001 - LINES_SHOWN, 3001))
    assert window.open_line is not None
    assert (window.open_line.number, window.open_line.text, window.later) == (3001, "half", None)
    assert (window.place.number, window.place.offset) == (3001, len(LINES))
    assert window.earlier == 3001 - 2 * LINES_SHOWN


def test_the_last_line_of_an_ended_log_is_whole() -> None:
    window = end_of(b"one\nhalf", ended=True)
    assert (numbers(window), window.open_line, window.earlier) == ([1, 2], None, None)


def test_windows_lead_to_one_another_without_a_line_lost_or_doubled() -> None:
    window, seen = end_of(LINES), []
    seen = numbers(window)
    while window.earlier is not None:
        window = around(LINES, window.earlier, 0, window.first - window.earlier - 1)
        seen = numbers(window) + seen
    assert seen == list(range(1, 3001))
    window, seen = around(LINES, 1, 0, 700), []
    seen = numbers(window)
    while window.later is not None:
        window = around(LINES, window.later, 0, 700)
        seen += numbers(window)
    assert seen == list(range(1, 3001))


def test_a_window_lies_around_a_line() -> None:
    window = around(LINES, 1500, 3, 4)
    assert numbers(window) == list(range(1497, 1505))
    assert (window.first, window.later) == (1497, 1505)
    assert numbers(around(LINES, 2, 10, 2)) == [1, 2, 3, 4]


def test_an_endless_line_is_seen_as_it_stands_and_read_in_part() -> None:
    window = end_of(b"one\n" + b"\r99% done" * 1_000_000)
    assert window.open_line is not None
    assert (window.open_line.number, window.open_line.text) == (2, "99% done")
    long = around(b"one\n" + b"x" * (5 << 20) + b"\nthree\n", 1, 0, 10)
    assert (numbers(long), long.later) == ([1, 2], 3)


def test_what_is_missing_stands_between_the_lines() -> None:
    logs = logs_of(LINES)
    logs.lost[ATTEMPT] = (LINES.index(b"line 10\n"), LINES.index(b"line 2990\n"))
    window = asyncio.run(load_around(logs, ATTEMPT, 8, 0, 5))
    shown = [getattr(item, "number", None) for item in window.items]
    assert shown == [8, 9, None, 2990, 2991, 2992]
    assert numbers(asyncio.run(load_around(logs, ATTEMPT, 1000, 0, 1)))[0] == 2990


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"eval error 0.1\nTraceback (most recent call last):\nKeyError: 1\n", 2),
        (b"one\nerror: it broke\n", 2),
        (b"one\ntwo\n", None),
    ],
)
def test_the_first_error_is_where_one_begins(content: bytes, line: int | None) -> None:
    assert asyncio.run(find_first_error(logs_of(content), ATTEMPT)) == line


def ask(console: ConsoleUnderTest, content: bytes, path: str, **query: Any) -> Any:
    headers = console.add_user("ann")
    job = submit(console, headers)
    attempt = begin(console, job).attempt
    assert attempt is not None
    console.logs.written[attempt] = content
    answer = console.client(headers).get(f"/api/v1/jobs/{job}/log{path}", params=query)
    return answer if path == "" else answer.json()


def test_the_api_searches_and_says_where_to_go_on(console: ConsoleUnderTest) -> None:
    found = ask(console, LINES, "/search", q="LINE 12", limit=2)
    assert [(hit["line"], hit["text"]) for hit in found["items"]] == [(12, "line 12"), (120, "line 120")]
    assert (found["attempt"], found["next"], found["ended"]) == (1, LINES.index(b"line 121\n"), False)
    assert found["items"][0] | {"level": ""} == {
        "line": 12,
        "offset": LINES.index(b"line 12\n"),
        "text": "line 12",
        "begin": 0,
        "end": 7,
        "level": "",
    }


def test_the_api_refuses_a_search_for_nothing(console: ConsoleUnderTest) -> None:
    assert ask(console, LINES, "/search")["status"] == 422


def test_the_api_refuses_a_search_for_several_lines(console: ConsoleUnderTest) -> None:
    refused = ask(console, LINES, "/search", q="\nline 12")
    assert (refused["status"], refused["code"]) == (422, "input_invalid")
    assert refused["next_step"] == "give one of them"


def test_the_api_shows_lines_by_number_by_byte_and_at_the_end(console: ConsoleUnderTest) -> None:
    lines = ask(console, LINES, "/lines", line=5, before=1, after=1)
    assert [(line["number"], line["text"]) for line in lines["items"]] == [(4, "line 4"), (5, "line 5"), (6, "line 6")]


def test_the_api_shows_the_line_of_a_byte(console: ConsoleUnderTest) -> None:
    lines = ask(console, LINES, "/lines", offset=LINES.index(b"line 77\n") + 3, after=0)
    assert [line["number"] for line in lines["items"]] == [77]


def test_the_api_shows_the_end(console: ConsoleUnderTest) -> None:
    lines = ask(console, LINES + b"open", "/lines", before=2)
    assert [line["number"] for line in lines["items"]] == [2999, 3000, 3001]
    assert (lines["is_open"], lines["later"]) == (True, None)


@pytest.mark.parametrize(
    ("query", "offset"),
    [
        ({"line": 77}, LINES.index(b"line 77\n")),
        ({"tail": 2}, LINES.index(b"line 2999\n")),
        ({"tail": 5000}, 0),
        ({"line": 9999}, len(LINES)),
    ],
)
def test_raw_bytes_begin_at_a_line(console: ConsoleUnderTest, query: dict[str, int], offset: int) -> None:
    answer = ask(console, LINES, "", **query)
    assert answer.content == LINES[offset:]
    assert (answer.headers["X-Log-Offset"], answer.headers["X-Log-Next-Offset"]) == (str(offset), str(len(LINES)))


def test_what_is_missing_is_passed_over_on_request(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    attempt = begin(console, job).attempt
    assert attempt is not None
    console.logs.written[attempt], console.logs.lost[attempt] = b"0123456789", (3, 7)
    client, seen, at = console.client(headers), [], 0
    for _ in range(3):
        answer = client.get(f"/api/v1/jobs/{job}/log", params={"offset": at, "gaps": "skip"})
        seen.append((answer.content, answer.headers.get("X-Log-Missing")))
        at = int(answer.headers["X-Log-Next-Offset"])
    assert seen == [(b"012", None), (b"", "3-7"), (b"789", None)]


def test_the_api_reads_and_searches_what_each_node_printed(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    attempt = begin(console, job).attempt
    assert attempt is not None
    console.logs.written[attempt] = b"rank 0\n"
    console.logs.of_node(1).written[attempt] = b"rank 8\nrank 8: done\n"
    spread(console, job, nodes=2)
    client = console.client(headers)
    assert client.get(f"/api/v1/jobs/{job}/log").content == b"rank 0\n"
    assert client.get(f"/api/v1/jobs/{job}/log?node=1").content == b"rank 8\nrank 8: done\n"
    assert client.get(f"/api/v1/jobs/{job}/log?node=1&tail=1").content == b"rank 8: done\n"
    lines = client.get(f"/api/v1/jobs/{job}/log/lines?node=1&line=1").json()["items"]
    assert [line["text"] for line in lines] == ["rank 8", "rank 8: done"]
    hits = client.get(f"/api/v1/jobs/{job}/log/search?node=1&q=rank").json()["items"]
    assert [hit["line"] for hit in hits] == [1, 2]
    for path in ("log", "log/lines", "log/search?q=x"):
        refused = client.get(f"/api/v1/jobs/{job}/{path}", params={"node": 2, **({"q": "x"} if "q=" in path else {})})
        assert refused.status_code == 404
        assert "it runs on 2 nodes, counted from 0" in refused.text

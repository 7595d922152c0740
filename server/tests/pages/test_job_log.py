import re

import pytest
from starlette.testclient import TestClient

from server.tests.pages.support import sign_in
from server.tests.web.lives import begin, go, retry
from server.tests.web.support import ConsoleUnderTest, spread, submit
from starforge.contract.ids import AttemptId, JobId
from starforge.contract.states import Reason
from starforge_console.ingest.presence import SILENT_S

LINES = b"".join(b"line %06d\n" % number for number in range(1, 30_001))
FAILED = b"step 1\n" * 2000 + b"Traceback (most recent call last):\n  File a\nKeyError: 'x'\n" + b"exit\n" * 2000


@pytest.fixture
def client(console: ConsoleUnderTest) -> TestClient:
    return sign_in(console, console.add_user("ann"))


@pytest.fixture
def job(console: ConsoleUnderTest) -> JobId:
    return submit(console, console.add_user("owner"))


def write(console: ConsoleUnderTest, job: JobId, content: bytes) -> str:
    attempt = begin(console, job).attempt
    assert attempt is not None
    console.logs.written[attempt] = content
    return attempt


def lines_of(page: str) -> list[int]:
    return [int(number) for number in re.findall(r'<li id="L(\d+)"', page)]


def test_a_page_opens_at_the_logs_end_and_is_walked_back_in_windows(
    console: ConsoleUnderTest, client: TestClient, job: JobId
) -> None:
    write(console, job, LINES)
    page = client.get(f"/jobs/{job}").text
    assert lines_of(page) == list(range(29_501, 30_001))
    earlier = re.search(r"line=(\d+)#L\d+\">Earlier", page)
    assert earlier is not None
    window = client.get(f"/jobs/{job}?line={earlier[1]}").text
    assert lines_of(window)[-1] == 29_500 + 1
    assert "Later lines" in window
    assert "Newest lines" in window
    assert "&amp;log=" not in window.split("data-live")[0].rpartition("hx-sse:connect")[2]
    first = client.get(f"/jobs/{job}?line=1").text
    assert lines_of(first)[0] == 1
    assert "Earlier lines" not in first


def test_a_link_leads_to_a_line_of_an_attempt(console: ConsoleUnderTest, client: TestClient, job: JobId) -> None:
    write(console, job, LINES)
    page = client.get(f"/jobs/{job}").text
    assert 'href="?attempt=1&amp;line=29700#L29700">29700</a>' in page
    assert '<li id="L123" class=" aim">' in client.get(f"/jobs/{job}?attempt=1&line=123").text


def test_the_first_error_is_found_wherever_it_stands(console: ConsoleUnderTest, client: TestClient, job: JobId) -> None:
    write(console, job, FAILED)
    page = client.get(f"/jobs/{job}?at=error").text
    assert '<li id="L2001" class="err aim">' in page
    part = client.get(f"/jobs/{job}/log/part?attempt=1&at=error").text
    assert 'data-target="2001"' in part
    assert lines_of(part)[0] == 1971


def test_a_log_without_an_error_says_so(console: ConsoleUnderTest, client: TestClient, job: JobId) -> None:
    write(console, job, b"all is well\n")
    assert "No line speaks of an error." in client.get(f"/jobs/{job}?at=error").text
    assert 'data-target=""' in client.get(f"/jobs/{job}/log/part?at=error").text


def test_a_search_looks_through_the_whole_log_and_leads_to_its_lines(
    console: ConsoleUnderTest, client: TestClient, job: JobId
) -> None:
    write(console, job, b"Needle <b>one</b>\n" + LINES + b"a needle two\n")
    page = client.get(f"/jobs/{job}", params={"find": "needle"}).text
    assert "2 lines hold “needle”." in page
    assert "<mark>Needle</mark> &lt;b&gt;one&lt;/b&gt;" in page
    assert f'href="/jobs/{job}?attempt=1&amp;line=30002&amp;find=needle#L30002"' in page
    part = client.get(f"/jobs/{job}/log/find", params={"attempt": 1, "find": "line 0299"}).text
    assert part.count("<mark>") == 100
    assert "Search on" in part
    following = re.search(r'data-next="(\d+)"', part)
    assert following is not None
    rest = client.get(f"/jobs/{job}/log/find", params={"find": "line 0299", "from": following[1]}).text
    assert 'data-next=""' in rest


def test_the_lines_of_one_rank_are_shown(console: ConsoleUnderTest, client: TestClient, job: JobId) -> None:
    write(console, job, b"[rank0]: a\n[rank1]: b\n[rank1]: c\n")
    page = client.get(f"/jobs/{job}?rank=1&find=").text
    assert "2 lines of rank 1." in page
    assert client.get(f"/jobs/{job}?rank=&find=").status_code == 200


def test_colours_are_classes_and_what_is_left_out_is_named(
    console: ConsoleUnderTest, client: TestClient, job: JobId
) -> None:
    write(console, job, b"\x1b[1;31mred\x1b[0m plain\n" + b"x" * 50_000 + b"\n")
    page = client.get(f"/jobs/{job}").text
    assert '<span class="t-bold t-red">red</span> plain' in page
    assert "of this line are left out" in page


def test_missing_bytes_stand_in_their_place(console: ConsoleUnderTest, client: TestClient, job: JobId) -> None:
    attempt = write(console, job, LINES)
    console.logs.lost[attempt] = (LINES.index(b"line 000100"), LINES.index(b"line 029900"))
    page = client.get(f"/jobs/{job}?line=90").text
    assert "are not here" in page
    assert lines_of(page)[-1] == 30_000
    assert '<li id="L29900"' in page


def test_the_log_is_downloaded_as_it_was_written(console: ConsoleUnderTest, client: TestClient, job: JobId) -> None:
    content = b"<b>\xff\x00\r\n" * 400_000
    write(console, job, content)
    answer = client.get(f"/jobs/{job}/log.txt")
    assert answer.content == content
    assert answer.headers["content-disposition"] == f'attachment; filename="{job}-1.log"'
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-length"] == str(len(content))


@pytest.mark.parametrize(
    ("asked", "status", "begin", "end"),
    [
        ("bytes=0-9", 206, 0, 10),
        ("bytes=5-", 206, 5, 31),
        ("bytes=30-99", 206, 30, 31),
        ("bytes=31-", 416, 0, 0),
        ("bytes=-4", 206, 27, 31),
    ],
)
def test_a_download_goes_on_where_it_was_cut(  # noqa: PLR0913, PLR0917 - the table's columns
    console: ConsoleUnderTest, client: TestClient, job: JobId, asked: str, status: int, begin: int, end: int
) -> None:
    attempt = write(console, job, b"0123456789" + b"lost" * 5 + b"abcdefghijklmnopqrstu")
    console.logs.lost[attempt] = (10, 30)
    kept = b"0123456789abcdefghijklmnopqrstu"
    whole = client.get(f"/jobs/{job}/log.txt")
    assert (whole.content, whole.headers["x-log-missing"]) == (kept, "10-30")
    answer = client.get(f"/jobs/{job}/log.txt", headers={"Range": asked, "If-Range": whole.headers["etag"]})
    assert (answer.status_code, answer.content if status == 206 else b"") == (status, kept[begin:end])
    stale = client.get(f"/jobs/{job}/log.txt", headers={"Range": "bytes=5-", "If-Range": '"other"'})
    assert (stale.status_code, stale.content) == (200, kept)


def test_the_log_is_downloaded_as_it_is_shown(console: ConsoleUnderTest, client: TestClient, job: JobId) -> None:
    attempt = write(console, job, b"1%\r2%\n\x1b[31mred\x1b[0m\nlost\nend")
    console.logs.lost[attempt] = (19, 24)
    answer = client.get(f"/jobs/{job}/log.txt?rendered=1")
    assert answer.text == "2%\nred\n[starforge: bytes 19 to 24 of this log are not here]\nend\n"
    assert answer.headers["content-disposition"].endswith('.txt"')


def test_the_log_of_another_attempt_is_chosen(console: ConsoleUnderTest, client: TestClient, job: JobId) -> None:
    first = go(console, begin(console, job), Reason.INTERRUPTED, retry_at=console.clock.now())
    second = retry(console, first)
    assert first.attempt is not None
    assert second.attempt is not None
    console.logs.written |= {first.attempt: b"of the first\n", second.attempt: b"of the second\n"}
    assert "of the second" in client.get(f"/jobs/{job}").text
    page = client.get(f"/jobs/{job}?attempt=1").text
    assert "of the first" in page
    assert "of the second" not in page


def test_a_log_that_comes_from_the_storage_alone_is_said_to_be_behind(
    console: ConsoleUnderTest, client: TestClient, job: JobId
) -> None:
    attempt = AttemptId(write(console, job, b"words\n"))

    def is_behind() -> bool:
        told = client.get(f"/api/v1/jobs/{job}", headers=reader).json()["log"]["from_spool"]
        assert told is ("Live view not available" in client.get(f"/jobs/{job}").text)
        return bool(told)

    reader = console.add_user("reader")
    assert not is_behind()
    console.clock.ahead_s += SILENT_S
    assert is_behind()
    console.services.presence.note(attempt)
    assert not is_behind()


def test_an_attempt_that_has_ended_is_not_said_to_be_behind(
    console: ConsoleUnderTest, client: TestClient, job: JobId
) -> None:
    go(console, begin(console, job), Reason.EXITED_ZERO)
    client.get(f"/jobs/{job}")
    console.clock.ahead_s += SILENT_S
    assert "Live view not available" not in client.get(f"/jobs/{job}").text


def test_what_each_node_printed_is_a_log_of_its_own(console: ConsoleUnderTest, client: TestClient, job: JobId) -> None:
    spread(console, job, nodes=2)  # which no fleet of this console runs
    attempt = write(console, job, b"rank 0 begins\n")
    console.logs.of_node(1).written[AttemptId(attempt)] = b"rank 8 begins\nrank 8: CUDA error: lost\n"
    first = client.get(f"/jobs/{job}").text
    assert "rank 0 begins" in first
    assert "rank 8" not in first
    assert f'href="/jobs/{job}?node=1#log-panel">Node 1</a>' in first
    second = client.get(f"/jobs/{job}?node=1").text
    assert lines_of(second) == [1, 2]
    assert "rank 0 begins" not in second
    assert 'href="?attempt=1&amp;node=1&amp;line=2#L2">2</a>' in second
    assert "&amp;node=1" in second.split("data-live")[0].rpartition("hx-sse:connect")[2]
    assert "CUDA" in client.get(f"/jobs/{job}/log/find?attempt=1&node=1&find=cuda").text
    assert 'data-target="2"' in client.get(f"/jobs/{job}/log/part?attempt=1&node=1&at=error").text
    download = client.get(f"/jobs/{job}/log.txt?attempt=1&node=1")
    assert download.text.startswith("rank 8 begins")
    assert f'filename="{job}-1-node-1.log"' in download.headers["content-disposition"]
    missing = client.get(f"/jobs/{job}?node=2")
    assert missing.status_code == 404
    assert "it runs on 2 nodes" in missing.text

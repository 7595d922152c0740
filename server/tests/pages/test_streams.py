import time
from collections.abc import Iterator

import httpx2
import pytest

from server.tests.pages.following import Follower, reader
from server.tests.web.lives import begin, go
from server.tests.web.serving import Served, serving
from server.tests.web.support import ConsoleUnderTest, submit
from server.tests.web.sweeping import build_sweep, sweep
from starforge.contract.capsule import STREAM_LOG
from starforge.contract.ids import JobId
from starforge.contract.states import Reason
from starforge_console.wakeups import job_topic, stream_topic
from starforge_console.web.sse import encode_event


@pytest.fixture
def clients() -> Iterator[list[httpx2.Client]]:
    """Clients that are closed once the server has ended, and with it their streams."""
    opened: list[httpx2.Client] = []
    yield opened
    for client in opened:
        client.close()


@pytest.fixture
def served(console: ConsoleUnderTest, clients: list[httpx2.Client]) -> Iterator[Served]:
    with serving(console) as running:
        running.clients = clients
        yield running


def running(console: ConsoleUnderTest) -> tuple[JobId, str]:
    """A running job and its attempt."""
    job = submit(console, console.add_user("owner"))
    attempt = begin(console, job).attempt
    assert attempt is not None
    return job, attempt


def write(console: ConsoleUnderTest, attempt: str, content: bytes) -> None:
    console.logs.written[attempt] = console.logs.written.get(attempt, b"") + content
    console.services.wakeups.notify(stream_topic(attempt, STREAM_LOG))


def test_an_event_is_one_block_whatever_stands_in_it() -> None:
    event = encode_event("one\r\ntwo\n\nid: 7", "3")
    assert event == b"id: 3\ndata: one\ndata: two\ndata: \ndata: id: 7\n\n"


def test_lines_are_told_as_they_come_and_the_place_goes_along(served: Served, console: ConsoleUnderTest) -> None:
    job, attempt = running(console)
    follower = Follower(reader(served, console), f"/live/jobs/{job}?attempt=1&log=0-1")
    follower.wait("Running")
    write(console, attempt, b"first\nnext, ")
    follower.wait("<code>first</code>")
    follower.wait("<code>next, </code>")
    write(console, attempt, b"whole\n")
    follower.wait("<code>next, whole</code>")
    assert follower.last_number.endswith(".1.18-3")


def test_who_comes_back_gets_what_was_missed_and_nothing_twice(served: Served, console: ConsoleUnderTest) -> None:
    job, attempt = running(console)
    client = reader(served, console)
    write(console, attempt, b"one\ntwo\n")
    first = Follower(client, f"/live/jobs/{job}?attempt=1&log=0-1")
    first.wait("<code>two</code>")
    write(console, attempt, b"three\n")
    first.wait("<code>three</code>")
    write(console, attempt, b"four\n")
    again = Follower(client, f"/live/jobs/{job}?attempt=1&log=0-1", last="1.1.8-3")
    again.wait("<code>four</code>")
    assert "<code>three</code>" in again.text
    assert "<code>two</code>" not in again.text


def test_a_state_is_told_with_its_reason(served: Served, console: ConsoleUnderTest) -> None:
    job = submit(console, console.add_user("owner"))
    follower = Follower(reader(served, console), f"/live/jobs/{job}")
    follower.wait("Queued")
    go(console, begin(console, job), Reason.OUT_OF_MEMORY)
    console.services.wakeups.notify(job_topic(job))
    follower.wait("out_of_memory")


def test_a_new_attempts_log_begins_at_its_beginning(served: Served, console: ConsoleUnderTest) -> None:
    job = submit(console, console.add_user("owner"))
    first = begin(console, job)
    assert first.attempt is not None
    write(console, first.attempt, b"of the first\n")
    follower = Follower(reader(served, console), f"/live/jobs/{job}?attempt=1&log=0-1")
    follower.wait("of the first")
    go(console, go(console, first, Reason.INTERRUPTED, retry_at=console.clock.now()), Reason.RETRIED)
    second = begin(console, job).attempt
    assert second is not None
    console.services.wakeups.notify(job_topic(job))
    write(console, second, b"of the second\n")
    follower.wait("of the second")


def test_a_row_is_told_when_its_job_changes_and_the_list_when_it_grows(
    served: Served, console: ConsoleUnderTest
) -> None:
    headers = console.add_user("owner")
    job = submit(console, headers)
    follower = Follower(reader(served, console), f"/live/jobs?jobs={job}&total=1")
    follower.wait("Queued")
    go(console, begin(console, job), Reason.EXITED_ZERO)
    console.services.wakeups.notify(job_topic(job))
    follower.wait("Succeeded")
    submit(console, headers)
    follower.wait("2 jobs now")


def test_a_row_of_a_sweep_is_told_with_its_values(served: Served, console: ConsoleUnderTest) -> None:
    told = sweep(console, console.client(console.add_user("owner")), build_sweep(name="rates"))
    job, alone = told["jobs"][1]["job"], submit(console, console.add_user("ann"))
    follower = Follower(reader(served, console), f"/live/jobs?jobs={job},{alone}&total=5&sweep={told['sweep']}")
    follower.wait("<code>lr=0.1 layers=4</code>")
    go(console, begin(console, JobId(job)), Reason.EXITED_ZERO)
    console.services.wakeups.notify(job_topic(job))
    follower.wait("Succeeded")


def test_a_reader_far_behind_is_taken_to_the_end(served: Served, console: ConsoleUnderTest) -> None:
    job, attempt = running(console)
    write(console, attempt, b"old line\n" * 300_000 + b"newest\n")
    follower = Follower(reader(served, console), f"/live/jobs/{job}?attempt=1&log=0-1")
    follower.wait("<code>newest</code>")
    assert "were passed over" in follower.text
    assert len(follower.text) < 2_000_000


def test_a_job_that_is_deleted_ends_its_stream_with_a_word(served: Served, console: ConsoleUnderTest) -> None:
    headers = console.add_user("owner")
    job = submit(console, headers)
    follower = Follower(reader(served, console), f"/live/jobs/{job}")
    follower.wait("Queued")
    with served.client(headers) as owner:
        owner.post(f"/api/v1/jobs/{job}/stop", json={})
        assert owner.delete(f"/api/v1/jobs/{job}").status_code == 204
    follower.wait("This job was deleted")
    follower.wait("event: over")
    follower.wait_end()


def test_streams_end_when_the_console_ends(served: Served, console: ConsoleUnderTest) -> None:
    job, _ = running(console)
    followers = [
        Follower(reader(served, console, f"reader{n}"), f"/live/jobs/{job}?attempt=1&log=0-1") for n in range(3)
    ]
    for follower in followers:
        follower.wait("Running")
    began = time.monotonic()
    served.stop()
    for follower in followers:
        follower.wait_end()
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("path", ["/live/jobs", "/live/jobs/jaaaaaaaaa"])
def test_without_a_session_there_is_no_stream(console: ConsoleUnderTest, path: str) -> None:
    answer = console.client().get(path)
    assert answer.status_code == 401
    assert answer.headers["content-type"].startswith("text/plain")


def test_an_unknown_job_has_no_stream(served: Served, console: ConsoleUnderTest) -> None:
    assert reader(served, console).get("/live/jobs/jaaaaaaaaa").status_code == 404

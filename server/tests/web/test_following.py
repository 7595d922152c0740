import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

import httpx2

from server.tests.web.lives import begin, go, retry
from server.tests.web.serving import Served, serving
from server.tests.web.support import ConsoleUnderTest, submit
from starforge.contract.capsule import STREAM_LOG
from starforge.contract.states import Reason
from starforge_console.wakeups import job_topic, stream_topic

LONG_S = 30


def log_headers(answer: httpx2.Response) -> tuple[str | None, str | None, str | None, str | None]:
    names = ("X-Log-Attempt", "X-Log-Received-To", "X-Log-Ended", "X-Log-Next-Attempt")
    attempt, received, ended, following = (answer.headers.get(name) for name in names)
    return attempt, received, ended, following


def test_a_job_without_an_attempt_has_an_empty_log_that_goes_on(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    client = console.client(headers)
    assert log_headers(client.get(f"/api/v1/jobs/{job}/log")) == (None, "0", "false", None)
    client.post(f"/api/v1/jobs/{job}/stop", json={})
    assert log_headers(client.get(f"/api/v1/jobs/{job}/log")) == (None, "0", "true", None)


def test_the_log_is_read_from_an_offset_as_raw_bytes(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    attempt = begin(console, job).attempt
    assert attempt is not None
    console.logs.written[attempt] = b"\xff\x00\rstep 1\n"
    answer = console.client(headers).get(f"/api/v1/jobs/{job}/log", params={"offset": 3})
    assert answer.content == b"step 1\n"
    assert answer.headers["content-type"] == "application/octet-stream"
    assert log_headers(answer) == ("1", "10", "false", None)


def test_a_log_that_a_retry_will_add_to_has_not_ended(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    failed = go(console, begin(console, job), Reason.INTERRUPTED, retry_at=console.clock.now() + 60)
    assert failed.attempt is not None
    console.logs.ended.add(failed.attempt)
    client = console.client(headers)
    assert log_headers(client.get(f"/api/v1/jobs/{job}/log")) == ("1", "0", "false", None)
    # Whoever names the attempt asks about that attempt alone.
    assert log_headers(client.get(f"/api/v1/jobs/{job}/log", params={"attempt": 1})) == ("1", "0", "true", None)


def test_the_end_of_an_attempts_log_names_the_attempt_that_follows(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    failed = go(console, begin(console, job), Reason.INTERRUPTED, retry_at=console.clock.now())
    assert failed.attempt is not None
    console.logs.ended.add(failed.attempt)
    second = retry(console, failed)
    client = console.client(headers)
    assert log_headers(client.get(f"/api/v1/jobs/{job}/log", params={"attempt": 1})) == ("1", "0", "true", "2")
    assert log_headers(client.get(f"/api/v1/jobs/{job}/log")) == ("2", "0", "false", None)
    go(console, second, Reason.EXITED_ZERO)
    assert second.attempt is not None
    console.logs.ended.add(second.attempt)
    assert log_headers(client.get(f"/api/v1/jobs/{job}/log")) == ("2", "0", "true", None)
    assert client.get(f"/api/v1/jobs/{job}/log", params={"attempt": 3}).status_code == 404


def test_a_reader_that_waits_is_told_of_new_bytes(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    attempt = begin(console, job).attempt
    assert attempt is not None
    with serving(console) as served:
        waiting = ask(served, headers, f"/api/v1/jobs/{job}/log?wait_s={LONG_S}")

        def write() -> None:
            console.logs.written[attempt] = b"hello\n"
            console.services.wakeups.notify(stream_topic(attempt, STREAM_LOG))

        answer = poke(waiting, write)
    assert answer.content == b"hello\n"


def test_a_reader_that_waits_is_told_of_new_events(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    with serving(console) as served, served.client(headers) as client:
        seen = client.get(f"/api/v1/jobs/{job}/events").json()["items"][-1]["number"]
        waiting = ask(served, headers, f"/api/v1/jobs/{job}/events?after={seen}&wait_s={LONG_S}")
        started = begin(console, job)
        answer = poke(waiting, lambda: console.services.wakeups.notify(job_topic(job)))
        assert started.attempt is not None
        assert answer.json()["items"][0]["state"] == "SUBMITTED"


def test_a_wait_without_news_ends_by_itself(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    with serving(console) as served, served.client(headers) as client:
        number = client.get(f"/api/v1/jobs/{job}/events").json()["items"][-1]["number"]
        answer = client.get(f"/api/v1/jobs/{job}/events", params={"after": number, "wait_s": 0.2})
    assert answer.json() == {"items": []}


def test_waits_end_cleanly_when_the_console_ends(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    begin(console, job)
    with serving(console) as served:
        waiting = [ask(served, headers, f"/api/v1/jobs/{job}/log?wait_s={LONG_S}") for _ in range(20)]
        await_readers(console, job_topic(job), len(waiting))
        began = time.monotonic()
        served.stop()
        served.thread.join(LONG_S)
        took_s = time.monotonic() - began
        answers = [answer.result(LONG_S) for answer in waiting]
    assert {answer.status_code for answer in answers} == {200}
    assert took_s < LONG_S / 2, "it waited for its readers"


def await_readers(console: ConsoleUnderTest, topic: str, count: int) -> None:
    """Until so many requests wait for the topic."""
    deadline, pause = time.monotonic() + LONG_S, threading.Event()
    while len(console.services.wakeups._waiters.get(topic, ())) < count:
        assert time.monotonic() < deadline, "the requests did not arrive"
        pause.wait(0.01)


def ask(served: Served, headers: dict[str, str], path: str) -> "Future[httpx2.Response]":
    """Send a request from a thread of its own; returns once it is on its way."""
    answer: Future[httpx2.Response] = Future()
    sending = threading.Event()

    def send() -> None:
        with served.client(headers) as client:
            client.get("/healthz")  # the connection stands
            sending.set()
            try:
                answer.set_result(client.get(path))
            except httpx2.HTTPError as error:
                answer.set_exception(error)

    threading.Thread(target=send, daemon=True).start()
    assert sending.wait(LONG_S)
    return answer


def poke(waiting: "Future[httpx2.Response]", tell: Callable[[], None]) -> httpx2.Response:
    """Tell what there is, again and again, until the answer has come: the request may not wait yet the first time."""
    deadline = time.monotonic() + LONG_S / 2
    while True:
        tell()
        try:
            return waiting.result(0.05)
        except TimeoutError:
            assert time.monotonic() < deadline, "nobody told the reader"

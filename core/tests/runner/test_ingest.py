"""Sending to ingest: catching up, backing off, stopping for good; the spool always holds everything."""

import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.tests.runner.conftest import TOKEN
from core.tests.runner.support.attempt import Attempt, find_interpreters, until
from core.tests.runner.support.ingest import Ingest
from starforge.contract import capsule as contract
from starforge.runner.sender import BACKOFF_CAP_S, Sender
from starforge.runner.spool import Spool, Stream
from starforge.runner.wishes import Wishes

FIXTURES = Path(__file__).parent / "fixtures"
AWAY_S = 600.0
SLOW = "import time\nfor i in range(10): print('line', i, flush=True); time.sleep(0.05)"


@pytest.fixture
def closed_port() -> Iterator[int]:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound and not listening: every connection is refused
        yield held.getsockname()[1]


def test_the_spool_holds_everything_when_ingest_never_answers(attempt: Attempt, closed_port: int) -> None:
    attempt.secret("ingest-token", TOKEN)
    attempt.python("print('alone'); raise SystemExit(4)", ingest=contract.Ingest(f"http://127.0.0.1:{closed_port}"))

    assert attempt.run(timeout_s=40) == 4
    assert attempt.log() == b"alone\n"
    assert attempt.record().offsets["log"] == 6


def test_after_an_outage_the_sender_catches_up(tmp_path: Path) -> None:
    spool, wishes = make_spool(tmp_path)
    sender = Sender(spool, wishes, lambda: None)
    spool.on_append = sender.wake
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    sender.start(contract.Ingest(f"http://127.0.0.1:{port}"), TOKEN)
    spool.log(b"written while ingest was away\n" * 100_000)
    spool.event("note", message="x")
    served = Ingest(TOKEN, port)
    try:
        until(lambda: len(served.streams.get("log", b"")) == 3_000_000, "the whole log")
        assert sender.finish({"code": 0}, 10)
    finally:
        served.close()
    assert served.streams["log"] == Path(spool.streams["log"].path).read_bytes()
    assert served.gzip_seen
    assert served.exits == [{"code": 0}]


def test_an_outage_of_many_minutes_costs_few_requests_and_no_byte(tmp_path: Path) -> None:
    """Minutes pass on a clock of the test's own, while the job goes on writing."""
    spool, wishes = make_spool(tmp_path)
    sender = Sender(spool, wishes, lambda: None)
    waits: list[float] = []
    over, is_back = threading.Event(), threading.Event()

    def let_pass(seconds: float) -> None:
        if over.is_set():
            is_back.wait(20)
            return
        waits.append(seconds)
        spool.log(b"written while ingest was away\n")
        spool.metrics(b'{"step":%d,"values":{"a":1}}\n' % len(waits))
        if sum(waits) >= AWAY_S:
            over.set()
            is_back.wait(20)

    sender.sleep = let_pass
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    spool.log(b"before\n")
    sender.start(contract.Ingest(f"http://127.0.0.1:{port}"), TOKEN)
    assert over.wait(20)
    assert max(waits) == BACKOFF_CAP_S
    assert len(waits) < 1.2 * AWAY_S / BACKOFF_CAP_S
    served = Ingest(TOKEN, port)
    try:
        is_back.set()
        assert sender.finish({"code": 0}, 20)
    finally:
        served.close()
    assert served.streams == {
        name: Path(spool.streams[name].path).read_bytes() for name in (contract.STREAM_LOG, contract.STREAM_METRICS)
    }
    assert served.streams["log"].count(b"away") == len(waits)
    assert served.exits == [{"code": 0}]


@pytest.mark.parametrize("answer", [(429, {"Retry-After": "0.1"}), (503, {}), (500, {})])
def test_ingest_that_asks_for_patience_gets_everything_later(
    attempt: Attempt, ingest: Ingest, answer: tuple[int, dict[str, str]]
) -> None:
    ingest.answers = [answer] * 3
    assert attempt.python(SLOW, ingest=contract.Ingest(ingest.url)).run() == 0
    assert ingest.streams["log"] == attempt.log()
    assert len(ingest.exits) == 1


@pytest.mark.parametrize("status", [401, 403, 410])
def test_a_refused_token_ends_the_sending_and_nothing_else(attempt: Attempt, ingest: Ingest, status: int) -> None:
    ingest.answers = [(status, {})]
    assert attempt.python(SLOW, ingest=contract.Ingest(ingest.url)).run() == 0
    assert ingest.requests == 1
    assert ingest.streams == {}
    assert attempt.log().count(b"line") == 10
    assert attempt.events("note")[0]["code"] == "ingest_over"


def test_ingest_that_has_more_already_is_not_sent_it_again(attempt: Attempt, ingest: Ingest) -> None:
    ingest.streams["log"] = b"line 0\n"
    assert attempt.python(SLOW, ingest=contract.Ingest(ingest.url)).run() == 0
    assert ingest.streams["log"] == attempt.log()


def test_a_body_that_is_too_large_is_sent_in_smaller_ones(attempt: Attempt, ingest: Ingest) -> None:
    ingest.answers = [(413, {})]
    assert attempt.python("print('z' * 500_000)", ingest=contract.Ingest(ingest.url)).run() == 0
    assert ingest.streams["log"] == attempt.log()


def test_ingest_that_acknowledges_nothing_is_not_pressed(tmp_path: Path, ingest: Ingest) -> None:
    ingest.take = lambda *_: (200, {"received_to": 0, "desired": "run"})  # type: ignore[method-assign]  # our own server
    spool, wishes = make_spool(tmp_path)
    spool.log(b"x")
    sender = Sender(spool, wishes, lambda: None)
    sender.start(contract.Ingest(ingest.url), TOKEN)

    assert sender.finish({}, 2.5) is False
    assert 1 <= ingest.requests <= 4


class GrowingStream(Stream):
    """One to which another thread writes a line right after it was found to have no more."""

    line = b'{"step": 1}\n'

    def read(self, offset: int, most_bytes: int) -> bytes:
        body = super().read(offset, most_bytes)
        if self.size_bytes == 0:
            self.append(self.line)
        return body


def test_a_line_that_is_written_between_two_looks_is_sent_and_does_not_count_as_cut(
    tmp_path: Path, ingest: Ingest
) -> None:
    spool, wishes = make_spool(tmp_path)
    spool.streams["metrics"] = GrowingStream(str(tmp_path / "metrics.jsonl"))
    sender = Sender(spool, wishes, lambda: None)
    sender.start(contract.Ingest(ingest.url), TOKEN)
    until(lambda: spool.streams["metrics"].size_bytes, "the line to be written")
    sender.wake()
    until(lambda: "metrics" in ingest.streams, "the line to be sent")
    assert sender.finish({}, 20)
    assert ingest.streams == {"metrics": GrowingStream.line}


def test_an_idle_job_is_heard_of(attempt: Attempt, ingest: Ingest) -> None:
    process = attempt.python("import time; time.sleep(60)", ingest=contract.Ingest(ingest.url)).start()
    until(lambda: ingest.heartbeats, "a heartbeat")
    process.terminate()
    process.communicate(timeout=20)


def test_an_address_without_transport_is_named_and_the_job_runs(attempt: Attempt) -> None:
    attempt.secret("ingest-token", TOKEN)
    assert attempt.python("print(1)", ingest=contract.Ingest("ftp://somewhere")).run() == 0
    assert "neither http:// nor https://" in attempt.events("note")[0]["message"]


def test_metrics_and_events_travel_in_whole_lines(tmp_path: Path) -> None:
    spool, wishes = make_spool(tmp_path)
    served = Ingest(TOKEN)
    bodies: list[bytes] = []
    take = served.take

    def watch(stream: str, offset: int, body: bytes) -> tuple[int, dict[str, object]]:
        bodies.append(body)
        return take(stream, offset, body)

    served.take = watch  # type: ignore[method-assign]  # the test's own server
    try:
        spool.metrics(b'{"step":1,"values":{"a":1}}\n' * 80_000)
        sender = Sender(spool, wishes, lambda: None)
        sender.start(contract.Ingest(served.url), TOKEN)
        assert sender.finish({}, 10)
    finally:
        served.close()
    assert len(bodies) > 1
    assert all(body.endswith(b"\n") and len(body) <= 1 << 20 for body in bodies)


def make_spool(tmp_path: Path) -> tuple[Spool, Wishes]:
    return Spool(str(tmp_path / "spool"), []), Wishes(str(tmp_path / "control.json"), 1.0)


def build_server_side() -> ssl.SSLContext:
    """Build what a server on 127.0.0.1 needs; the certificate is its own authority, valid until 2120."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FIXTURES / "loopback.crt", FIXTURES / "loopback.key")
    return context


@pytest.mark.interpreters
@pytest.mark.parametrize("interpreter", find_interpreters())
def test_the_capsules_authority_is_trusted(attempt: Attempt, interpreter: str) -> None:
    pem = (FIXTURES / "loopback.crt").read_text()
    served = Ingest(TOKEN, context=build_server_side())
    attempt.secret("ingest-token", TOKEN).python("print('x')", ingest=contract.Ingest(served.url, pem))
    try:
        assert attempt.run(interpreter) == 0
    finally:
        served.close()
    assert served.streams["log"] == b"x\n"


def test_another_authority_is_not(tmp_path: Path) -> None:
    served = Ingest(TOKEN, context=build_server_side())
    spool, wishes = make_spool(tmp_path)
    spool.log(b"x")
    sender = Sender(spool, wishes, lambda: None)
    try:
        sender.start(contract.Ingest(served.url), TOKEN)
        assert sender.finish({}, 1.0) is False
    finally:
        served.close()
    assert served.requests == 0


def test_a_round_that_fails_in_any_way_is_noted_once_and_followed_by_others(tmp_path: Path, ingest: Ingest) -> None:
    rung = []

    def ring() -> None:
        rung.append(1)
        if len(rung) < 3:
            raise ZeroDivisionError("nobody thought of this")

    spool, wishes = make_spool(tmp_path)
    sender = Sender(spool, wishes, ring)
    ingest.desired = "stop"
    sender.start(contract.Ingest(ingest.url), TOKEN)
    until(lambda: len(rung) >= 3, "a third round")
    assert sender.finish({"code": 0}, 20)
    assert ingest.streams["events"].count(b"nobody thought of this") == 1

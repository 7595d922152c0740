"""Whatever is sent to ingest, by accident or in anger: each byte counts once, and the job ends as it did."""

import gzip
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from e2e.badinput.calls import Answer, Caller
from e2e.badinput.yard import Yard
from e2e.support.console import wait_for

pytestmark = pytest.mark.engine

STREAMS = "/api/ingest/v1/streams"
LINES = 'for i in {1..500}; do echo "line $i"; done; while [ ! -e "$FORGE_OUT_DIR/go" ]; do sleep 0.1; done; echo last'
WHOLE = "".join(f"line {i}\n" for i in range(1, 501)) + "last\n"
MEBIBYTE = 1 << 20
SLOWEST_S = 45.0


class Sender:
    """One running attempt and its own token."""

    def __init__(self, yard: Yard) -> None:
        self.yard = yard
        self.job = yard.begin(LINES)
        self.caller = Caller(yard.console.ingest_port, yard.ingest_token(self.job))
        self.spool = yard.run_folder(self.job) / "attempts" / "1" / "spool" / "log.bin"
        wait_for(lambda: self.spool.exists() and b"line 500\n" in self.spool.read_bytes(), "the job to write")
        self.sent = self.spool.read_bytes()
        wait_for(lambda: self.received() == len(self.sent), "the runner to send it")

    def received(self) -> int:
        return int(self.yard.probe.detail(self.job)["log"]["received_bytes"])

    def send(self, offset: object, content: bytes, stream: str = "log", **headers: str) -> Answer:
        return self.caller.call("POST", f"{STREAMS}/{stream}?offset={offset}", content, headers)

    def finish(self) -> None:
        """Let the job end; nothing is lost and nothing doubled."""
        (self.yard.out(self.job) / "go").touch()
        detail = self.yard.probe.wait_end(self.job)
        assert detail["job"]["state"] == "SUCCEEDED"
        assert detail["log"]["received_bytes"] == detail["log"]["produced_bytes"] == len(WHOLE)
        assert self.yard.probe.log(self.job) == WHOLE


@pytest.fixture(scope="module")
def shared_sender(shared_yard: Yard) -> Iterator[Sender]:
    made = Sender(shared_yard)
    yield made
    made.finish()


@pytest.fixture(scope="module")
def slow(shared_sender: Sender) -> Iterator[Mapping[str, Future[bool]]]:
    """Bodies that hardly move, on their way while the module's tests run: each tells whether it was given up on."""
    api = shared_sender.yard.api
    ways = {
        "ingest": (shared_sender.caller, "POST", f"{STREAMS}/log?offset=0"),
        "api": (api, "POST", "/api/v1/jobs"),
        "blob": (api, "PUT", "/api/v1/blobs/sha256:" + "1" * 64),
    }
    with ThreadPoolExecutor(len(ways)) as pool:
        yield {
            name: pool.submit(caller.trickle, method, path, 1000, SLOWEST_S)
            for name, (caller, method, path) in ways.items()
        }


@pytest.fixture
def sender(shared_sender: Sender, slow: Mapping[str, Future[bool]]) -> Iterator[Sender]:
    """One attempt for all tests; after each it runs as before, and not one byte of its log is another."""
    del slow  # whatever a test does, others hold the console up at the same time
    yield shared_sender
    assert shared_sender.yard.probe.state(shared_sender.job) == "RUNNING"
    assert shared_sender.yard.probe.log(shared_sender.job).encode() == shared_sender.sent


def test_batches_sent_twice_late_and_overlapping_change_nothing(sender: Sender) -> None:
    for start, end in ((0, 100), (0, 100), (50, 1000), (999, 1001), (0, len(sender.sent)), (7, 8)):
        answer = sender.send(start, sender.sent[start:end])
        assert (answer.status, answer.body["received_to"]) == (200, len(sender.sent))
    assert sender.received() == len(sender.sent)


def test_a_batch_from_the_future_is_told_where_to_go_on(sender: Sender) -> None:
    answer = sender.send(len(sender.sent) + 1000, b"from the future")
    assert (answer.status, answer.code) == (409, "stream_gap")
    assert answer.body["received_to"] == len(sender.sent)


def test_other_bytes_in_the_place_of_received_ones_are_not_taken(sender: Sender) -> None:
    assert sender.send(0, b"x" * len(sender.sent)).status == 200


@pytest.mark.parametrize("stream", ["log", "metrics", "events"])
def test_a_body_that_is_too_large_is_refused(sender: Sender, stream: str) -> None:
    answer = sender.send(0, b"\n" * (65 * MEBIBYTE), stream)
    assert (answer.status, answer.code) == (413, "too_large")


def test_a_gzip_bomb_is_refused_before_it_is_unpacked(sender: Sender) -> None:
    bomb = gzip.compress(b"\0" * (256 * MEBIBYTE), 9)
    answer = sender.send(0, bomb, **{"Content-Encoding": "gzip"})
    assert (answer.status, answer.code) == (413, "too_large")


@pytest.mark.parametrize("body", [b"no gzip", gzip.compress(b"half")[:-4], gzip.compress(b"whole") + b"and more"])
def test_a_body_that_is_no_whole_gzip_is_refused(sender: Sender, body: bytes) -> None:
    answer = sender.send(0, body, **{"Content-Encoding": "gzip"})
    assert answer.status == 422
    assert "gzip" in answer.words


@pytest.mark.parametrize(
    "stream",
    ["..%2f..%2fetc%2fpasswd", "../../../../etc/passwd", "log%00", "log/../events", "%2e%2e", "Log", "x" * 5000],
)
def test_a_stream_whose_name_is_a_trick_does_not_exist(sender: Sender, stream: str) -> None:
    assert sender.send(0, b"x\n", stream).status == 404


@pytest.mark.parametrize("offset", ["-1", "1e3", "", "0x10", "9" * 30, "%D9%A1", "0&offset=5000", " 0"])
def test_an_offset_that_is_no_count_of_bytes_is_refused(sender: Sender, offset: str) -> None:
    answer = sender.send(offset.replace(" ", "%20"), b"x")
    assert answer.status in {409, 422}


def test_lines_nested_without_end_are_passed_over_and_told_of(sender: Sender) -> None:
    deep = b'{"step": 1, "values": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    for stream in ("metrics", "events"):
        received = sender.caller.call("POST", f"{STREAMS}/{stream}?offset=0", deep)
        assert received.status in {200, 409}, received
    document = b"[" * 60_000
    assert sender.caller.call("POST", "/api/ingest/v1/exit", document).status == 422


def test_bodies_that_come_too_slowly_are_given_up_on_and_others_are_served_meanwhile(
    sender: Sender, slow: Mapping[str, Future[bool]]
) -> None:
    assert sender.send(0, sender.sent[:10]).status == 200
    assert sender.yard.api.call("GET", "/api/v1/jobs").status == 200
    assert {name: given_up.result() for name, given_up in slow.items()} == dict.fromkeys(slow, True)

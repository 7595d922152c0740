import asyncio
import contextlib
import gzip
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from backports import zstd

from server.tests.ingest.builders import event_line, guard, metrics_line, run
from server.tests.ingest.http import TOKEN, Served, serve
from server.tests.ledger.builders import wish_stop
from starforge.contract.capsule import ExitRecord, Ingest
from starforge.runner.sender import Sender
from starforge.runner.spool import Spool
from starforge.runner.wishes import Wishes
from starforge_console.domain.tokens import hash_token
from starforge_console.ledger.endings import end_token
from starforge_console.wakeups import BACKEND
from starforge_console.web.room import Room


def _exit_record(attempt: str) -> dict[str, Any]:
    return ExitRecord(
        version="1.0",
        attempt=attempt,
        code=0,
        signal=None,
        term_received_at=None,
        desired="run",
        complete=None,
        reason=None,
        message=None,
        started_at=1.0,
        ended_at=2.0,
    ).to_json()


def test_a_stream_is_taken_and_the_answer_tells_the_wish(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with serve(tmp_path) as served:
            answer = await served.client.post("/streams/log?offset=0", content=b"hello")
            assert answer.status_code == 200
            assert answer.json() == {"received_to": 5, "desired": "run", "grace_s": None}
            zipped = gzip.compress(b"hello again")
            answer = await served.client.post(
                "/streams/log?offset=0", content=zipped, headers={"Content-Encoding": "gzip"}
            )
            assert answer.json()["received_to"] == 11
            assert await served.site.log_bytes(served.attempt) == b"hello again"
            assert served.presence.silent_for_s(served.attempt.id) == 0

    run(_scenario())


def test_a_gap_is_told_with_where_to_go_on(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with serve(tmp_path) as served:
            await served.client.post("/streams/log?offset=0", content=b"hello")
            answer = await served.client.post("/streams/log?offset=9", content=b"x")
            assert answer.status_code == 409
            assert answer.json()["received_to"] == 5

    run(_scenario())


def test_a_heartbeat_hears_of_a_stop(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with serve(tmp_path) as served:
            site, job = served.site, served.attempt.job
            await site.stores.ledger.write(lambda c: wish_stop(c, job, 40.0, guard(site.clock.at)))
            answer = await served.client.post("/heartbeat")
            assert answer.json() == {"received_to": None, "desired": "stop", "grace_s": 40.0}

    run(_scenario())


def test_an_exit_record_wakes_the_loops(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with serve(tmp_path) as served:
            waiter = served.site.wakeups.subscribe(BACKEND)
            answer = await served.client.post("/exit", json=_exit_record(served.attempt.id))
            assert answer.status_code == 200
            assert await waiter.wait(5)
            other = await served.client.post("/exit", json=_exit_record("j2222222222-1-abcdef"))
            assert other.status_code == 422
            for broken in (b"", b"{}", b"[" * 50_000, b"\xff"):
                assert (await served.client.post("/exit", content=broken)).status_code == 422

    run(_scenario())


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer sfa_other", "Basic " + TOKEN, "Bearer " + "x" * 5000])
def test_a_request_without_the_right_token_is_refused(tmp_path: Path, header: str) -> None:
    async def _scenario() -> None:
        async with serve(tmp_path) as served:
            answer = await served.client.post("/heartbeat", headers={"Authorization": header})
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert answer.json()["code"] == "token_refused"

    run(_scenario())


def test_an_ended_attempt_is_told_to_stop_sending(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with serve(tmp_path) as served:
            await served.site.stores.ledger.write(lambda c: end_token(c, served.attempt.id, served.site.clock.at))
            assert (await served.client.post("/streams/log?offset=0", content=b"x")).status_code == 410

    run(_scenario())


@pytest.mark.parametrize(
    "address", ["/streams/log", "/streams/log?offset=-1", "/streams/log?offset=1_0", "/streams/log?offset=" + "9" * 30]
)
def test_an_offset_that_is_no_count_is_refused(tmp_path: Path, address: str) -> None:
    async def _scenario() -> None:
        async with serve(tmp_path) as served:
            assert (await served.client.post(address, content=b"x")).status_code == 422

    run(_scenario())


def test_what_is_not_served_is_told_as_a_problem(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with serve(tmp_path) as served:
            unknown = await served.client.post("/streams/secrets?offset=0", content=b"x")
            nowhere = await served.client.post("/nowhere")
            reading = await served.client.get("/heartbeat")
            assert [unknown.status_code, nowhere.status_code, reading.status_code] == [404, 404, 405]
            for answer in (unknown, nowhere, reading):
                assert answer.headers["content-type"] == "application/problem+json"

    run(_scenario())


async def _endless() -> AsyncIterator[bytes]:
    for _ in range(64):
        yield b"x" * (1 << 16)


def test_more_than_a_body_may_hold_is_refused_however_it_is_packed(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with serve(tmp_path) as served:
            bomb = gzip.compress(b"\0" * (200 << 20), compresslevel=9)
            plain = await served.client.post("/streams/log?offset=0", content=b"x" * ((1 << 20) + 1))
            zipped = await served.client.post(
                "/streams/log?offset=0", content=bomb, headers={"Content-Encoding": "gzip"}
            )
            streamed = await _post_endless(served)
            assert [plain.status_code, zipped.status_code, streamed] == [413, 413, 413]
            assert (await served.client.post("/streams/log?offset=0", content=b"x" * (1 << 20))).status_code == 200

    run(_scenario())


async def _post_endless(served: Served) -> int:
    return (await served.client.post("/streams/log?offset=0", content=_endless())).status_code


@pytest.mark.parametrize(
    ("body", "encoding", "status"),
    [
        (b"no gzip", "gzip", 422),
        (gzip.compress(b"cut short" * 100)[:-9], "gzip", 422),
        (gzip.compress(b"one") + gzip.compress(b"two"), "gzip", 422),
        (b"no zstd", "zstd", 422),
        (zstd.compress(b"cut short" * 100)[:-9], "zstd", 422),
        (zstd.compress(b"one") + zstd.compress(b"two"), "zstd", 422),
        (b"x", "br", 415),
    ],
    ids=[
        *("no gzip", "gzip cut short", "two gzip streams"),
        *("no zstd", "zstd cut short", "two zstd streams", "another encoding"),
    ],
)
def test_a_body_that_cannot_be_unpacked_is_refused(tmp_path: Path, body: bytes, encoding: str, status: int) -> None:
    async def _scenario() -> None:
        async with serve(tmp_path) as served:
            answer = await served.client.post(
                "/streams/log?offset=0", content=body, headers={"Content-Encoding": encoding}
            )
            assert answer.status_code == status
            assert await served.site.log_bytes(served.attempt) == b""

    run(_scenario())


def test_too_much_at_once_is_asked_to_come_again(tmp_path: Path) -> None:
    async def _scenario() -> None:
        room = Room(limit=1000, share=1000)
        async with serve(tmp_path, room) as served:
            with room.hold("another attempt") as hold:
                hold.grow(900)
                answer = await served.client.post("/streams/log?offset=0", content=b"x" * 200)
            assert answer.status_code == 429
            assert answer.headers["retry-after"] == "1"
            assert (await served.client.post("/streams/log?offset=0", content=b"x" * 200)).status_code == 200

    run(_scenario())


def test_an_attempt_that_sends_slowly_leaves_room_for_the_others(tmp_path: Path) -> None:
    async def _scenario() -> None:
        room = Room(limit=8000, share=1000)
        async with serve(tmp_path, room) as served, contextlib.AsyncExitStack() as stack:
            other = await served.site.start_attempt(hash_token("sfa_of-another"))
            answers = [await stack.enter_async_context(_half_sent(served)) for _ in range(20)]
            refused = [reader for reader in answers if reader.at_eof() or await _has_answer(reader)]
            assert len(refused) == 18
            headers = {"Authorization": "Bearer sfa_of-another"}
            sent = await served.client.post("/streams/log?offset=0", content=b"x" * 900, headers=headers)
            assert sent.json()["received_to"] == 900
            assert served.presence.silent_for_s(other.id) == 0

    run(_scenario())


@contextlib.asynccontextmanager
async def _half_sent(served: Served) -> AsyncIterator[asyncio.StreamReader]:
    """A request of which 400 of 800 bytes were sent, and were read if there was room for them."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(served.url.rsplit(":", 1)[1]))
    head = f"POST /api/ingest/v1/streams/log?offset=0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
    writer.write(f"{head}Content-Length: 800\r\n\r\n".encode() + b"x" * 400)
    await writer.drain()
    with contextlib.closing(writer):
        yield reader


async def _has_answer(reader: asyncio.StreamReader) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.3):
            return b" 429 " in await reader.readline()
    return False


def test_an_attempt_whose_requests_come_to_nothing_is_not_heard_of(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with serve(tmp_path) as served:
            await served.client.post("/heartbeat")
            served.site.clock.at += 10
            for _ in range(3):
                assert (await served.client.post("/streams/log?offset=9", content=b"x")).status_code == 409
            assert served.presence.silent_for_s(served.attempt.id) == 10
            assert (await served.client.post("/streams/log?offset=0", content=b"x")).status_code == 200
            assert served.presence.silent_for_s(served.attempt.id) == 0

    run(_scenario())


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(str(tmp_path / "spool"), [])


def test_the_runners_sender_and_ingest_understand_one_another(tmp_path: Path, spool: Spool) -> None:
    log = bytes(range(256)) * 9000
    spool.event("started")
    spool.log(log)
    spool.metrics(b"".join(metrics_line(step, 1 / step) for step in range(1, 200)))

    async def _scenario() -> None:
        async with serve(tmp_path) as served:
            sender = Sender(spool, Wishes(str(tmp_path / "control.json"), 30.0), threading.Event().set)
            sender.start(Ingest(served.url), TOKEN)
            record = _exit_record(served.attempt.id)
            assert await asyncio.to_thread(sender.finish, record, 20.0)
            assert await served.site.log_bytes(served.attempt) == log
            assert len(await served.site.points(served.attempt, "loss")) == 199
            assert await served.site.notes(served.attempt) == ["training process started"]

    run(_scenario())


def test_a_sender_that_leaves_in_the_middle_keeps_nothing(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with serve(tmp_path) as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(served.url.rsplit(":", 1)[1]))
            head = f"POST /api/ingest/v1/streams/log?offset=0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
            writer.write(f"{head}Content-Length: 100\r\n\r\nhalf".encode())
            await writer.drain()
            writer.close()
            await writer.wait_closed()
            assert await reader.read() == b""
            answer = await served.client.post("/streams/log?offset=0", content=b"whole")
            assert answer.json()["received_to"] == 5

    run(_scenario())


def test_refusals_are_counted(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with serve(tmp_path) as served:
            await served.client.post("/streams/log?offset=9", content=b"x")
            await served.client.post("/streams/events?offset=0", content=event_line("started"))
            registry = served.site.registry
            assert registry.get_sample_value("starforge_ingest_refused_total", {"code": "stream_gap"}) == 1
            size = len(event_line("started"))
            assert registry.get_sample_value("starforge_ingest_received_bytes_total", {"stream": "events"}) == size

    run(_scenario())


def test_problems_are_json_with_what_to_do(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with serve(tmp_path) as served:
            answer = await served.client.post("/streams/metrics?offset=0", content=b"no end of line")
            problem = json.loads(answer.content)
            assert (problem["status"], problem["code"]) == (422, "input_invalid")
            assert problem["next_step"] == "send whole lines"
            assert isinstance(answer, httpx2.Response)

    run(_scenario())

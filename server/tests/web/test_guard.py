"""What is taken of a body before anybody has signed in, and of one that does not come."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest
from starlette.types import Message, Receive, Scope

from server.tests.web.support import ConsoleUnderTest
from starforge.contract.canonical import digest_bytes
from starforge_console.web.blobs import UPLOADS_OF_ONE_USER
from starforge_console.web.body import Patience
from starforge_console.web.guard import FORM_BYTES, BodyGuard

CONTENT = b"tar " * 1000
WAITS = 0


class _Sender:
    """Calls an application as a server would, and knows how much of the body was asked for."""

    def __init__(self, console: ConsoleUnderTest, headers: dict[str, str]) -> None:
        self._console = console
        self._headers = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        self.pieces = 0
        self.status = 0

    async def post(self, path: str, body: Iterator[bytes] | None, patience: Patience | None = None) -> int:
        guard = BodyGuard(self._console.app) if patience is None else BodyGuard(self._console.app, patience)
        await guard(_build_scope(self._console, path, self._headers), self._receiver(body), self._send)
        return self.status

    def _receiver(self, body: Iterator[bytes] | None) -> Receive:
        async def _receive() -> Message:
            piece = None if body is None else next(body, None)
            if piece is None:
                await asyncio.Event().wait()
            self.pieces += 1
            return {"type": "http.request", "body": piece, "more_body": True}

        return _receive

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]


def _build_scope(console: ConsoleUnderTest, path: str, headers: list[tuple[bytes, bytes]]) -> Scope:
    base = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}
    sent = [*headers, (b"transfer-encoding", b"chunked"), (b"content-type", b"application/json")]
    return base | {"headers": sent, "client": ("192.0.2.7", 1), "app": console.app, "root_path": ""}


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/admission", "/api/v1/nowhere"])
@pytest.mark.parametrize("token", [None, "Bearer sfp_made-up"])
def test_nothing_of_a_strangers_body_is_read_by_the_api(
    console: ConsoleUnderTest, path: str, token: str | None
) -> None:
    sender = _Sender(console, {} if token is None else {"Authorization": token})
    assert asyncio.run(sender.post(path, iter([b"{}"]))) == 401
    assert sender.pieces == 0


def test_a_visitors_form_is_bounded(console: ConsoleUnderTest) -> None:
    sender = _Sender(console, {})
    assert asyncio.run(sender.post("/signin", iter([b"x" * (FORM_BYTES // 4)] * 8))) == 413
    assert sender.pieces == 5


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/signin"])
def test_a_body_that_does_not_come_is_given_up(console: ConsoleUnderTest, path: str) -> None:
    sender = _Sender(console, console.add_user("ann"))
    assert asyncio.run(sender.post(path, iter([b"{"]), Patience(idle_s=0.05))) == 503


def test_one_visitor_does_not_take_the_room_of_all(console: ConsoleUnderTest) -> None:
    """Of many forms that are sent at once and not ended, a share is held and the others are turned away."""

    async def scenario() -> list[int]:
        guard, news = BodyGuard(console.app), asyncio.Queue[int]()
        tasks = [asyncio.create_task(_post_unended(console, guard, news)) for _ in range(20)]
        try:
            async with asyncio.timeout(20):
                return [await news.get() for _ in tasks]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    assert sorted(asyncio.run(scenario())) == [WAITS] * 4 + [429] * 16


async def _post_unended(console: ConsoleUnderTest, guard: BodyGuard, news: "asyncio.Queue[int]") -> None:
    pieces = iter([b"x" * (FORM_BYTES - 1)])

    async def _receive() -> Message:
        piece = next(pieces, None)
        if piece is None:
            news.put_nowait(WAITS)
            await asyncio.Event().wait()
        return {"type": "http.request", "body": piece, "more_body": True}

    async def _send(message: Message) -> None:
        if message["type"] == "http.response.start":
            news.put_nowait(message["status"])

    await guard(_build_scope(console, "/signin", []), _receive, _send)


def test_one_users_uploads_at_once_are_bounded(console: ConsoleUnderTest) -> None:
    headers, other = console.add_user("ann"), console.add_user("bob")
    path = f"/api/v1/blobs/{digest_bytes(CONTENT)}"

    async def scenario() -> list[int]:
        transport, go_on = httpx2.ASGITransport(console.app), asyncio.Event()
        async with httpx2.AsyncClient(transport=transport, base_url="http://console") as client:
            begun = [asyncio.Event() for _ in range(UPLOADS_OF_ONE_USER)]
            slow = [
                asyncio.create_task(client.put(path, content=_slow(event, go_on), headers=headers)) for event in begun
            ]
            async with asyncio.timeout(20):
                await asyncio.gather(*(event.wait() for event in begun))
            try:
                refused = await client.put(path, content=CONTENT, headers=headers)
                taken = await client.put(path, content=CONTENT, headers=other)
            finally:
                go_on.set()
            return [
                refused.status_code,
                taken.status_code,
                *(answer.status_code for answer in await asyncio.gather(*slow)),
            ]

    assert asyncio.run(scenario()) == [429, 200, *[200] * UPLOADS_OF_ONE_USER]


async def _slow(begun: asyncio.Event, go_on: asyncio.Event) -> AsyncIterator[bytes]:
    yield CONTENT[:100]
    begun.set()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(go_on.wait(), 20)
    yield CONTENT[100:]

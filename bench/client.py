"""A small HTTP client that costs the machine little beside the server it measures: kept connections, no parsing."""

import asyncio
import json
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

_LENGTH: Final = b"content-length:"


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent, again and again."""

    method: str
    path: str
    token: str
    body: bytes = b""

    def render(self) -> bytes:
        """The request's bytes."""
        head = f"{self.method} {self.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self.token}\r\n"
        if self.body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(self.body)}\r\n"
        return f"{head}\r\n".encode() + self.body


@dataclass(frozen=True, slots=True)
class Answer:
    """The status and the body."""

    status: int
    body: bytes

    def json(self) -> Any:  # noqa: ANN401 - a JSON answer
        """The body, decoded."""
        return json.loads(self.body)


@dataclass(slots=True)
class Client:
    """Connections to one port of this machine, used by turns."""

    port: int
    _idle: deque[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = field(default_factory=deque)

    async def send(self, request: Request) -> Answer:
        """Send it on an idle connection, or on a new one."""
        connection = self._idle.pop() if self._idle else await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = connection
        writer.write(request.render())
        head = await reader.readuntil(b"\r\n\r\n")
        fields = head.lower()
        at = fields.find(_LENGTH)
        length = int(fields[at + len(_LENGTH) : fields.index(b"\r", at)]) if at >= 0 else 0
        answer = Answer(int(head.split(b" ", 2)[1]), await reader.readexactly(length))
        self._idle.append(connection)
        return answer

    def close(self) -> None:
        """Close what is idle."""
        for _, writer in self._idle:
            writer.close()


@dataclass(frozen=True, slots=True)
class Load:
    """What came of many requests: how long each took from the moment it was due, and how many failed."""

    waits_s: tuple[float, ...]
    failed: int


async def send_openly(client: Client, request: Request, per_s: float, for_s: float) -> Load:
    """Send at a fixed rate whatever the server does: a slow answer makes the ones behind it late as well."""
    began = time.perf_counter()
    due = [began + number / per_s for number in range(round(per_s * for_s))]
    return _sum_up(await asyncio.gather(*(_send_when_due(client, request, at) for at in due)))


async def send_at_once(client: Client, request: Request, count: int) -> Load:
    """Send all at the same moment."""
    now = time.perf_counter()
    return _sum_up(await asyncio.gather(*(_send_when_due(client, request, now) for _ in range(count))))


async def _send_when_due(client: Client, request: Request, due: float) -> tuple[float, bool]:
    await asyncio.sleep(max(0.0, due - time.perf_counter()))
    try:
        answer = await client.send(request)
    except (OSError, asyncio.IncompleteReadError):
        return time.perf_counter() - due, False
    return time.perf_counter() - due, answer.status < 300  # noqa: PLR2004 - success


def _sum_up(ends: list[tuple[float, bool]]) -> Load:
    return Load(tuple(sorted(wait for wait, _ in ends)), sum(not good for _, good in ends))

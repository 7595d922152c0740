"""A thousand readers of a running job's page, and how long the console lets others wait meanwhile."""

import asyncio
import re
import statistics
from dataclasses import dataclass, field
from http.cookiejar import CookieJar
from typing import Final
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, OpenerDirector, build_opener

from bench.figures import Figure, Orientation, Ratio
from bench.ground import Ground
from e2e.support.console import ConsoleProcess
from e2e.support.projects import make_experiment

_USERS: Final = 10
_READERS_OF_EACH: Final = 100
_ASKED: Final = 300
_EVERY_S: Final = 0.02
_AT_MOST_MS: Final = 200.0
_LONG: Final = "while :; do echo $EPOCHREALTIME; sleep 0.1; done"
_FORM_KEY: Final = re.compile(r'name="form_key" value="([^"]+)"')


def followers(ground: Ground) -> list[Figure]:
    """How long `/healthz` takes while each of the readers is sent ten lines a second."""
    with ground.console() as console:
        experiment = make_experiment(console, ground.image, _LONG, "first")
        job = experiment.submit()
        experiment.wait_state(job, "RUNNING")
        cookies = [_sign_in(console, f"reader{number}") for number in range(_USERS)] * _READERS_OF_EACH
        silent, waits_ms = asyncio.run(_measure(console.port, f"/live/jobs/{job}?attempt=1&log=0-1", cookies))
    late = statistics.quantiles(waits_ms, n=100)[-1]
    detail = f"{len(cookies)} readers, {len(waits_ms)} answers, median {statistics.median(waits_ms):.1f} ms"
    return [
        Ratio("followers_silent", silent, 0, detail="readers that were sent nothing meanwhile"),
        Orientation("followers", late, "ms", aim=f"<={_AT_MOST_MS:g}", detail=f"p99, {detail}"),
    ]


def _sign_in(console: ConsoleProcess, name: str) -> str:
    """The cookies of a new user who has signed in."""
    console.admin("user", "add", name)
    token = console.admin("token", "create", "--user", name, "--scopes", "read").stdout.strip()
    jar = CookieJar()
    opener = build_opener(HTTPCookieProcessor(jar))
    found = _FORM_KEY.search(_read(opener, f"{console.url}/signin"))
    if found is None:
        raise RuntimeError("the page to sign in has no form")
    _read(opener, f"{console.url}/signin", urlencode({"form_key": found[1], "token": token}).encode())
    return "; ".join(f"{cookie.name}={cookie.value}" for cookie in jar)


def _read(opener: OpenerDirector, url: str, body: bytes | None = None) -> str:
    with opener.open(url, body, timeout=30) as answer:
        return str(answer.read().decode())


async def _measure(port: int, path: str, cookies: list[str]) -> tuple[int, list[float]]:
    """How many readers were sent nothing while `/healthz` was asked, and how long each answer took (ms)."""
    readers = [_Reader(port, path, cookie) for cookie in cookies]
    async with asyncio.TaskGroup() as tasks:
        following = [tasks.create_task(reader.follow()) for reader in readers]
        for reader in readers:
            await reader.opened.wait()
        before = [reader.received for reader in readers]
        waits_ms = await _ask(port)
        silent = sum(reader.received == then for reader, then in zip(readers, before, strict=True))
        for one in following:
            one.cancel()
    return silent, waits_ms


@dataclass(slots=True)
class _Reader:
    """One reader, and how many bytes came to it so far."""

    port: int
    path: str
    cookie: str
    received: int = 0
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    async def follow(self) -> None:
        """Read until cancelled."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(
                f"GET {self.path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nCookie: {self.cookie}\r\n\r\n".encode()
            )
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(f"a reader was answered {head[:200]!r}")
            self.opened.set()
            while some := await reader.read(1 << 16):
                self.received += len(some)
        finally:
            writer.close()


async def _ask(port: int) -> list[float]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    clock, waits_ms = asyncio.get_running_loop().time, []
    try:
        for _ in range(_ASKED):
            began = clock()
            writer.write(f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])  # type: ignore[index]  # our own answer
            await reader.readexactly(length)
            waits_ms.append((clock() - began) * 1e3)
            await asyncio.sleep(_EVERY_S)
    finally:
        writer.close()
    return waits_ms

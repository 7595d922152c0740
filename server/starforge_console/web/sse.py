"""Server-sent events: streams that wait for wake-ups, share what they look at, and end with the console."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from itertools import cycle
from types import MappingProxyType
from typing import Any, Final, TypeVar

from starlette.responses import StreamingResponse

from starforge_console.wakeups import Wakeups
from starforge_console.web.polls import CLOSING, LongPolls

PING_S: Final = 15.0
TICK_S: Final = 0.2
"""Changes within this time are told together, and whoever waits for the same thing shares one look at it."""
PHASES: Final = 8
"""Readers take turns within a tick: a thousand that are told at one moment would keep everybody else waiting."""
LOOKS_KEPT: Final = 64
STREAMS_AT_ONCE: Final = 2000
STREAMS_OF_ONE_USER: Final = 100
_TURNS: Final = cycle(range(PHASES))
_PING: Final = b": ping\n\n"
_HELLO: Final = b"retry: 1000\n\n"
_HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "X-Accel-Buffering": "no",
        "X-Content-Type-Options": "nosniff",
    }
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class News:
    """What a look found: finished events. `more`: there is more at once. `over`: nothing will follow."""

    events: Sequence[bytes] = ()
    more: bool = False
    over: bool = False


Look = Callable[[float], Awaitable[News]]
"""Given the time of the loop since when things may have changed, what there is to tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One reader's stream: what wakes it, what it then looks at, and whether its reader may still look.

    It looks again after `again_s` even when nothing woke it.
    """

    topics: Callable[[], tuple[str, ...]]
    look: Look
    is_allowed: Callable[[], Awaitable[bool]]
    again_s: float = PING_S


@dataclass(frozen=True, slots=True)
class _Kept:
    begun: float
    task: "asyncio.Future[Any]"


class Hub:
    """Looks that readers of the same thing share: one that was begun after a change serves everybody whom it woke."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()

    async def look(self, key: Hashable, since: float, make: Callable[[], Awaitable[T]]) -> T:
        """What `make` gives, or gave to somebody else when it was begun at `since` or later."""
        kept = self._kept.get(key)
        if kept is None or kept.begun < since:
            task = asyncio.ensure_future(make())
            kept = _Kept(asyncio.get_running_loop().time(), task)
            self._kept[key] = kept
            self._kept.move_to_end(key)
            if len(self._kept) > LOOKS_KEPT:
                self._kept.popitem(last=False)
        answer: T = await asyncio.shield(kept.task)
        return answer


def encode_event(data: str, number: str = "", name: str = "") -> bytes:
    """One event. `number` is what the reader comes back with; `name` makes it an event of the page's script."""
    lines = [f"id: {number}"] if number else []
    lines += [f"event: {name}"] if name else []
    lines += [f"data: {line}" for line in data.replace("\r", "").split("\n")]
    return ("\n".join(lines) + "\n\n").encode()


def answer_stream(stream: Stream, polls: LongPolls, wakeups: Wakeups) -> StreamingResponse:
    """The endless answer that `stream` makes; it ends when the console ends or its reader may no longer look."""
    return StreamingResponse(_run(stream, polls, wakeups), media_type="text/event-stream", headers=dict(_HEADERS))


async def _run(stream: Stream, polls: LongPolls, wakeups: Wakeups) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    phase_s = next(_TURNS) * TICK_S / PHASES
    yield _HELLO
    pause_s, asked_at = 0.0, loop.time()
    turn: AbstractAsyncContextManager[object] = polls.first_looks
    while not polls.closing:
        topics = stream.topics()
        waiter = wakeups.subscribe(*topics, CLOSING)
        try:
            since = loop.time()
            await asyncio.sleep(pause_s)
            async with turn:
                news = await stream.look(since)
            turn = nullcontext()
            for event in news.events:
                yield event
            if news.over:
                return
            # A look may find more to listen to, such as a new attempt; what came before it listened is not missed.
            woken = news.more or stream.topics() != topics or await waiter.wait(stream.again_s)
        finally:
            wakeups.forget(waiter)
        if not woken:
            yield _PING
        if loop.time() - asked_at >= PING_S:
            asked_at = loop.time()
            if not await stream.is_allowed():
                return
        pause_s = 0.0 if news.more else TICK_S - (loop.time() + phase_s) % TICK_S

"""Reads a request's body within a time: whoever sends nothing, or next to nothing, is not waited for."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from starforge.errors import Unavailable


class BodyTooSlow(Unavailable):
    """The body did not come in time; on a better line it may."""

    code = "body_too_slow"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a body is waited for.

    Attributes:
        idle_s: The longest that nothing at all may come.
        grace_s: After so much waiting the average counts, so that a body of bounded size ends in bounded time.
        least_bytes_s: The average, in bytes a second of waiting.

    """

    idle_s: float = 10.0
    grace_s: float = 20.0
    least_bytes_s: float = 16 << 10


USUAL: Final = Patience()


async def read_pieces(receive: Receive, patience: Patience = USUAL) -> AsyncIterator[bytes]:
    """The pieces of a body as they come. The time that the reader takes between two of them does not count.

    Raises:
        BodyTooSlow: the sender has used up the patience.
        ClientDisconnect: the sender left.

    """
    clock = asyncio.get_running_loop().time
    waited_s, received = 0.0, 0
    while True:
        began = clock()
        try:
            async with asyncio.timeout(patience.idle_s):
                message = await receive()
        except TimeoutError:
            raise _too_slow(received, f"nothing came for {patience.idle_s:g} s") from None
        if message["type"] != "http.request":
            raise ClientDisconnect
        waited_s += clock() - began
        piece = message.get("body", b"")
        received += len(piece)
        if piece:
            yield piece
        if not message.get("more_body", False):
            return
        if waited_s > patience.grace_s and received < waited_s * patience.least_bytes_s:
            raise _too_slow(received, f"less than {patience.least_bytes_s:g} bytes a second came")


def replay(body: bytes, receive: Receive) -> Receive:
    """What gives a body that was read already once more, as one piece, and then what `receive` gives."""
    told = False

    async def receive_again() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def _too_slow(received: int, why: str) -> BodyTooSlow:
    return BodyTooSlow(f"the body stopped at byte {received}", why=why, next_step="send it again on a faster line")

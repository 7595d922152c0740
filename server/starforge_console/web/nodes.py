"""What nodes send: joins, epochs and heartbeats. Plain ASGI before everything else, for every node comes all the time.

Nobody signs in here as a user does: a join carries its token, all else is signed with the node's key.
"""

import base64
import binascii
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from starforge.contract.api import API_PREFIX
from starforge.contract.registration import (
    COUNTER_HEADER,
    EPOCH_HEADER,
    JOIN_PATH,
    SIGNATURE_HEADER,
    Fenced,
    JoinRequest,
    Superseded,
)
from starforge.contract.wire import decode, encode
from starforge.errors import InputError, Refused, StarForgeError, Unavailable
from starforge_console.accounts.throttle import Throttle
from starforge_console.clock import Clock
from starforge_console.errors import TooLarge
from starforge_console.fleets.proofs import SignedBody
from starforge_console.fleets.registration import Registration
from starforge_console.web.body import read_pieces
from starforge_console.web.problems import render_error
from starforge_console.web.room import Room

JOIN_BYTES: Final = 64 << 10
BEAT_BYTES: Final = 1 << 20
IN_FLIGHT_BYTES: Final = 32 << 20

_DIGITS: Final = 15
_OK: Final = 200
_CONFLICT: Final = 409


@dataclass(frozen=True, slots=True)
class NodeDesk:
    """Whoever answers nodes, and what bounds them."""

    registration: Registration
    clock: Clock
    throttle: Throttle
    room: Room


def build_desk(registration: Registration, clock: Clock) -> NodeDesk:
    """A desk with the usual bounds."""
    return NodeDesk(registration, clock, Throttle(), Room(IN_FLIGHT_BYTES, IN_FLIGHT_BYTES // 4))


_Handler: TypeAlias = Callable[[NodeDesk, Scope, Receive], Awaitable[Response]]


class NodeDoor:
    """Answers what nodes post and passes everything else on; the application's `state.node_desk` does the work."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on."""
        handler = _find_handler(scope)
        if handler is None:
            await self._app(scope, receive, send)
            return
        try:
            answer = await handler(_desk_of(scope), scope, receive)
        except StarForgeError as error:
            answer = render_error(error)
        except ClientDisconnect:
            return
        await answer(scope, receive, send)


def _find_handler(scope: Scope) -> _Handler | None:
    if scope["type"] != "http" or scope["method"] != "POST":
        return None
    path = str(scope["path"])
    if path == JOIN_PATH:
        return _join
    found = _OF_NODE.fullmatch(path)
    return None if found is None else partial(_BY_VERB[found[2]], found[1])


def _desk_of(scope: Scope) -> NodeDesk:
    desk: NodeDesk | None = getattr(scope["app"].state, "node_desk", None)
    if desk is None:
        raise Unavailable("this console lets no machine join", next_step="repeat once it has started")
    return desk


async def _join(desk: NodeDesk, scope: Scope, receive: Receive) -> Response:
    peer = _peer_of(scope)
    request = decode(await _read(desk, scope, receive, JOIN_BYTES), JoinRequest)
    try:
        answer = await desk.registration.join(request, peer)
    except Refused:
        # Only what lets nobody in is counted and slowed down: a neighbour behind the same address may guess.
        now = desk.clock.monotonic()
        desk.throttle.check(peer, now)
        desk.throttle.count_failure(peer, now)
        raise
    return _render(answer)


async def _take_epoch(name: str, desk: NodeDesk, scope: Scope, receive: Receive) -> Response:
    signed = await _read_signed(name, desk, scope, receive)
    return _render(await desk.registration.take_epoch(name, signed))


async def _beat(name: str, desk: NodeDesk, scope: Scope, receive: Receive) -> Response:
    signed = await _read_signed(name, desk, scope, receive)
    return _render(await desk.registration.beat(name, signed))


_BY_VERB: Final = {"epoch": _take_epoch, "heartbeat": _beat}
_OF_NODE: Final = re.compile(rf"{API_PREFIX}/nodes/([a-z0-9-]{{1,60}})/({'|'.join(_BY_VERB)})")
NODE_PATHS: Final = (JOIN_PATH, *(f"{API_PREFIX}/nodes/{{node}}/{verb}" for verb in _BY_VERB))
"""Everything that is answered here, all of it posted."""


async def _read_signed(name: str, desk: NodeDesk, scope: Scope, receive: Receive) -> SignedBody:
    desk.registration.require_known(name)  # before anything of a stranger's body is read
    headers = Headers(scope=scope)
    return SignedBody(
        epoch=_parse_number(headers, EPOCH_HEADER),
        counter=_parse_number(headers, COUNTER_HEADER),
        signature=_parse_signature(headers.get(SIGNATURE_HEADER, "")),
        body=await _read(desk, scope, receive, BEAT_BYTES),
    )


async def _read(desk: NodeDesk, scope: Scope, receive: Receive, limit_bytes: int) -> bytes:
    body = bytearray()
    with desk.room.hold(_peer_of(scope)) as hold:
        async for piece in read_pieces(receive):
            if len(body) + len(piece) > limit_bytes:
                raise TooLarge(f"the message is larger than {limit_bytes} bytes", next_step="send less")
            hold.grow(len(piece))
            body += piece
    return bytes(body)


def _parse_number(headers: Headers, name: str) -> int:
    text = headers.get(name, "")
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise InputError(f"the header {name} holds no number", next_step="upgrade forgelet")
    return int(text)


def _parse_signature(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InputError(f"the header {SIGNATURE_HEADER} holds no base64", next_step="upgrade forgelet") from None


def _peer_of(scope: Scope) -> str:
    return scope["client"][0] if scope.get("client") else "unknown"


def _render(answer: object) -> Response:
    status = _CONFLICT if isinstance(answer, Superseded | Fenced) else _OK
    return Response(encode(answer), status, media_type="application/json")

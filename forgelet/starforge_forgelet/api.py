"""The daemon's HTTP side: the wire of `starforge.contract.wire` over one node. Nothing is decided here."""

from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from typing import Final

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from starforge.contract.ids import AttemptId, parse_attempt_id
from starforge.contract.launch import LaunchRequest
from starforge.contract.wire import (
    FENCE_HEADER,
    FENCE_PATH,
    HEALTH_PATH,
    INSTALL_HEADER,
    LAUNCH_PATH,
    LOGS_PATH,
    OBSERVE_PATH,
    REAP_PATH,
    STOP_PATH,
    SWEEP_PATH,
    Observe,
    OneAttempt,
    Stop,
    Sweep,
    decode,
    encode,
    encode_error,
    encode_observations,
)
from starforge.errors import BackendUnreachable, Conflict, LaunchError, NotFound, SpecError, StarForgeError
from starforge_forgelet.node import Node

MOST_BYTES: Final = 16 << 20
"""A launch with its secrets, or the ids of all attempts that a console knows, is far smaller."""
_JSON: Final = "application/json"
_DIGITS: Final = 16
_MOST_REMAINING_S: Final = 7 * 24 * 3600.0

Handler = Callable[[Request], Awaitable[Response]]


def build_app(node: Node) -> Starlette:
    """The application. Whoever reaches it is the console: the connection has proved that."""
    api = _Api(node)
    posts = {
        LAUNCH_PATH: api.launch,
        OBSERVE_PATH: api.observe,
        FENCE_PATH: api.fence,
        STOP_PATH: api.stop,
        REAP_PATH: api.reap,
        SWEEP_PATH: api.sweep,
    }
    gets = {LOGS_PATH: api.logs, HEALTH_PATH: api.health}
    return Starlette(
        routes=[
            *(Route(path, _guarded(node, handler), methods=["POST"]) for path, handler in posts.items()),
            *(Route(path, _guarded(node, handler), methods=["GET"]) for path, handler in gets.items()),
        ]
    )


class _Api:
    def __init__(self, node: Node) -> None:
        self._node = node

    async def launch(self, request: Request) -> Response:
        message = decode(await _read(request), LaunchRequest)
        parse_attempt_id(message.attempt)
        await self._node.launch(message, _read_fence(request))
        return _answer(b"")

    async def observe(self, request: Request) -> Response:
        message = decode(await _read(request), Observe)
        for attempt in message.attempts or ():
            parse_attempt_id(attempt)  # files are named after it
        return _answer(encode_observations(await self._node.observe(message.attempts)))

    async def fence(self, request: Request) -> Response:
        attempt = parse_attempt_id(decode(await _read(request), OneAttempt).attempt)
        return _answer(encode_observations({attempt: await self._node.close_door(attempt)}))

    async def stop(self, request: Request) -> Response:
        message = decode(await _read(request), Stop)
        if not 0 <= message.remaining_s <= _MOST_REMAINING_S:
            raise SpecError(f"a stop within {message.remaining_s} s cannot be carried out")
        await self._node.stop(parse_attempt_id(message.attempt), message.remaining_s)
        return _answer(b"")

    async def reap(self, request: Request) -> Response:
        await self._node.reap(parse_attempt_id(decode(await _read(request), OneAttempt).attempt))
        return _answer(b"")

    async def sweep(self, request: Request) -> Response:
        return _answer(encode(await self._node.sweep(decode(await _read(request), Sweep).known)))

    async def logs(self, request: Request) -> Response:
        attempt = parse_attempt_id(request.query_params.get("attempt", ""))
        return StreamingResponse(
            _lines(self._node, attempt, request.query_params.get("cursor") or None), media_type="application/x-ndjson"
        )

    async def health(self, _request: Request) -> Response:
        return _answer(encode(await self._node.report()))


async def _lines(node: Node, attempt: AttemptId, cursor: str | None) -> AsyncIterator[bytes]:
    """One message a line; an error that comes in the middle is the last one."""
    try:
        async for chunk in node.logs(attempt, cursor):
            yield encode(chunk) + b"\n"
    except StarForgeError as error:
        yield msgspec.json.encode({"error": encode_error(error).decode()}) + b"\n"


def _guarded(node: Node, handler: Handler) -> Handler:
    async def answer(request: Request) -> Response:
        try:
            _require_own(node, request)
            return await handler(request)
        except StarForgeError as error:
            return Response(encode_error(error), status_code=_status_of(error), media_type=_JSON)

    return answer


def _require_own(node: Node, request: Request) -> None:
    asked = request.headers.get(INSTALL_HEADER)
    if asked != node.identity.install:
        raise NotFound(
            f"this node belongs to install {node.identity.install}, not {asked!r:.80}",
            next_step="join it to the console that is to use it",
        )


async def _read(request: Request) -> bytes:
    content = bytearray()
    try:
        async for piece in request.stream():
            content += piece
            if len(content) > MOST_BYTES:
                raise SpecError(f"the message is larger than {MOST_BYTES} bytes")
    except ClientDisconnect as error:
        raise BackendUnreachable("the message was cut") from error
    return bytes(content)


def _read_fence(request: Request) -> int:
    said = request.headers.get(FENCE_HEADER, "")
    if not said.isascii() or not said.isdigit() or len(said) > _DIGITS:
        raise SpecError(f"the launch names the fence number {said!r:.40}", why="a console tells the one that it knows")
    return int(said)


def _answer(content: bytes) -> Response:
    return Response(content, media_type=_JSON)


def _status_of(error: StarForgeError) -> HTTPStatus:
    match error:
        case LaunchError() | Conflict():
            return HTTPStatus.CONFLICT
        case SpecError():
            return HTTPStatus.BAD_REQUEST
        case NotFound():
            return HTTPStatus.NOT_FOUND
        case _:
            return HTTPStatus.SERVICE_UNAVAILABLE

"""Refuses bodies that are too large, too deep or no UTF-8 before anything parses them.

Uploads of blobs are streamed past it: the blob store has a bound of its own.
"""

import re
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from starforge.contract.api import API_PREFIX
from starforge.errors import InputError, StarForgeError
from starforge_console.errors import TooLarge
from starforge_console.web.problems import render_error

BODY_BYTES: Final = 1 << 20
DEEPEST: Final = 64

_STRINGS: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_OPENING: Final = frozenset(b"[{")
_BRACKETS: Final = re.compile(rb"[\[\]{}]")
_STREAMED: Final = ("PUT", f"{API_PREFIX}/blobs/")


class BodyGuard:
    """Pure ASGI: a class around each request and response would cost more than most of the requests."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its body read and checked, or answer why not."""
        if scope["type"] != "http" or _has_no_body(scope) or _is_streamed(scope):
            await self._app(scope, receive, send)
            return
        try:
            body = await _read_body(scope, receive)
        except StarForgeError as error:
            response = render_error(error)
            response.headers["Connection"] = "close"  # the rest of the body is on its way and nobody reads it
            await response(scope, receive, send)
            return
        if body is not None:
            await self._app(scope, _replay(body, receive), send)


def check_body(body: bytes) -> None:
    """Raises InputError for a body that is no UTF-8 or is nested too deeply."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise InputError("the body is no UTF-8", why=str(error), next_step="send JSON in UTF-8") from None
    if body.count(b"[") + body.count(b"{") > DEEPEST and _depth(body) > DEEPEST:
        raise InputError(f"the body is nested deeper than {DEEPEST} levels", next_step="send a flatter document")


def _has_no_body(scope: Scope) -> bool:
    names = {name for name, _ in scope["headers"]}
    return b"content-length" not in names and b"transfer-encoding" not in names


def _is_streamed(scope: Scope) -> bool:
    method, prefix = _STREAMED
    return scope["method"] == method and str(scope["path"]).startswith(prefix)


async def _read_body(scope: Scope, receive: Receive) -> bytes | None:
    """The whole body; None when the caller left."""
    announced = dict(scope["headers"]).get(b"content-length", b"0")
    if announced.isdigit() and int(announced) > BODY_BYTES:
        raise _too_large()
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if len(body) > BODY_BYTES:
            raise _too_large()
        if not message.get("more_body", False):
            break
    check_body(bytes(body))
    return bytes(body)


def _too_large() -> TooLarge:
    return TooLarge(f"the body is larger than {BODY_BYTES} bytes", next_step="send less")


def _depth(body: bytes) -> int:
    deepest = depth = 0
    for match in _BRACKETS.finditer(_STRINGS.sub(b"", body)):
        depth += 1 if match[0][0] in _OPENING else -1
        deepest = max(deepest, depth)
    return deepest


def _replay(body: bytes, receive: Receive) -> Receive:
    told = False

    async def receive_again() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again

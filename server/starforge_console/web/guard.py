"""Takes no body of a stranger's, and none that is too large, slow, deep, packed or no UTF-8, before anything parses it.

Whose token it is gets decided first: the API has no use for a body without one. Pages take forms of visitors, small
ones. Uploads of blobs are streamed past it: their route decides about the token and has bounds of its own.
"""

import contextlib
import re
import sys
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from starforge.contract.api import API_PREFIX
from starforge.errors import InputError, StarForgeError
from starforge_console.accounts.sign_in import Accounts
from starforge_console.errors import EncodingRefused, TooLarge
from starforge_console.web.body import USUAL, Patience, read_pieces, replay
from starforge_console.web.problems import render_error
from starforge_console.web.room import Hold, Room

REQUEST_BYTES: Final = 1 << 20
SUBMISSION_BYTES: Final = 4 << 20
"""A JobSpec, its settings, and a difference of which every other byte is escaped."""
FORM_BYTES: Final = 256 << 10
DEEPEST: Final = 64
IN_FLIGHT_BYTES: Final = 64 << 20
STRANGERS_BYTES: Final = 16 << 20
SHARES: Final = 16
"""One user, or one visitor's address, may hold such a part."""

_STRINGS: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_OPENING: Final = frozenset(b"[{")
_BRACKETS: Final = re.compile(rb"[\[\]{}]")
_DIGITS: Final = sys.int_info.default_max_str_digits
_LONG_NUMBER: Final = re.compile(rb"[0-9]{%d}" % (_DIGITS + 1))
_PLAIN: Final = "identity"
_SUBMISSIONS: Final = frozenset(f"{API_PREFIX}/{one}" for one in ("jobs", "admission", "sweeps", "sweeps/admission"))
_OPEN: Final = frozenset(f"{API_PREFIX}/device/{one}" for one in ("code", "token"))
"""What whoever has no token yet sends."""
_STREAMED: Final = ("PUT", f"{API_PREFIX}/blobs/")


class BodyGuard:
    """Pure ASGI: a class around each request and response would cost more than most of the requests."""

    def __init__(self, app: ASGIApp, patience: Patience = USUAL) -> None:
        self._app = app
        self._patience = patience
        self._members = Room(IN_FLIGHT_BYTES, IN_FLIGHT_BYTES // SHARES)
        self._strangers = Room(STRANGERS_BYTES, STRANGERS_BYTES // SHARES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its body read and checked, or answer why not."""
        if scope["type"] != "http" or _has_no_body(scope) or _is_streamed(scope):
            await self._app(scope, receive, send)
            return
        with contextlib.ExitStack() as held:
            try:
                body = await self._read(scope, receive, held)
            except StarForgeError as error:
                # What is still to come of the body is read and dropped by the server, for a while.
                await (await _answer(scope, receive, error))(scope, receive, send)
                return
            except ClientDisconnect:
                return
            await self._app(scope, replay(body, receive), send)

    async def _read(self, scope: Scope, receive: Receive, held: contextlib.ExitStack) -> bytes:
        headers = Headers(scope=scope)
        peer = scope["client"][0] if scope.get("client") else "unknown"
        is_api = _is_api(scope)
        if is_api and scope["path"] not in _OPEN:
            account = await _accounts_of(scope).authenticate(headers.get("authorization"), peer)
            hold, limit_bytes = held.enter_context(self._members.hold(account.user)), _limit_bytes(scope)
        else:
            hold, limit_bytes = held.enter_context(self._strangers.hold(peer)), FORM_BYTES
        _check_encoding(headers.get("content-encoding", _PLAIN))
        announced = headers.get("content-length", "0")
        if announced.isdecimal() and int(announced[:18]) > limit_bytes:
            raise _too_large(limit_bytes)
        body = await self._gather(receive, hold, limit_bytes)
        check_body(body)
        if is_api:
            _check_numbers(body)
        return body

    async def _gather(self, receive: Receive, hold: Hold, limit_bytes: int) -> bytes:
        body = bytearray()
        async for piece in read_pieces(receive, self._patience):
            if len(body) + len(piece) > limit_bytes:
                raise _too_large(limit_bytes)
            hold.grow(len(piece))
            body += piece
        return bytes(body)


def check_body(body: bytes) -> None:
    """Raises InputError for a body that is no UTF-8 or is nested too deeply."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise InputError("the body is no UTF-8", why=str(error), next_step="send JSON in UTF-8") from None
    if body.count(b"[") + body.count(b"{") > DEEPEST and _depth(body) > DEEPEST:
        raise InputError(f"the body is nested deeper than {DEEPEST} levels", next_step="send a flatter document")


def _check_numbers(body: bytes) -> None:
    if _LONG_NUMBER.search(body) and _LONG_NUMBER.search(_STRINGS.sub(b"", body)):
        raise InputError(
            f"the body holds a number of more than {_DIGITS} digits", next_step="write it in fewer, or as a text"
        )


def _check_encoding(encoding: str) -> None:
    if encoding.strip().lower() != _PLAIN:
        raise EncodingRefused(
            f"the Content-Encoding {encoding[:40]!r} is not taken here", next_step="send the body as it is"
        )


async def _answer(scope: Scope, receive: Receive, error: StarForgeError) -> Response:
    """What the application's own handler makes of `error`: a page for readers of pages."""
    if _is_api(scope):
        return render_error(error)
    request, handler = Request(scope, receive), scope["app"].exception_handlers[StarForgeError]
    answer: Response = await handler(request, error)
    return answer


def _is_api(scope: Scope) -> bool:
    return str(scope["path"]).startswith(f"{API_PREFIX}/")


def _has_no_body(scope: Scope) -> bool:
    names = {name for name, _ in scope["headers"]}
    return b"content-length" not in names and b"transfer-encoding" not in names


def _limit_bytes(scope: Scope) -> int:
    return SUBMISSION_BYTES if scope["path"] in _SUBMISSIONS else REQUEST_BYTES


def _is_streamed(scope: Scope) -> bool:
    method, prefix = _STREAMED
    return scope["method"] == method and str(scope["path"]).startswith(prefix)


def _accounts_of(scope: Scope) -> Accounts:
    accounts: Accounts = scope["app"].state.services.accounts
    return accounts


def _too_large(limit_bytes: int) -> TooLarge:
    return TooLarge(f"the body is larger than {limit_bytes} bytes", next_step="send less")


def _depth(body: bytes) -> int:
    deepest = depth = 0
    for match in _BRACKETS.finditer(_STRINGS.sub(b"", body)):
        depth += 1 if match[0][0] in _OPENING else -1
        deepest = max(deepest, depth)
    return deepest

"""A node without registration: a console that names this machine in its own settings is let in by a shared token.

The way before there was joining: plain HTTP, no epochs, no heartbeats. Which install it belongs to is learned from the
first call that shows the token, and kept: another console is refused from then on.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Final

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from starforge.contract.launch import Secret
from starforge.contract.wire import INSTALL_HEADER, STORAGE_HEADER, encode_error
from starforge.errors import NodeFault, SignInRequired, StarForgeError
from starforge_forgelet.state import NodeIdentity

EPOCH: Final = 1
"""There is one daemon and nobody to take it over from; a legacy node never counts."""

Open = Callable[[NodeIdentity], Awaitable[Starlette]]


class LegacyDoor:
    """Lets in whoever shows the token; `open_node` gives the application once it is known whose node this is."""

    def __init__(self, token: Secret, base: NodeIdentity, open_node: Open) -> None:
        """`base` has everything but the install and the storage's id, unless an earlier console is known."""
        self._token = token
        self._identity = base
        self._open = open_node
        self._app: Starlette | None = None
        self._beginning = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        try:
            self._require_token(headers)
            async with self._beginning:
                app = self._app or await self._begin(headers)
        except StarForgeError as error:
            status = HTTPStatus.UNAUTHORIZED if isinstance(error, SignInRequired) else HTTPStatus.CONFLICT
            await Response(encode_error(error), status, media_type="application/json")(scope, receive, send)
            return
        await app(scope, receive, send)

    def _require_token(self, headers: Headers) -> None:
        shown = headers.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(shown.encode(), self._token.reveal().encode()):
            raise SignInRequired("the token is not this node's", next_step="set FORGE_NODE_TOKEN alike on both sides")

    async def _begin(self, headers: Headers) -> Starlette:
        """The application for whoever is first to show the token, and for nobody else afterwards."""
        if not self._identity.install:
            install, storage = headers.get(INSTALL_HEADER, ""), headers.get(STORAGE_HEADER, "")
            if not install or not storage:
                raise NodeFault(
                    "this node does not know yet whose it is", why="the call names no install or no storage"
                )
            self._identity = replace(self._identity, install=install, storage_id=storage)
        self._app = await self._open(self._identity)
        return self._app

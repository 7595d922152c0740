"""Whom a request comes from that a trusted proxy passes on."""

import ipaddress
from typing import Any, Final, cast

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

_PROXY: Final = "starforge.proxy"


class Proxied:
    """Believes what trusted proxies say of whom they speak for, as far as it is an address of the network.

    Other words would stand in the audit log, in the list of sessions and in the counts of failed sign-ins as if
    somebody came from there: such a request comes from the proxy itself.
    """

    def __init__(self, app: ASGIApp, trusted: str) -> None:
        """`trusted` are addresses or networks, separated by commas."""
        self._app = app
        # uvicorn and Starlette each have types of their own for one and the same ASGI.
        self._believing = cast("ASGIApp", ProxyHeadersMiddleware(cast("Any", self._check), trusted))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its peer."""
        await self._believing({**scope, _PROXY: scope.get("client")}, receive, send)

    async def _check(self, scope: Scope, receive: Receive, send: Send) -> None:
        proxy, told = scope.pop(_PROXY), scope.get("client")
        if told is not None and not _is_address(told[0]):
            scope["client"] = proxy
        await self._app(scope, receive, send)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True

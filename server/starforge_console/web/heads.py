"""Serves HEAD wherever GET is served: the same answer, ended before its body."""

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadAnswers:
    """Pure ASGI. The application sees a GET; whoever streams is told that its reader left once the head is out."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and of the answer to HEAD the head alone."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        head = _Head(send)
        try:
            await self._app({**scope, "method": "GET"}, receive, head.send)
        except (ClientDisconnect, _HeadSent):
            if not head.is_out:
                raise


class _HeadSent(OSError):
    """What a server raises for a reader who left."""


class _Head:
    def __init__(self, send: Send) -> None:
        self._send = send
        self.is_out = False

    async def send(self, message: Message) -> None:
        if self.is_out:
            raise _HeadSent
        if message["type"] != "http.response.body":
            await self._send(message)
            return
        self.is_out = True
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        if message.get("more_body", False):
            raise _HeadSent

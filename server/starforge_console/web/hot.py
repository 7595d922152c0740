"""Answers the few requests that come all the time before FastAPI takes them apart, which costs more than the answers.

Each of these routes stays declared as every other one: that is where its OpenAPI document comes from, and who answers
whatever is not plain about a request. A hot answerer gives None for that: a parameter it does not know, a value that is
not certainly valid, a body that does not parse. So it never decides that a request is wrong, only that it is right.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from starforge.errors import StarForgeError
from starforge_console.web.body import replay
from starforge_console.web.problems import render_error

HotAnswerer: TypeAlias = Callable[[Request], Awaitable[Response | None]]
HotRoutes: TypeAlias = Mapping[tuple[str, str], HotAnswerer]
"""By method and path."""

_BODILESS: Final = "GET"


class HotDoor:
    """Pure ASGI. Stands behind the guards: what it sees has passed all of them."""

    def __init__(self, app: ASGIApp, routes: HotRoutes) -> None:
        self._app = app
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on with the body as it came."""
        answerer = self._routes.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if answerer is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        if scope["method"] != _BODILESS:
            receive = replay(await request.body(), receive)  # the request keeps it, and has it read already
        try:
            answer = await answerer(request)
        except StarForgeError as error:
            answer = render_error(error)
        if answer is None:
            await self._app(scope, receive, send)
        else:
            await answer(scope, receive, send)

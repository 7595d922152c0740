"""HTTP/1.1 with bounds on what a connection may send before a request is one, for uvicorn's parser has none.

The parser joins the pieces of a header that is not complete: without an end each new piece copies all before it, and
one connection would hold the event loop of everybody for minutes.
"""

import asyncio
import json
from http import HTTPStatus
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from starforge.contract.api import PROBLEM_TYPE
from starforge_console.web.faults import REQUEST_INVALID

HEAD_BYTES: Final = 64 << 10
HEADERS_AT_MOST: Final = 128
HEAD_S: Final = 10.0
"""So long may a request's head take, and what still comes of a body that was answered before its end."""
PIPELINED_AT_MOST: Final = 64
LINGER_S: Final = 1.0
LINGER_BYTES: Final = 1 << 20
"""A refused sender is in the middle of its request: closed at once, the connection would break before it has read."""


class BoundedProtocol(HttpToolsProtocol):
    """One connection; refuses a head that is too large (431) or takes too long (408)."""

    head_s: float = HEAD_S

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._loose_bytes = 0
        self._head_bytes = 0
        self._refusal: HTTPStatus | None = None
        self._has_refused = False
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Await a first request, not for ever."""
        super().connection_made(transport)
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is awaited any more."""
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came, as long as it leads to something."""
        self._loose_bytes += len(data)
        if self._has_refused:
            if self._loose_bytes > LINGER_BYTES:
                self.transport.close()
            return
        super().data_received(data)
        if self._loose_bytes > HEAD_BYTES:
            self._refusal = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            self.send_400_response("")
        elif self._deadline is None and not self._is_answering():
            self._arm()

    def on_message_begin(self) -> None:
        """Count a new head."""
        self._head_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Take a piece of the address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, also one that follows a body."""
        self._count(len(name) + len(value))
        if len(self.headers) >= HEADERS_AT_MOST:
            self._refuse_head()
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._loose_bytes = 0
        self._disarm()
        if len(self.pipeline) >= PIPELINED_AT_MOST:
            self._refusal = HTTPStatus.TOO_MANY_REQUESTS
            raise _HeadRefused
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._loose_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._loose_bytes = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be parsed, or was not to be, and close; called by the parser's side too."""
        if self._has_refused or self.transport.is_closing():
            return
        self._has_refused = True
        self._disarm()
        if self._is_answering():  # an answer in the middle of another one would be read as a part of it
            self.transport.close()
            return
        status = self._refusal or HTTPStatus.BAD_REQUEST
        problem = {"type": "about:blank", "title": status.phrase, "status": status, "code": REQUEST_INVALID.code}
        content = json.dumps(problem | {"detail": msg} if msg else problem).encode()
        head = f"content-type: {PROBLEM_TYPE}\r\ncontent-length: {len(content)}\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head.encode() + content)
        self.loop.call_later(LINGER_S, self.transport.close)

    def _count(self, size_bytes: int) -> None:
        self._head_bytes += size_bytes
        if self._head_bytes > HEAD_BYTES:
            self._refuse_head()

    def _refuse_head(self) -> None:
        self._refusal = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        raise _HeadRefused

    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn declares it less than honestly
        return cycle is not None and not cycle.response_complete

    def _arm(self) -> None:
        self._deadline = self.loop.call_later(self.head_s, self._time_is_up)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _time_is_up(self) -> None:
        self._deadline = None
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None and self._loose_bytes:
            self._refusal = HTTPStatus.REQUEST_TIMEOUT
            self.send_400_response("")
        else:
            self.transport.close()


class _HeadRefused(Exception):
    """Leaves the parser, which turns it into a fault of its own."""

"""Requests at doors, one connection each, and what came of them in the terms of the table."""

import contextlib
import http.client
import itertools
import re
import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from e2e.security.expected import Outcome
from starforge_console.web.pages.visit import SESSION_COOKIE

FORM: Final = "application/x-www-form-urlencoded"
_ANSWER_S: Final = 30.0
_READ_BYTES: Final = 1 << 20
_LIVE: Final = "text/event-stream"
_REDIRECTS: Final = range(300, 400)
_REFUSED: Final = (401, 403)
_FAULT: Final = 500


@dataclass(frozen=True, slots=True)
class Knock:
    """What came back; `body` is empty for a stream that does not end by itself."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    shown: str = ""
    """The cookies that came along."""

    @property
    def opens_session(self) -> bool:
        """Whether a browser has another session now than the one it came with."""
        given = re.findall(rf"{SESSION_COOKIE}=([^;\"]+)", self.headers.get("set-cookie", ""))
        return any(f"{SESSION_COOKIE}={text}" != self.shown for text in given)

    @property
    def outcome(self) -> Outcome:
        """LET_IN or REFUSED. Raises AssertionError for an answer that tells of a fault or of too many requests."""
        assert self.status < _FAULT, self
        assert self.status != http.client.TOO_MANY_REQUESTS, self
        to_sign_in = self.status in _REDIRECTS and self.headers.get("location", "").split("?")[0] == "/signin"
        return Outcome.REFUSED if to_sign_in or self.status in _REFUSED else Outcome.LET_IN


class Street:
    """Leads to one port. Each request comes from another address, unless `source` is given: nobody pays for others."""

    def __init__(self, port: int, source: str = "") -> None:
        self._port = port
        self._sources = itertools.repeat(source) if source else _list_sources()

    def knock(self, method: str, path: str, headers: Mapping[str, str], form: Mapping[str, str] | None = None) -> Knock:
        """One request, with a form if there is one."""
        body = None if form is None else urlencode(form).encode()
        typed = {} if form is None else {"Content-Type": FORM}
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_ANSWER_S)
        connection.sock = self._connect(next(self._sources))
        with contextlib.closing(connection):
            connection.request(method, path, body, {**headers, **typed})
            answer = connection.getresponse()
            told = {name.lower(): ", ".join(answer.headers.get_all(name, [])) for name in answer.headers}
            streams = told.get("content-type", "").startswith(_LIVE)
            return Knock(answer.status, told, b"" if streams else answer.read(_READ_BYTES), headers.get("Cookie", ""))

    def _connect(self, source: str) -> socket.socket:
        """A line that is gone once it is closed: thousands that linger would hold ports which consoles are to have."""
        line = socket.socket()
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        line.settimeout(_ANSWER_S)
        line.bind((source, 0))
        line.connect(("127.0.0.1", self._port))
        return line


def _list_sources() -> Iterator[str]:
    for one, two, three in itertools.product(range(1, 255), repeat=3):
        yield f"127.{one}.{two}.{three}"

"""Requests as no client of ours would send them."""

import contextlib
import http.client
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_ANSWER_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; `body` is parsed JSON, None where there was none."""

    status: int
    body: Any

    @property
    def code(self) -> str:
        """The problem's code."""
        return str(self.body["code"])

    @property
    def words(self) -> str:
        """Everything that the answer says."""
        return json.dumps(self.body, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Caller:
    """Speaks to one port with one token."""

    port: int
    token: str

    def call(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One request with exactly this path and body. Raises OSError when the server closes without an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_ANSWER_S)
        with contextlib.closing(connection):
            given = {"Authorization": f"Bearer {self.token}"} | dict(headers or {})
            connection.putrequest(method, path)
            for name, value in given.items():
                connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # answered before it had read everything
                connection.send(body or b"")
            answer = connection.getresponse()
            content = answer.read()
        return Answer(answer.status, json.loads(content) if content else None)

    def send(self, method: str, path: str, document: object) -> Answer:
        """One request with a JSON body."""
        return self.call(method, path, json.dumps(document).encode(), {"Content-Type": "application/json"})

    def trickle(self, method: str, path: str, announced_bytes: int, limit_s: float) -> bool:
        """Announce a body, send one byte of it; whether the server answers or closes within `limit_s`."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=limit_s) as sock:
            head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.token}\r\n"
            sock.sendall(f"{head}Content-Length: {announced_bytes}\r\n\r\n[".encode())
            try:
                sock.recv(1 << 16)
            except TimeoutError:
                return False
            except ConnectionResetError:
                return True
        return True

"""A whole cluster's API over two backends: custom resources of a real API server, and the rest from a store."""

import contextlib
import http.client
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from e2e.support.kube.real import RealApi
from e2e.support.kube.serving import Reply, Request, StoreBackend, Watch

_REAL: Final = ("/apis/ray.io/v1/rayjobs", "/apis/apiextensions.k8s.io/")
_WATCH_S: Final = 1.0


@dataclass(slots=True)
class FrontBackend:
    """Passes on what is about RayJobs; `store` has the rest, RayClusters among it."""

    real: RealApi
    rest: StoreBackend

    def answer(self, request: Request) -> Reply | Watch:
        """The answer. Raises Refusal."""
        if not is_real(request.path):
            return self.rest.answer(request)
        connection = self.real.connect()
        target = f"{request.path}?{request.query}" if request.query else request.path
        connection.request(request.method, target, request.body or None, {"Content-Type": request.form})
        response = connection.getresponse()
        if request.is_watch and response.status == http.client.OK:
            return _RealWatch(connection, response)
        with contextlib.closing(connection):
            content = response.read()
        if request.method != "GET":
            with self.rest.store.changed:
                self.rest.store.changed.notify_all()  # whoever waits for something to happen looks again
        return Reply(response.status, _load(content), _keep_headers(response))


def is_real(path: str) -> bool:
    """Whether the real server has it."""
    words = path.strip("/").split("/")
    return path.startswith(_REAL) or (words[:2] == ["apis", "ray.io"] and words[5:6] == ["rayjobs"])


class _RealWatch:
    def __init__(self, connection: http.client.HTTPSConnection, response: http.client.HTTPResponse) -> None:
        self._connection = connection
        self._response = response
        self._sock = connection.sock

    def __iter__(self) -> Iterator[bytes | None]:
        try:
            while line := self._read_line():
                yield line
        finally:  # also when whoever reads leaves in the middle
            self._response.close()
            self._connection.close()
            self._sock.close()

    def _read_line(self) -> bytes:
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            return self._response.readline()
        return b""

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)


def _load(content: bytes) -> object:
    try:
        return json.loads(content)
    except ValueError:
        return content


def _keep_headers(response: http.client.HTTPResponse) -> dict[str, str]:
    return {name: value for name in ("Retry-After", "Warning") if (value := response.getheader(name))}

"""A plain client of an API server, for tests: it sends what it is told and shows what came back."""

import contextlib
import http.client
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from e2e.support.kube.status import Document, Json

MERGE: Final = "application/merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and body of an answer."""

    code: int
    body: Document

    @property
    def metadata(self) -> Document:
        """The object's."""
        metadata: Document = self.body["metadata"]
        return metadata


@dataclass(frozen=True, slots=True)
class KubeClient:
    """Speaks to one server with one token."""

    port: int
    token: str

    def ask(
        self, method: str, path: str, body: object = None, *, form: str = "application/json", **query: Json
    ) -> Answer:
        """One request and its whole answer; `query` is written behind the path."""
        with self._send(method, path, body, form, query) as response:
            content = response.read()
            try:
                return Answer(response.status, json.loads(content))
            except ValueError:
                return Answer(response.status, {"message": content.decode(errors="replace")})

    def create(self, path: str, body: object, **query: Json) -> Answer:
        """POST."""
        return self.ask("POST", path, body, **query)

    def get(self, path: str, **query: Json) -> Answer:
        """GET."""
        return self.ask("GET", path, **query)

    def replace(self, path: str, body: object, **query: Json) -> Answer:
        """PUT."""
        return self.ask("PUT", path, body, **query)

    def merge(self, path: str, body: object, **query: Json) -> Answer:
        """A merge patch."""
        return self.ask("PATCH", path, body, form=MERGE, **query)

    def apply(self, path: str, body: object, **query: Json) -> Answer:
        """A server-side apply."""
        return self.ask("PATCH", path, body, form=APPLY, **query)

    def delete(self, path: str, body: object = None, **query: Json) -> Answer:
        """DELETE."""
        return self.ask("DELETE", path, body, **query)

    @contextlib.contextmanager
    def watch(self, path: str, **query: Json) -> Iterator[Iterator[Document]]:
        """Events as they come, until the server ends it; it has begun when the block begins."""
        with self._send("GET", path, None, "application/json", {"watch": "1", **query}) as response:
            assert response.status == http.client.OK, response.read()
            yield _read_events(response)

    @contextlib.contextmanager
    def _send(
        self, method: str, path: str, body: object, form: str, query: Mapping[str, Any]
    ) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_TIMEOUT_S)
        with contextlib.closing(connection):
            content = None if body is None else json.dumps(body)
            target = f"{path}?{urlencode(query)}" if query else path
            connection.request(method, target, content, {"Content-Type": form, "Authorization": f"Bearer {self.token}"})
            yield connection.getresponse()


def _read_events(response: http.client.HTTPResponse) -> Iterator[Document]:
    while line := response.readline():
        yield json.loads(line)

"""Who works inside of the cluster asks its API without HTTP: none of the bad moments that tests call up reach them."""

import json
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from e2e.support.kube.asking import MERGE
from e2e.support.kube.kinds import Kind
from e2e.support.kube.serving import Backend, Reply, Request
from e2e.support.kube.status import Document, Refusal

_FIRST_REFUSAL: Final = 400


@dataclass(frozen=True, slots=True)
class Inside:
    """`manager` is who writes."""

    backend: Backend
    manager: str

    def list(self, kind: Kind) -> tuple[Document, ...]:
        """Every object of the kind, in all namespaces."""
        items = self._ask("GET", _path(kind, None))["items"]
        return tuple({"apiVersion": kind.version, "kind": kind.kind, **item} for item in items)

    def find(self, kind: Kind, namespace: str | None, name: str) -> Document | None:
        """The object, or None."""
        try:
            return self._ask("GET", _path(kind, namespace, name))
        except Refusal as refusal:
            if refusal.code == 404:
                return None
            raise

    def create(self, kind: Kind, body: Document) -> Document:
        """A new object in the namespace that it names."""
        return self._ask("POST", _path(kind, body["metadata"].get("namespace")), body)

    def merge(self, kind: Kind, one: Document, patch: Document, part: str = "") -> Document | None:
        """The object with the patch put over it, or None if it is gone."""
        path = _path(kind, one["metadata"].get("namespace"), one["metadata"]["name"], part)
        try:
            return self._ask("PATCH", path, patch, MERGE)
        except Refusal as refusal:
            if refusal.code == 404:
                return None
            raise

    def set_status(self, kind: Kind, one: Document, status: Document) -> Document | None:
        """The object with the status put over its own, or None if it is gone."""
        return self.merge(kind, one, {"status": status}, "status")

    def delete(self, kind: Kind, one: Document, **options: object) -> None:
        """Begin to delete it; one that is gone is fine, and so is one of the same name that came after it."""
        path = _path(kind, one["metadata"].get("namespace"), one["metadata"]["name"])
        try:
            self._ask("DELETE", path, {"preconditions": {"uid": one["metadata"]["uid"]}, **options})
        except Refusal as refusal:
            if refusal.code not in {404, 409}:
                raise

    def _ask(self, method: str, path: str, body: Document | None = None, form: str = "application/json") -> Document:
        params = {} if method == "GET" else {"fieldManager": self.manager}
        content = b"" if body is None else json.dumps(body).encode()
        answer = self.backend.answer(Request(method, path, urlencode(params), params, content, form))
        assert isinstance(answer, Reply), path
        if answer.code >= _FIRST_REFUSAL:
            refusal = Refusal(answer.code, f"{method} {path}: {answer.body}")
            refusal.body = answer.body
            raise refusal
        body = answer.body
        assert isinstance(body, dict), path
        return body


def _path(kind: Kind, namespace: str | None, name: str = "", part: str = "") -> str:
    root = f"/apis/{kind.group}/v1" if kind.group else "/api/v1"
    words = [root, *(("namespaces", namespace) if namespace else ()), kind.plural, name, part]
    return "/".join(word for word in words if word)

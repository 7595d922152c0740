"""What an API server does with one request, whatever keeps its objects: a store of ours, or a real server behind it."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from e2e.support.kube.kinds import PODS, Address, parse_path
from e2e.support.kube.selectors import Selector
from e2e.support.kube.status import Document, Refusal
from e2e.support.kube.store import Options, Store, tell_changes

_PATCHES: Final = ("application/merge-patch+json", "application/apply-patch+yaml", "application/apply-patch+json")
_TICK_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Request:
    """One request, taken apart."""

    method: str
    path: str
    query: str
    params: Mapping[str, str]
    body: bytes = b""
    form: str = "application/json"

    @property
    def is_watch(self) -> bool:
        """Whether it asks for what happens from now on."""
        return self.params.get("watch") in {"1", "true"}

    def load(self) -> Document:
        """The body as a document. Raises Refusal (400)."""
        try:
            loaded = json.loads(self.body or b"{}")
        except ValueError as error:
            raise Refusal(400, f"the object provided is unrecognized (must be of type ...): {error}") from error
        if not isinstance(loaded, dict):
            raise Refusal(400, "the object provided is unrecognized")
        return loaded


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that is complete."""

    code: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)


class Watch(Protocol):
    """An answer that goes on: lines of JSON, None where nothing happened for a moment."""

    def __iter__(self) -> Iterator[bytes | None]:
        """The lines."""

    def close(self) -> None:
        """End it, from another thread too."""


class Backend(Protocol):
    """Whatever answers requests."""

    def answer(self, request: Request) -> Reply | Watch:
        """The answer. Raises Refusal."""


@dataclass(slots=True)
class StoreBackend:
    """Answers from a store. `logs` gives a pod's output: (namespace, name, query) to bytes."""

    store: Store
    bookmark_s: float = 0.5
    logs: Callable[[str, str, Mapping[str, str]], bytes] | None = None

    def answer(self, request: Request) -> "Reply | Watch":
        """The answer. Raises Refusal."""
        address = parse_path(request.path)
        if request.method == "GET":
            return self._read(address, request)
        return self._write(address, request, _read_options(request))

    def _read(self, address: Address, request: Request) -> "Reply | Watch":
        selector = Selector(request.params.get("labelSelector", ""), request.params.get("fieldSelector", ""))
        if address.name and address.part == "log" and address.kind is PODS:
            self.store.get(Address(PODS, address.namespace, address.name))
            content = self.logs(address.namespace or "", address.name, request.params) if self.logs else b""
            return Reply(200, content)
        if address.name:
            return Reply(200, self.store.get(address))
        if request.is_watch:
            return StoreWatch(self.store, address, selector, request.params, self.bookmark_s)
        limit = int(request.params.get("limit") or 0)
        return Reply(200, self.store.list_page(address, selector, limit, request.params.get("continue", "")))

    def _write(self, address: Address, request: Request, options: Options) -> Reply:
        if request.method == "POST" and not address.name:
            return Reply(201, self.store.create(address, request.load(), options))
        if request.method == "PUT" and address.name:
            return Reply(200, self.store.replace(address, request.load(), options))
        if request.method == "PATCH" and address.name:
            return self._patch(address, request, options)
        if request.method == "DELETE" and address.name:
            wanted = request.load()
            for name in ("propagationPolicy", "gracePeriodSeconds"):
                if name in request.params:
                    wanted.setdefault(name, request.params[name])
            return Reply(200, self.store.delete(address, wanted, is_dry=options.is_dry))
        raise Refusal(405, "the server does not allow this method on the requested resource", details={})

    def _patch(self, address: Address, request: Request, options: Options) -> Reply:
        if request.form not in _PATCHES:
            raise Refusal(415, f"the body of the request was in an unknown format - accepted media types: {_PATCHES}")
        if request.form == _PATCHES[0]:
            return Reply(200, self.store.merge(address, request.load(), options))
        if not request.params.get("fieldManager"):
            raise Refusal(
                422,
                'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
            )
        applied, is_new = self.store.apply(address, request.load(), options)
        return Reply(201 if is_new else 200, applied)


class StoreWatch:
    """What happens in a store, from where the query says on."""

    def __init__(
        self, store: Store, address: Address, selector: Selector, params: Mapping[str, str], bookmark_s: float
    ) -> None:
        self._store = store
        self._closed = threading.Event()
        self._bookmark_s = bookmark_s if params.get("allowWatchBookmarks") in {"1", "true"} else None
        limit_s = params.get("timeoutSeconds")
        self._ends_at = time.monotonic() + float(limit_s) if limit_s else None
        version = params.get("resourceVersion") or ""
        self._address = address
        with store.changed:
            self._first = [] if version not in {"", "0"} else store.list_page(address, selector)["items"]
            self._from = store.version if version in {"", "0"} else int(version)
        self._selector = selector

    def __iter__(self) -> Iterator[bytes | None]:
        for one in self._first:
            yield _write_line({"type": "ADDED", "object": one})
        told_at = time.monotonic()
        for event in tell_changes(self._store, self._address, self._selector, self._from):
            if self._closed.is_set() or (self._ends_at is not None and time.monotonic() > self._ends_at):
                return
            if event is not None:
                self._from = int(event["object"]["metadata"].get("resourceVersion") or 0)
                yield _write_line(event)
                continue
            if self._is_behind() and time.monotonic() > told_at + (self._bookmark_s or 0):
                told_at = time.monotonic()
                self._from = self._store.version
                yield _write_line({"type": "BOOKMARK", "object": self._build_bookmark(self._from)})
            yield None
            with self._store.changed:
                self._store.changed.wait(_TICK_S)

    def close(self) -> None:
        """End it."""
        self._closed.set()
        with self._store.changed:
            self._store.changed.notify_all()

    def _is_behind(self) -> bool:
        return self._bookmark_s is not None and self._store.version > self._from

    def _build_bookmark(self, version: int) -> Document:
        kind = self._address.kind
        metadata = {"resourceVersion": str(version), "creationTimestamp": None}
        return {"kind": kind.kind, "apiVersion": kind.version, "metadata": metadata}


def _read_options(request: Request) -> Options:
    params = request.params
    dry = params.get("dryRun", "")
    if dry not in {"", "All"}:
        said = f'Unsupported value: "{dry}": supported values: "All"'
        raise Refusal(422, f'PatchOptions.meta.k8s.io "" is invalid: dryRun: {said}')
    return Options(
        manager=params.get("fieldManager") or "unknown",
        is_dry=dry == "All",
        is_strict=params.get("fieldValidation") == "Strict",
        is_forced=params.get("force") == "true",
    )


def _write_line(event: Document) -> bytes:
    return json.dumps(event).encode() + b"\n"

"""Objects with versions, as an API server keeps them: created, listed in pages, watched, changed, applied, deleted."""

import base64
import copy
import datetime as dt
import json
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from e2e.support.kube import fields, status
from e2e.support.kube.fields import Manager
from e2e.support.kube.judging import judge, judge_part, normalize
from e2e.support.kube.kinds import Address, Kind
from e2e.support.kube.selectors import Selector
from e2e.support.kube.status import Document, Json, Refusal

_FIRST_VERSION: Final = 100
"""Whatever is older than this was forgotten before the first request."""
Key = tuple[str | None, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a write is meant: `manager` writes it, and a dry run leaves nothing."""

    manager: str = "test"
    is_dry: bool = False
    is_strict: bool = False
    is_forced: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that happened to an object."""

    version: int
    kind: Kind
    before: Document | None
    after: Document | None


@dataclass(slots=True)
class Store:
    """All objects. `changed` is notified after each write; take it to look at several things at one moment."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    version: int = _FIRST_VERSION
    oldest: int = _FIRST_VERSION
    history: list[Change] = field(default_factory=list)
    _objects: dict[Kind, dict[Key, Document]] = field(default_factory=dict)

    def get(self, address: Address) -> Document:
        """The object. Raises Refusal (404)."""
        with self.changed:
            return copy.deepcopy(self._find(address))

    def list_page(self, address: Address, selector: Selector, limit: int = 0, after: str = "") -> Document:
        """A page of a list. Raises Refusal (410) where the page before it is too old."""
        kind = address.kind
        with self.changed:
            version, start = self._read_token(after)
            found = [
                copy.deepcopy(one)
                for key, one in sorted(self._of(kind).items(), key=lambda pair: (pair[0][0] or "", pair[0][1]))
                if address.namespace in (None, key[0]) and selector.takes(one)
            ]
        end = start + limit if limit else len(found)
        metadata: Document = {"resourceVersion": str(version)}
        if end < len(found):
            metadata["continue"] = base64.urlsafe_b64encode(json.dumps([version, end]).encode()).decode()
            if not selector:
                metadata["remainingItemCount"] = len(found) - end
        return {
            "apiVersion": kind.version,
            "kind": f"{kind.kind}List",
            "metadata": metadata,
            "items": found[start:end],
        }

    def create(self, address: Address, body: Document, options: Options) -> Document:
        """A new object. Raises Refusal (409, 422, 400)."""
        made = copy.deepcopy(body)
        metadata = made.setdefault("metadata", {})
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + uuid.uuid4().hex[:5]
        if metadata.get("resourceVersion"):
            raise Refusal(500, "resourceVersion should not be set on objects to be created")
        if address.kind.has_status and address.kind.group:
            made.pop("status", None)
        judge(address.kind, made, is_strict=options.is_strict)
        with self.changed:
            if (address.namespace, metadata["name"]) in self._of(address.kind):
                raise status.already_exists(address.kind.group, address.kind.plural, metadata["name"])
            self._bear(address, made)
            manager = Manager(options.manager, "Update", address.kind.version)
            fields.take_over(address.kind.schema, {}, made, manager)
            return self._store(address.kind, None, made, options)

    def replace(self, address: Address, body: Document, options: Options) -> Document:
        """The object with another content. Raises Refusal (404, 409, 422, 400)."""
        return self._write(address, lambda _live: copy.deepcopy(body), options)

    def merge(self, address: Address, patch: Document, options: Options) -> Document:
        """The object with a merge patch put over it. Raises Refusal (404, 409, 422, 400)."""
        return self._write(address, lambda live: _merge_patch(live, patch), options)

    def apply(self, address: Address, body: Document, options: Options) -> tuple[Document, bool]:
        """The object as applied, and whether it is new. Raises Refusal (409, 422, 400)."""
        kind = address.kind
        judge_part(kind, address.name, wanted := copy.deepcopy(body))
        manager = Manager(options.manager, "Apply", kind.version, address.part)
        with self.changed:
            live = self._of(kind).get((address.namespace, address.name))
            if live is None:
                made = fields.apply(kind.schema, {}, wanted, manager, force=True)
                made |= {"apiVersion": kind.version, "kind": kind.kind}
                made["metadata"]["name"] = address.name
                judge(kind, made, is_strict=False)
                self._bear(address, made)
                return self._store(kind, None, made, options), True
            self._refuse_stale(address, live, wanted)
            changed = fields.apply(kind.schema, live, wanted, manager, force=options.is_forced)
            return self._finish(address, live, changed, options), False

    def delete(self, address: Address, options: Document, *, is_dry: bool = False) -> Document:
        """Begin to delete it, or do it where nothing holds it: the object, or a Status. Raises Refusal (404, 409)."""
        kind = address.kind
        with self.changed:
            live = self._find(address)
            _check_preconditions(kind, live, options.get("preconditions") or {})
            after = copy.deepcopy(live)
            metadata = after["metadata"]
            if options.get("propagationPolicy") == "Foreground":
                held = metadata.setdefault("finalizers", [])
                held += [] if "foregroundDeletion" in held else ["foregroundDeletion"]
            grace_s = _find_grace(kind, live, options)
            if metadata.get("finalizers") or grace_s:
                _mark_deleted(metadata, grace_s)
                return self._store(kind, live, after, Options(is_dry=is_dry))
            if not is_dry:
                self._drop(kind, live)
            return status.build_success(address.name, kind.group, kind.plural, metadata["uid"])

    def compact(self) -> None:
        """Forget what happened so far: whoever watches from before is told that it is too old."""
        with self.changed:
            self.oldest = self.version
            self.history.clear()

    def all(self, kind: Kind) -> list[Document]:
        """Every object of the kind."""
        with self.changed:
            return [copy.deepcopy(one) for one in self._of(kind).values()]

    def _of(self, kind: Kind) -> dict[Key, Document]:
        return self._objects.setdefault(kind, {})

    def _find(self, address: Address) -> Document:
        live = self._of(address.kind).get((address.namespace, address.name))
        if live is None:
            raise status.not_found(address.kind.group, address.kind.plural, address.name)
        return live

    def _write(self, address: Address, change: Callable[[Document], Document], options: Options) -> Document:
        kind = address.kind
        with self.changed:
            live = self._find(address)
            asked = change(live)
            self._refuse_stale(address, live, asked)
            changed = _keep_other_part(address, live, asked)
            _keep_identity(live, changed)
            judge(kind, changed, is_strict=options.is_strict)
            manager = Manager(options.manager, "Update", kind.version, address.part)
            changed["metadata"]["managedFields"] = copy.deepcopy(live["metadata"].get("managedFields") or [])
            fields.take_over(kind.schema, live, changed, manager)
            return self._finish(address, live, changed, options)

    def _finish(self, address: Address, live: Document, changed: Document, options: Options) -> Document:
        judge(address.kind, changed, is_strict=False)
        _keep_identity(live, changed)
        if _is_same(live, changed):
            return copy.deepcopy(live)
        if changed.get("spec") != live.get("spec"):
            changed["metadata"]["generation"] = live["metadata"].get("generation", 0) + 1
        is_released = live["metadata"].get("deletionTimestamp") and not changed["metadata"].get("finalizers")
        if is_released and not options.is_dry and address.kind.plural != "pods":  # a pod ends by its kubelet
            self._drop(address.kind, live)
            return changed
        return self._store(address.kind, live, changed, options)

    def _bear(self, address: Address, made: Document) -> None:
        normalize(address.kind, made)
        metadata = made["metadata"]
        if address.namespace is not None:
            metadata["namespace"] = address.namespace
        metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": now(), "generation": 1}

    def _refuse_stale(self, address: Address, live: Document, asked: Document) -> None:
        metadata = asked.get("metadata", {})
        wanted, uid = metadata.get("resourceVersion"), metadata.get("uid")
        if wanted not in (None, "", live["metadata"]["resourceVersion"]) or uid not in (None, live["metadata"]["uid"]):
            raise status.stale(address.kind.group, address.kind.plural, address.name)

    def _store(self, kind: Kind, before: Document | None, after: Document, options: Options) -> Document:
        if options.is_dry:
            if before is None:
                after["metadata"].pop("resourceVersion", None)
            return copy.deepcopy(after)
        self.version += 1
        after["metadata"]["resourceVersion"] = str(self.version)
        self._of(kind)[after["metadata"].get("namespace"), after["metadata"]["name"]] = after
        self._tell(Change(self.version, kind, before, after))
        return copy.deepcopy(after)

    def _drop(self, kind: Kind, live: Document) -> None:
        self.version += 1
        last = copy.deepcopy(live)
        last["metadata"]["resourceVersion"] = str(self.version)
        del self._of(kind)[live["metadata"].get("namespace"), live["metadata"]["name"]]
        self._tell(Change(self.version, kind, last, None))

    def _tell(self, change: Change) -> None:
        self.history.append(change)
        self.changed.notify_all()

    def _read_token(self, token: str) -> tuple[int, int]:
        if not token:
            return self.version, 0
        version, start = json.loads(base64.urlsafe_b64decode(token))
        if version < self.oldest:
            raise status.expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new "
                "list without the continue parameter, or use the continue token in this response to retrieve the "
                "remainder of the results."
            )
        return version, start


def now() -> str:
    """This moment as documents write it."""
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def tell_changes(store: Store, address: Address, selector: Selector, version: int) -> Iterator[Document | None]:
    """What happened after `version`, as watch events; None where nothing has happened since. Ends with a 410."""
    position = version
    while True:
        with store.changed:
            if position < store.oldest:
                yield {"type": "ERROR", "object": _too_old(position, store.oldest)}
                return
            fresh = [change for change in store.history if change.version > position]
            position = store.version
        told = [event for change in fresh if (event := _tell_one(change, address, selector)) is not None]
        yield from told or (None,)


def _tell_one(change: Change, address: Address, selector: Selector) -> Document | None:
    if change.kind != address.kind:
        return None
    before = change.before if change.before is not None and _is_meant(change.before, address, selector) else None
    after = change.after if change.after is not None and _is_meant(change.after, address, selector) else None
    if after is not None:
        return {"type": "MODIFIED" if before is not None else "ADDED", "object": after}
    if before is None:
        return None
    gone = copy.deepcopy(change.after or before)
    gone["metadata"]["resourceVersion"] = str(change.version)
    return {"type": "DELETED", "object": gone}


def _is_meant(one: Document, address: Address, selector: Selector) -> bool:
    return address.namespace in (None, one["metadata"].get("namespace")) and selector.takes(one)


def _too_old(asked: int, oldest: int) -> Document:
    return status.expired(f"too old resource version: {asked} ({oldest})").body


def _merge_patch(live: Json, patch: Json) -> Json:
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    merged = dict(live) if isinstance(live, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merge_patch(merged.get(name), value)
    return copy.deepcopy(merged)


def _keep_other_part(address: Address, live: Document, asked: Document) -> Document:
    """A write to the status changes the status alone, and one to the object leaves the status."""
    if not address.kind.has_status:
        return asked
    if address.part == "status":
        return copy.deepcopy(live) | {"status": asked.get("status", {})}
    kept = {name: value for name, value in asked.items() if name != "status"}
    return kept | ({"status": copy.deepcopy(live["status"])} if "status" in live else {})


def _keep_identity(live: Document, changed: Document) -> None:
    metadata = changed.setdefault("metadata", {})
    for name in ("uid", "creationTimestamp", "generation", "resourceVersion", "namespace", "name"):
        if name in live["metadata"]:
            metadata[name] = live["metadata"][name]
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if name in live["metadata"]:
            metadata[name] = live["metadata"][name]
    changed |= {"apiVersion": live["apiVersion"], "kind": live["kind"]}


def _is_same(live: Document, changed: Document) -> bool:
    def bare(one: Document) -> Document:
        entries = [{**entry, "time": ""} for entry in one["metadata"].get("managedFields") or ()]
        return one | {"metadata": one["metadata"] | {"managedFields": entries}}

    return bare(live) == bare(changed)


def _check_preconditions(kind: Kind, live: Document, wanted: Document) -> None:
    names = {"uid": "UID", "resourceVersion": "ResourceVersion"}
    for name, title in names.items():
        given, held = wanted.get(name), live["metadata"][name]
        if given not in (None, held):
            refusal = status.stale(kind.group, kind.kind, live["metadata"]["name"])
            refusal.body["message"] = (
                f"Operation cannot be fulfilled on {status.qualify(kind.kind, kind.group)} "
                f'"{live["metadata"]["name"]}": the {title} in the precondition ({given}) does not match the {title} '
                f"in record ({held}). The object might have been deleted and then recreated"
            )
            raise refusal


def _mark_deleted(metadata: Document, grace_s: int) -> None:
    if "deletionTimestamp" not in metadata:
        metadata["deletionTimestamp"] = now()
        metadata["generation"] = metadata.get("generation", 0) + 1
    metadata["deletionGracePeriodSeconds"] = grace_s


def _find_grace(kind: Kind, live: Document, options: Document) -> int:
    """How long a pod may take to end; the kubelet deletes it with 0 when it has."""
    if kind.plural != "pods" or not live.get("spec", {}).get("nodeName"):
        return 0
    given = options.get("gracePeriodSeconds")
    return int(live["spec"].get("terminationGracePeriodSeconds", 30) if given is None else given)

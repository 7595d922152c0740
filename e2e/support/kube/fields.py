"""Who owns which field of a document: what server-side apply decides by, written as Kubernetes writes it (FieldsV1)."""

import copy
import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from e2e.support.kube.schema import ANY, STRING, Schema, list_of, map_of, obj
from e2e.support.kube.status import Document, Json, Refusal

Place: TypeAlias = tuple[str, ...]
"""A path whose steps are written as in FieldsV1: `f:name` for a field, `k:{...}` for an item of a list."""

_OWNED_METADATA: Final = obj(
    annotations=map_of(),
    labels=map_of(),
    finalizers=list_of(STRING),
    ownerReferences=list_of(obj(uid=STRING), "uid"),
)


class Manager(NamedTuple):
    """Who writes, and how."""

    name: str
    operation: str
    version: str
    subresource: str = ""


def list_places(schema: Schema, value: Json, at: Place = ()) -> Iterator[Place]:
    """Every place of the document that can be owned."""
    if isinstance(value, dict) and value and not schema.is_atomic:
        for name, held in value.items():
            yield from list_places(schema.at(name) or ANY, held, (*at, f"f:{name}"))
    elif isinstance(value, list) and value and schema.keys:
        for item in value:
            place = (*at, _name_item(schema, item))
            yield place
            yield from list_places(schema.values or ANY, item, place)
    elif at:
        yield at


def find_value(schema: Schema, value: Json, place: Place) -> Json:
    """What stands at the place, or None."""
    for step in place:
        if isinstance(value, dict):
            name = step.removeprefix("f:")
            value, schema = value.get(name), schema.at(name) or ANY
        elif isinstance(value, list):
            value = next((item for item in value if _name_item(schema, item) == step), None)
            schema = schema.values or ANY
        else:
            return None
    return value


def remove_value(schema: Schema, value: Json, place: Place) -> None:
    """Take out what stands at the place, and what has become empty by it."""
    step, *rest = place
    if isinstance(value, dict):
        name = step.removeprefix("f:")
        if rest and name in value:
            remove_value(schema.at(name) or ANY, value[name], tuple(rest))
        if name in value and (not rest or value[name] in ({}, [])):
            del value[name]
    elif isinstance(value, list):
        for item in [item for item in value if _name_item(schema, item) == step]:
            if rest:
                remove_value(schema.values or ANY, item, tuple(rest))
            else:
                value.remove(item)


def merge(schema: Schema, live: Json, wanted: Json) -> Json:
    """The document with what is wanted put over it; items of lists are told apart by their keys."""
    if isinstance(live, dict) and isinstance(wanted, dict) and not schema.is_atomic:
        merged = dict(live)
        for name, value in wanted.items():
            merged[name] = merge(schema.at(name) or ANY, live.get(name), value)
        return merged
    if isinstance(live, list) and isinstance(wanted, list) and schema.keys:
        named = {_name_item(schema, item): item for item in live}
        for item in wanted:
            name = _name_item(schema, item)
            named[name] = merge(schema.values or ANY, named.get(name), item)
        return list(named.values())
    return copy.deepcopy(wanted)


def apply(schema: Schema, live: Document, wanted: Document, manager: Manager, *, force: bool) -> Document:
    """What becomes of `live` when `manager` applies `wanted`. Raises Refusal (409) where others own what it changes."""
    owned = load_owners(live)
    mine = set(list_places(_with_metadata(schema), strip(wanted)))
    _refuse_conflicts(_with_metadata(schema), live, wanted, manager, {} if force else owned)
    before = owned.get(manager, set())
    changed = merge(_with_metadata(schema), copy.deepcopy(live), wanted)
    others: set[Place] = set().union(*(places for one, places in owned.items() if one != manager))
    for place in sorted(before - mine - others, key=len, reverse=True):
        remove_value(_with_metadata(schema), changed, place)
    if force:
        owned = {one: places - mine if one != manager else places for one, places in owned.items()}
    _store_owners(changed, owned | {manager: mine}, manager)
    return changed  # type: ignore[no-any-return]  # two documents merge into one


def take_over(schema: Schema, live: Document, changed: Document, manager: Manager) -> None:
    """Give `manager` what it changed by an ordinary write, in place."""
    owned = load_owners(live)
    whole = _with_metadata(schema)
    before, now = set(list_places(whole, strip(live))), set(list_places(whole, strip(changed)))
    fresh = {
        place
        for place in now
        if place not in before or find_value(whole, live, place) != find_value(whole, changed, place)
    }
    lost = before - now
    owned = {one: places - lost - (fresh if one != manager else set()) for one, places in owned.items()}
    owned[manager] = owned.get(manager, set()) | fresh
    _store_owners(changed, owned, manager if fresh or lost else None)


def strip(document: Document) -> Document:
    """The document without what nobody owns."""
    kept = {name: value for name, value in document.items() if name not in {"apiVersion", "kind", "metadata"}}
    metadata = {
        name: value for name, value in document.get("metadata", {}).items() if name in _OWNED_METADATA.fields and value
    }
    return kept | ({"metadata": metadata} if metadata else {})


def load_owners(document: Document) -> dict[Manager, set[Place]]:
    """Who owns what, as the document says."""
    owned = {}
    for entry in document.get("metadata", {}).get("managedFields") or ():
        manager = Manager(entry["manager"], entry["operation"], entry["apiVersion"], entry.get("subresource", ""))
        owned[manager] = set(_read_fields(entry["fieldsV1"]))
    return owned


def _refuse_conflicts(
    schema: Schema, live: Document, wanted: Document, manager: Manager, owned: dict[Manager, set[Place]]
) -> None:
    changed = [
        place
        for place in list_places(schema, strip(wanted))
        if not place[-1].startswith("k:") and find_value(schema, live, place) != find_value(schema, wanted, place)
    ]
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f'conflict with "{other.name}" using {other.version}',
            "field": write_place(place),
        }
        for other, places in owned.items()
        if other != manager
        for place in sorted(set(changed) & places)
    ]
    if not causes:
        return
    raise Refusal(409, _say_conflicts(causes), details={"causes": causes})


def _say_conflicts(causes: Sequence[Mapping[str, str]]) -> str:
    if len(causes) == 1:
        return f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    said = f"Apply failed with {len(causes)} conflicts:"
    for message in dict.fromkeys(cause["message"] for cause in causes):
        listed = "".join(f"\n- {cause['field']}" for cause in causes if cause["message"] == message)
        said += f" {message.replace('conflict', 'conflicts', 1)}:{listed}"
    return said


def write_place(place: Sequence[str]) -> str:
    """The place as messages name it."""
    said = ""
    for step in place:
        if step.startswith("k:"):
            keys = ",".join(f"{name}={json.dumps(value)}" for name, value in json.loads(step[2:]).items())
            said += f"[{keys}]"
        else:
            said += f".{step.removeprefix('f:')}"
    return said


def _with_metadata(schema: Schema) -> Schema:
    if schema.type == "any":
        return Schema(type="object", fields={"metadata": _OWNED_METADATA}, values=ANY)
    return Schema(type="object", fields={**schema.fields, "metadata": _OWNED_METADATA}, values=ANY)


def _name_item(schema: Schema, item: Json) -> str:
    known = (schema.values or ANY).fields
    keys = {}
    for key in schema.keys:
        default = known[key].default if key in known and known[key].has_default else None
        keys[key] = item.get(key, default) if isinstance(item, dict) else None
    return f"k:{json.dumps(keys, sort_keys=True, separators=(',', ':'))}"


def _store_owners(document: Document, owned: dict[Manager, set[Place]], writer: Manager | None) -> None:
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    times = {
        (entry["manager"], entry["operation"], entry.get("subresource", "")): entry["time"]
        for entry in document.get("metadata", {}).get("managedFields") or ()
    }
    entries = []
    for manager, places in owned.items():
        if not places:
            continue
        known = times.get((manager.name, manager.operation, manager.subresource))
        entry: Document = {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": manager.version,
            "time": now if manager == writer or known is None else known,
            "fieldsType": "FieldsV1",
            "fieldsV1": _write_fields(places),
        }
        entries.append(entry | ({"subresource": manager.subresource} if manager.subresource else {}))
    document.setdefault("metadata", {})["managedFields"] = entries


def _write_fields(places: set[Place]) -> Document:
    tree: Document = {}
    for place in sorted(places):
        node = tree
        for step in place:
            node = node.setdefault(step, {})
        if place[-1].startswith("k:"):
            node["."] = {}
    return tree


def _read_fields(tree: Document, at: Place = ()) -> Iterator[Place]:
    for step, below in tree.items():
        if step == ".":
            yield at
        elif below:
            yield from _read_fields(below, (*at, step))
        else:
            yield (*at, step)

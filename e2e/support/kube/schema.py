"""What a document of one kind may hold: types, defaults, required fields, bounds and the keys of its lists.

The same rules by which a real API server judges a custom resource, as far as StarForge's own documents touch them.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from e2e.support.kube.status import Json

_NOTHING: Final = object()
_TYPES: Final = {"string": str, "boolean": bool, "integer": int, "number": (int, float), "object": dict, "array": list}


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """One place of a document.

    Attributes:
        type: A type of JSON; "quantity" takes strings and integers, "any" takes everything.
        fields: What an object may hold.
        values: What every value of a map or every item of a list is.
        keys: The fields that tell the items of a list apart; without them a list is one value.
        is_atomic: A map that is one value.

    """

    type: str
    fields: Mapping[str, "Schema"] = field(default_factory=dict)
    values: "Schema | None" = None
    required: tuple[str, ...] = ()
    default: Json = _NOTHING
    minimum: int | None = None
    enum: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    is_atomic: bool = False

    @property
    def has_default(self) -> bool:
        """Whether a field that is left out gets a value."""
        return self.default is not _NOTHING

    def at(self, name: str) -> "Schema | None":
        """The schema of a field; None for one that is not known."""
        return self.fields.get(name) or (self.values if self.type == "object" else None)


ANY: Final = Schema(type="any")
STRING: Final = Schema(type="string")
BOOLEAN: Final = Schema(type="boolean")
INTEGER: Final = Schema(type="integer")
QUANTITY: Final = Schema(type="quantity")


def obj(_required: str = "", /, **fields: Schema) -> Schema:
    """An object with these fields; the names of those that must be there, in one string."""
    return Schema(type="object", fields=fields, required=tuple(_required.split()))


def map_of(values: Schema = STRING) -> Schema:
    """An object with any keys."""
    return Schema(type="object", values=values)


def list_of(item: Schema, *keys: str) -> Schema:
    """A list; `keys` tell its items apart."""
    return Schema(type="array", values=item, keys=keys)


def integer(default: Json = _NOTHING, minimum: int | None = None) -> Schema:
    """A whole number."""
    return Schema(type="integer", default=default, minimum=minimum)


def string(default: Json = _NOTHING, *enum: str) -> Schema:
    """A text, or one of some texts."""
    return Schema(type="string", default=default, enum=enum)


def fill_defaults(schema: Schema, value: Json) -> None:
    """Give what is left out its value, in place."""
    if isinstance(value, dict):
        for name, inner in schema.fields.items():
            if name not in value and inner.has_default:
                value[name] = copy.deepcopy(inner.default)
        for name, held in value.items():
            inner_of = schema.at(name)
            if inner_of is not None:
                fill_defaults(inner_of, held)
    elif isinstance(value, list) and schema.values is not None:
        for item in value:
            fill_defaults(schema.values, item)


def list_unknown(schema: Schema, value: Json, path: str = "") -> Iterator[str]:
    """Where the document holds fields that its schema does not know."""
    if isinstance(value, dict) and (schema.fields or schema.values):
        for name in sorted(value):
            inner = schema.at(name)
            place = f"{path}.{name}" if path else name
            if inner is None:
                yield place
            else:
                yield from list_unknown(inner, value[name], place)
    elif isinstance(value, list) and schema.values is not None:
        for index, item in enumerate(value):
            yield from list_unknown(schema.values, item, f"{path}[{index}]")


def prune(schema: Schema, value: Json) -> None:
    """Take out what the schema does not know, in place."""
    if isinstance(value, dict) and (schema.fields or schema.values):
        for name in list(value):
            inner = schema.at(name)
            if inner is None:
                del value[name]
            else:
                prune(inner, value[name])
    elif isinstance(value, list) and schema.values is not None:
        for item in value:
            prune(schema.values, item)


def list_causes(schema: Schema, value: Json, path: str) -> Iterator[dict[str, str]]:
    """What is wrong with the document, as causes of a 422."""
    if not _has_type(schema.type, value):
        yield _wrong_type(schema, value, path)
        return
    if schema.enum and value not in schema.enum:
        allowed = ", ".join(f'"{one}"' for one in schema.enum)
        yield _cause("FieldValueNotSupported", f'Unsupported value: "{value}": supported values: {allowed}', path)
    if schema.minimum is not None and value < schema.minimum:
        said = f"Invalid value: {value}: {path} in body should be greater than or equal to {schema.minimum}"
        yield _cause("FieldValueInvalid", said, path)
    if isinstance(value, dict):
        yield from _list_causes_below(schema, value, path)
    elif isinstance(value, list) and schema.values is not None:
        for index, item in enumerate(value):
            yield from list_causes(schema.values, item, f"{path}[{index}]")


def _list_causes_below(schema: Schema, value: dict[str, Json], path: str) -> Iterator[dict[str, str]]:
    for name in schema.required:
        if name not in value:
            yield _cause("FieldValueRequired", "Required value", f"{path}.{name}")
    for name, held in value.items():
        inner = schema.at(name)
        if inner is not None:
            yield from list_causes(inner, held, f"{path}.{name}")


def _has_type(kind: str, value: Json) -> bool:
    if kind == "any":
        return True
    if kind == "quantity":
        return isinstance(value, str | int | float) and not isinstance(value, bool)
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES[kind])  # type: ignore[arg-type]  # types or tuples of types


def _wrong_type(schema: Schema, value: Json, path: str) -> dict[str, str]:
    given = next(name for name in ("boolean", *_TYPES) if _has_type(name, value)) if value is not None else "null"
    said = f'Invalid value: "{given}": {path} in body must be of type {schema.type}: "{given}"'
    return _cause("FieldValueTypeInvalid", said, path)


def _cause(reason: str, message: str, path: str) -> dict[str, str]:
    return {"reason": reason, "message": message, "field": path}

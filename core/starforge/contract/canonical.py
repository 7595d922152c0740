"""Canonical JSON and its digest: one spec has one digest on every machine."""

import hashlib
import json
import math
from typing import Final, TypeAlias

from starforge.contract.ids import Digest
from starforge.errors import SpecError

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

_MAX_DEPTH: Final = 64


def canonical_json(value: Json) -> bytes:
    """`value` as canonical JSON in UTF-8.

    Keys are sorted by code point, there are no spaces, members that are null are left out, integers are written as
    integers and other numbers as Python's `repr(float)`, which is the shortest text that reads back as the same number.

    Raises:
        SpecError: a number that JSON cannot carry, a lone surrogate, or nesting deeper than 64.

    """
    try:
        return json.dumps(
            _without_nulls(value, 0), ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
        ).encode()
    except UnicodeEncodeError as error:
        raise SpecError(
            "a text holds half of a surrogate pair", why=str(error), next_step="write the text in UTF-8"
        ) from error


def digest_json(value: Json) -> Digest:
    """The digest of `value`'s canonical JSON."""
    return digest_bytes(canonical_json(value))


def digest_bytes(content: bytes) -> Digest:
    """The digest of these bytes."""
    return Digest("sha256:" + hashlib.sha256(content).hexdigest())


def _without_nulls(value: Json, depth: int) -> Json:
    if depth > _MAX_DEPTH:
        raise SpecError(f"the value is nested deeper than {_MAX_DEPTH} levels", next_step="make it flatter")
    if isinstance(value, dict):
        return {key: _without_nulls(member, depth + 1) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [_without_nulls(member, depth + 1) for member in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise SpecError(f"{value} is no number that a spec can hold", next_step="write it as a text")
    return value

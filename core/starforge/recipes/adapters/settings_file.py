"""Settings as a file that every YAML reader understands alike: JSON, written so that PyYAML reads it as JSON."""

import json
import re
from collections.abc import Mapping
from typing import Final

from starforge.contract.canonical import Json

_INDENT: Final = "  "
_NOT_IN_YAML: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON takes as they are, and YAML takes for the end of a line or not at all."""


def dump_settings(settings: Mapping[str, Json]) -> str:
    """One member a line, sorted by name, so that the same settings are the same text. Pure."""
    return _dump(dict(settings), "") + "\n"


def _dump(value: Json, indent: str) -> str:
    inner = indent + _INDENT
    if isinstance(value, dict) and value:
        rows = [f"{inner}{_dump_scalar(key)}: {_dump(value[key], inner)}" for key in sorted(value)]
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return "[\n" + ",\n".join(f"{inner}{_dump(item, inner)}" for item in value) + f"\n{indent}]"
    if isinstance(value, list):
        return "[" + ", ".join(_dump_scalar(item) for item in value) + "]"
    return _dump_scalar(value)


def _dump_scalar(value: Json) -> str:
    if isinstance(value, float):
        return dump_float(value)
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def dump_float(value: float) -> str:
    """The number with a point: PyYAML takes `1e-05` for a text and `1.0e-05` for a number."""
    mantissa, exponent, power = json.dumps(value, allow_nan=False).partition("e")
    return f"{mantissa}.0{exponent}{power}" if exponent and "." not in mantissa else f"{mantissa}{exponent}{power}"

"""The page docs/dev/settings.md: every setting of the console, read from the groups that read the environment."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings

from starforge_console.settings.console import GROUPS

_HEAD: Final = """\
# Settings of the console

Generated from `starforge_console.settings`; `make fix` writes it anew and `make check` compares. The console reads
these variables from its environment once, when it starts. One that cannot be used stops the start, and every fault is
named.
"""
_COLUMNS: Final = "| variable | default | what it is | values |\n|---|---|---|---|"
_BOUNDS: Final = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
    "pattern": "matches `{}`",
}


def build_page(groups: Sequence[type[BaseSettings]] = GROUPS) -> str:
    """The whole page, the same text for the same settings on every machine."""
    return _HEAD + "".join(f"\n{_build_group(group)}" for group in groups)


def _build_group(group: type[BaseSettings]) -> str:
    prefix = group.model_config.get("env_prefix", "")
    schema = group.model_json_schema()
    rows = [
        _build_row(f"{prefix}{name}".upper(), field, _describe_values(schema["properties"][name], schema))
        for name, field in group.model_fields.items()
    ]
    purpose = inspect.cleandoc(group.__doc__ or "")
    return "\n".join([f"## {group.__name__.removesuffix('Settings')}", "", purpose, "", _COLUMNS, *rows]) + "\n"


def _build_row(name: str, field: FieldInfo, values: str) -> str:
    if not field.description:
        raise ValueError(f"{name} has no description: give its field one")
    cells = (f"`{name}`", _describe_default(name, field), field.description, values)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _describe_default(name: str, field: FieldInfo) -> str:
    """The default; one that depends on the machine is what its factory's docstring promises."""
    if field.default_factory is not None:
        promised = inspect.getdoc(field.default_factory)
        if not promised:
            raise ValueError(f"the default of {name} depends on the machine: say how in its factory's docstring")
        return promised.rstrip(".")
    if field.default is PydanticUndefined:
        return "none: it must be set"
    value = getattr(field.default, "value", field.default)
    return "unset" if value is None else "empty" if value == "" else f"`{value}`"


def _describe_values(described: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """Type and bounds in words."""
    if "$ref" in described:
        return _describe_values(schema["$defs"][described["$ref"].rpartition("/")[2]], schema)
    if "anyOf" in described:
        return " or ".join(_describe_values(one, schema) for one in described["anyOf"] if one != {"type": "null"})
    if "enum" in described or "const" in described:
        return ", ".join(f"`{value}`" for value in described.get("enum", [described.get("const")]))
    kind = "path" if described.get("format") == "path" else described["type"]
    bounds = [text.format(described[name]) for name, text in _BOUNDS.items() if name in described]
    return ", ".join([kind, *bounds])

"""Settings as hydra's command line takes them: `key=value`, quoted so that each arrives as what it was."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from starforge.contract.canonical import Json
from starforge.errors import LaunchRefused
from starforge.recipes.adapters.settings_file import dump_float, refuse_known
from starforge.recipes.model import Recipe

_BARE: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")
_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.@-]*")
_SIGNED_KEY: Final = re.compile(rf"(?P<sign>\+\+|\+)?(?P<key>{_KEY.pattern})")
_WORDS: Final = frozenset({"null", "none", "true", "false", "yes", "no", "on", "off", "nan", "inf"})
_QUOTE: Final = re.compile(r"(\\*)('|\Z)")


def build_overrides(settings: Mapping[str, Json], extra: Mapping[str, Json]) -> tuple[str, ...]:
    """One override for each setting, sorted by key, then those of `extra`. Pure.

    The members of a map are set one by one, also where the framework's own map is empty (`++`).
    """
    own = [f"{key}={dump_value(settings[key])}" for key in sorted(settings) if not _has_members(settings[key])]
    maps = {key: value for key, value in settings.items() if _has_members(value)}
    members = [f"++{key}={dump_value(value)}" for key, value in sorted(_list_leaves(maps))]
    return (*own, *members, *(f"{key}={dump_value(extra[key])}" for key in sorted(extra)))


def flatten_extra(recipe: Recipe, extra: Mapping[str, Json]) -> dict[str, Json]:
    """`extra` by full names. A name may begin with hydra's own `+` (a new key) or `++` (new or not). Pure.

    Raises:
        LaunchRefused: a name that hydra could not read, that the recipe has, or that the platform sets: itself, or
            something below it.

    """
    flat = dict(_list_leaves(extra))
    for name in flat:
        found = _SIGNED_KEY.fullmatch(name)
        if found is None:
            raise LaunchRefused(f"extra holds {name!r}, which is no name of a setting", next_step="write a.b.c")
        _refuse_above(recipe, found["key"])
        refuse_known(recipe, found["key"])
    return flat


def dump_value(value: Json) -> str:
    """The value in hydra's grammar. Pure."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return dump_float(value)
    if isinstance(value, list):
        return "[" + ",".join(dump_value(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{_dump_key(key)}:{dump_value(item)}" for key, item in value.items()) + "}"
    return _dump_text(value) if isinstance(value, str) else str(value)


def _refuse_above(recipe: Recipe, name: str) -> None:
    owned = (*recipe.platform_parameters, *recipe.fixed)
    below = next((one for one in owned if one.startswith(f"{name}.")), None)
    if below is not None:
        raise LaunchRefused(
            f"extra holds {name!r}, and below it {below!r} is set by the platform", next_step="name what is below it"
        )


def _dump_text(text: str) -> str:
    """Bare where nobody could take it for anything else; in quotes, backslashes before a quote are doubled."""
    if _BARE.fullmatch(text) and text.lower() not in _WORDS:
        return text
    quoted = _QUOTE.sub(lambda found: found[1] * 2 + (r"\'" if found[2] else ""), text)
    return f"'{quoted}'"


def _dump_key(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise LaunchRefused(f"{key!r} cannot be a key inside a list", next_step="use letters, digits and underscores")
    return key


def _has_members(value: Json) -> bool:
    return isinstance(value, dict) and bool(value)


def _list_leaves(settings: Mapping[str, Json], prefix: str = "") -> Iterator[tuple[str, Json]]:
    for key, value in settings.items():
        if isinstance(value, dict) and value:
            yield from _list_leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value

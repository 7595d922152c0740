"""The page docs/dev/errors.md: every error, its code, its HTTP status and exit code, and what its reader can do."""

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Final

import starforge
import starforge.errors
import starforge_console
import starforge_console.errors
from starforge.errors import StarForgeError
from starforge_console.errors import status_of
from starforge_console.web.faults import FAULTS

_HEAD: Final = """\
# Errors

Generated from the error classes; `make fix` writes it anew and `make check` compares. The code stands in the API's
problem documents and in what commands print with `--json`, and means the same in both. The status is that of the API's
answer, the exit code that of `sf` and `starforge-console`.

| code | error | what happened | what to do | status | exit code |
|---|---|---|---|---|---|
"""
_FAULTS_HEAD: Final = """\

Some requests never reach a route, so no class stands behind what API and pages answer (`starforge_console.web.faults`).
`sf` reports them as the error of their status.

| code | what happened | what to do | status |
|---|---|---|---|
"""
_BRANCH: Final = re.compile(r"^[│ ]*[├└]── (?P<name>\w+) *(?:\(\w+\) )?(?P<advice>.*)$", re.MULTILINE)
_IN_IMAGES: Final = "starforge.runner."
"""What runs in images knows none of these errors, and parts of it import what only images hold."""
_TREES: Final = (starforge.errors, starforge_console.errors)


def build_page(kinds: Mapping[str, type[StarForgeError]] | None = None) -> str:
    """The whole page, the same text for the same classes."""
    advice = _read_trees()
    found = find_kinds() if kinds is None else kinds
    return (
        _HEAD + "".join(_build_row(kind, advice) for _, kind in sorted(found.items())) + _FAULTS_HEAD + _build_faults()
    )


def _build_faults() -> str:
    return "".join(f"| `{one.code}` | {one.what} | {one.next_step} | {one.statuses} |\n" for one in FAULTS)


def find_kinds() -> dict[str, type[StarForgeError]]:
    """Every public error class of core and console, by code; the console's where core has one of the same code."""
    for package in (starforge, starforge_console):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.startswith(_IN_IMAGES):
                importlib.import_module(module.name)
    found = sorted(filter(_is_public, _list_below(StarForgeError)), key=lambda kind: kind.__module__)
    return {kind.code: kind for kind in found}


def _list_below(kind: type[StarForgeError]) -> Iterator[type[StarForgeError]]:
    for below in kind.__subclasses__():
        yield below
        yield from _list_below(below)


def _is_public(kind: type[StarForgeError]) -> bool:
    """A class without a code of its own is its parent to all who are told of it."""
    return "code" in vars(kind) and not kind.__name__.startswith("_")


def _read_trees(modules: tuple[ModuleType, ...] = _TREES) -> dict[str, str]:
    """What the trees at the head of the error modules advise, by the name of the class."""
    found = (match for module in modules for match in _BRANCH.finditer(module.__doc__ or ""))
    return {match["name"]: match["advice"].strip() for match in found if match["advice"].strip()}


def _build_row(kind: type[StarForgeError], advice: Mapping[str, str]) -> str:
    what = (kind.__doc__ or "").strip().partition("\n")[0]
    todo = next((advice[base.__name__] for base in kind.__mro__ if base.__name__ in advice), "read what it says")
    place = f"`{kind.__module__}.{kind.__name__}`"
    status = status_of(kind.__new__(kind))  # the class alone decides
    return f"| `{kind.code}` | {place} | {what} | {todo} | {status} | {kind.exit_code} |\n"

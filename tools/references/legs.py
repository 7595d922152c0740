"""The page docs/dev/legs.md: every leg of the test-suite, the command that runs it, and what the machine must have."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

_ROOT: Final = Path(__file__).resolve().parents[2]
_HEAD: Final = """\
# Legs of the test-suite

Generated from `tests/floors.toml`; `make fix` writes it anew and `make check` compares. The floors themselves stand
there alone: they rise with every test.

| leg | command | runs | parts it requires | in `make ci` |
|---|---|---|---|---|
"""
_PARTS_HEAD: Final = """
A part is a marker of pytest:

| part | its tests |
|---|---|
"""
_COMMANDS: Final = {"fast": "make test-fast", "test": "make test"}
_END_TO_END: Final = "e2e-"


def build_page(floors: str | None = None, project: str | None = None) -> str:
    """The whole page from the texts of `tests/floors.toml` and `pyproject.toml`, the repository's where none is given.

    Raises:
        ValueError: a leg says nothing in `about`, no command runs it, or its part is no marker.
    """
    legs: dict[str, dict[str, Any]] = tomllib.loads(floors or _read("tests/floors.toml"))["leg"]
    options = tomllib.loads(project or _read("pyproject.toml"))["tool"]["pytest"]["ini_options"]
    markers = dict(marker.split(": ", 1) for marker in options["markers"])
    rows = [_build_row(name, leg, markers) for name, leg in legs.items()]
    parts = [f"| `{name}` | {about} |\n" for name, about in sorted(markers.items()) if name in options["parts"]]
    return _HEAD + "".join(rows) + _PARTS_HEAD + "".join(parts)


def _read(name: str) -> str:
    return (_ROOT / name).read_text(encoding="utf-8")


def _build_row(name: str, leg: Mapping[str, Any], markers: Mapping[str, str]) -> str:
    about = leg.get("about")
    if not about:
        raise ValueError(f"tests/floors.toml: leg {name} has no `about`: say in a few words what it runs")
    required, optional = leg.get("parts", {}), leg.get("optional", {})
    unknown = [part for part in (*required, *optional) if part not in markers]
    if unknown:
        raise ValueError(f"tests/floors.toml: leg {name}: {unknown} are no markers of pytest in pyproject.toml")
    named = [*(f"`{part}`" for part in required), *(f"`{part}` (optional)" for part in optional)]
    parts = ", ".join(named) or "none"
    return f"| `{name}` | `{_find_command(name)}` | {about} | {parts} | {'yes' if leg.get('ci') else 'no'} |\n"


def _find_command(name: str) -> str:
    if name.startswith(_END_TO_END):
        return f"make e2e T={name.removeprefix(_END_TO_END)}"
    if name not in _COMMANDS:
        raise ValueError(f"tests/floors.toml: no command runs leg {name}: call it {_END_TO_END}NAME, or add one")
    return _COMMANDS[name]

"""Every declared dependency has its line in docs/dev/dependencies.md and its pin in requirements.lock."""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PAGE: Final = Path("docs/dev/dependencies.md")
LOCK: Final = Path("requirements.lock")
MEMBERS: Final = ("core", "server", "forgelet")


def find_violations(root: Path) -> list[str]:
    """One sentence for each dependency without a line or a fitting pin, and for each line that speaks of none."""
    declared = dict(_declared(root))
    described = set(re.findall(r"^\| `([^`]+)`", (root / PAGE).read_text(encoding="utf-8"), flags=re.MULTILINE))
    pins = _load_pins(root / LOCK)
    violations = [f"{name}: is declared and has no line in {PAGE}" for name in sorted(set(declared) - described)]
    violations += [
        f"{name}: has a line in {PAGE} and is declared nowhere" for name in sorted(described - set(declared))
    ]
    for name, wanted in sorted(declared.items()):
        pin = pins.get(name)
        if pin is None or not wanted.specifier.contains(pin, prereleases=True):
            violations.append(f"{name}: {LOCK} has {pin or 'no version'}, declared is {wanted}. Run make lock")
    return violations


def _declared(root: Path) -> Iterator[tuple[str, Requirement]]:
    """Name and requirement of all that the packages, their extras and the tool groups ask for; ours left out."""
    lines: list[str] = []
    for member in MEMBERS:
        project: dict[str, Any] = _load_toml(root / member / "pyproject.toml")["project"]
        lines += project["dependencies"]
        for extra in project.get("optional-dependencies", {}).values():
            lines += extra
    for group in _load_toml(root / "pyproject.toml")["dependency-groups"].values():
        lines += group
    for line in lines:
        requirement = Requirement(line)
        name = canonicalize_name(requirement.name)
        if not name.startswith("starforge-"):
            yield name, requirement


def _load_pins(path: Path) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9][\w.-]*)==([^\s;\\]+)", path.read_text(encoding="utf-8"), flags=re.MULTILINE))


def _load_toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    found = find_violations(Path.cwd())
    sys.exit("\n".join(found) if found else 0)

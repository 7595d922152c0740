"""forgelet.lock, which the console ships, is what requirements.lock says of forgelet's packages; `--write` writes it.

The console downloads these files for machines of other kinds than its own without resolving anything.
"""

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from starforge_console.wheels.lock import LOCK_FILE, Pin, parse_lock
from starforge_console.wheels.targets import TARGETS

SOURCE: Final = Path("requirements.lock")
LOCK: Final = Path("server/starforge_console/wheels") / LOCK_FILE
ROOTS: Final = ("starforge-forgelet", "pip")
_FOLDERS: Final = {"starforge-forgelet": "forgelet", "starforge-core": "core"}
_PATCH_RELEASE: Final = re.compile(r"python_full_version\s*[<>=!~]+\s*['\"]\d+\.\d+\.[1-9]")
_HEAD: Final = (
    "# What forgelet needs on any machine. Made from requirements.lock; make lock and make fix write it anew.\n"
)


def find_violations(root: Path) -> list[str]:
    """One sentence when the file is not what its sources say, or names what cannot be decided beforehand."""
    wanted = build_lock(root)
    path = root / LOCK
    present = path.read_text(encoding="utf-8") if path.is_file() else ""
    return [
        *([] if present == wanted else [f"{LOCK}: is not what {SOURCE} says. Run make fix"]),
        *_find_undecidable(_load_needed(root)),
    ]


def build_lock(root: Path) -> str:
    """The pins of `SOURCE` that forgelet's packages need on any kind of machine."""
    chosen = [pin for pin in _load_needed(root) if any(pin.is_needed(target) for target in TARGETS)]
    return _HEAD + "".join(_render(pin) for pin in chosen)


def _load_needed(root: Path) -> list[Pin]:
    """The pins of the packages that forgelet needs, whatever machine their markers speak of."""
    needed = _find_closure(root)
    return [pin for pin in parse_lock((root / SOURCE).read_text(encoding="utf-8")) if pin.name in needed]


def _find_closure(root: Path) -> set[str]:
    found: set[tuple[str, str]] = set()
    left = [(name, "") for name in ROOTS]
    while left:
        package = left.pop()
        if package in found:
            continue
        found.add(package)
        for requirement in _load_requirements(root, *package):
            name = canonicalize_name(requirement.name)
            left += [(name, extra) for extra in ("", *requirement.extras)]
    return {name for name, _ in found}


def _load_requirements(root: Path, name: str, extra: str) -> Iterator[Requirement]:
    """What the package, or its extra, asks for on at least one kind of machine."""
    for line in _load_lines(root, name):
        requirement = Requirement(line)
        marker = requirement.marker
        environments = [{**target.build_environment(), "extra": extra} for target in TARGETS]
        if marker is None or any(marker.evaluate(environment) for environment in environments):
            yield requirement


def _load_lines(root: Path, name: str) -> list[str]:
    if name not in _FOLDERS:
        try:
            return requires(name) or []
        except PackageNotFoundError:
            raise SystemExit(f"{name} is not installed here, so nobody can see what it needs. Run make dev") from None
    project = tomllib.loads((root / _FOLDERS[name] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras: dict[str, list[str]] = project.get("optional-dependencies", {})
    own = [f'{line} ; extra == "{extra}"' for extra, lines in extras.items() for line in lines]
    return [*project["dependencies"], *own]


def _find_undecidable(pins: Iterable[Pin]) -> Iterator[str]:
    """Pins of which only the machine itself could say whether it needs them."""
    for pin in pins:
        if _PATCH_RELEASE.search(pin.marker):
            yield f"{LOCK}: {pin.name}: the marker {pin.marker!r} tells releases of one Python version apart"


def _render(pin: Pin) -> str:
    marker = f" ; {pin.marker}" if pin.marker else ""
    digests = [f"    --hash=sha256:{digest}" for digest in sorted(pin.digests)]
    return " \\\n".join([f"{pin.name}=={pin.version}{marker}", *digests]) + "\n"


def main(arguments: list[str]) -> int:
    """0 when the file is right, or was written."""
    if arguments == ["--write"]:
        LOCK.write_text(build_lock(Path.cwd()), encoding="utf-8")
        return 0
    found = find_violations(Path.cwd())
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

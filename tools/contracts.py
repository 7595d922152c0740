"""The import contracts cover what is there, and the page on architecture shows their layers.

import-linter stops when a contract names what does not exist yet, so some lists grow with the code. This check says
when one has to grow, and refuses a contract that was taken out.
"""

import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from tools.tree import load_files

ALWAYS: Final = (
    "contract-is-a-leaf",
    "in-image-is-standard-library",
    "package-roots-are-light",
    "core-layers",
    "packages",
    "console-layers",
    "no-cycles",
)
# contract -> (its list, what belongs there as soon as the packages import it)
LIBRARIES: Final = {
    "sql-in-ledger-only": ("protected_modules", ("sqlalchemy",)),
    "web-framework-in-web-only": ("protected_modules", ("fastapi", "starlette")),
}
# contract -> (its list, the modules that belong there as soon as they exist)
MODULES: Final = {
    "in-image-is-standard-library": (
        "source_modules",
        ("starforge.runner", "starforge.reporting", "starforge.contract.bounds", "starforge.contract.capsule"),
    ),
    "web-framework-in-web-only": (
        "allowed_importers",
        ("starforge_console.app", "starforge_console.web", "starforge_forgelet"),
    ),
    "executors-independent": (
        "modules",
        tuple(f"starforge_console.executors.{kind}" for kind in ("fake", "kuberay", "local", "node", "slurm")),
    ),
}
LAYERS: Final = ("core-layers", "console-layers")
PAGE: Final = Path("docs/dev/architecture.md")
FOLDERS: Final = {"starforge": "core", "starforge_console": "server", "starforge_forgelet": "forgelet"}


def find_violations(root: Path) -> list[str]:
    """One sentence for each contract that is missing or whose list leaves out, or names too much of, what is there."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = {contract["id"]: contract for contract in settings["tool"]["importlinter"]["contracts"]}
    violations = [f"import contract {name} is missing from pyproject.toml" for name in ALWAYS if name not in contracts]
    imported = _load_imports(root)
    for name, (field, libraries) in LIBRARIES.items():
        violations += _compare(contracts, name, field, [each for each in libraries if each in imported])
    for name, (field, modules) in MODULES.items():
        present = [module for module in modules if _exists(root, module)]
        # One executor alone has no sibling to be independent of.
        violations += _compare(contracts, name, field, present if len(present) > 1 else [])
    return violations + _compare_page(root, contracts)


def _compare(contracts: Mapping[str, Any], name: str, field: str, wanted: Iterable[str]) -> list[str]:
    listed = set(contracts.get(name, {}).get(field, []))
    if listed == set(wanted):
        return []
    return [
        f"import contract {name}: {field} is {sorted(listed)}, what is there is {sorted(wanted)}. Edit pyproject.toml"
    ]


def _compare_page(root: Path, contracts: Mapping[str, Any]) -> list[str]:
    """One sentence for each layer of a contract that has no place in the first column of the page's tables."""
    text = (root / PAGE).read_text(encoding="utf-8") if (root / PAGE).is_file() else ""
    shown = {
        name for cell in re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE) for name in re.findall(r"`(\w+)`", cell)
    }
    layers = [layer for name in LAYERS for layer in contracts.get(name, {}).get("layers", [])]
    names = [name for layer in layers for name in re.findall(r"\w+", layer)]
    return [
        f"{PAGE}: its tables of layers lack {name}, which pyproject.toml has" for name in names if name not in shown
    ]


def _load_imports(root: Path) -> set[str]:
    """The top-level names that the three packages import anywhere."""
    found: set[str] = set()
    for path in load_files(root, *(f"{folder}/{package}/*.py" for package, folder in FOLDERS.items())):
        text = (root / path).read_text(encoding="utf-8")
        found.update(re.findall(r"^\s*(?:from|import) (\w+)", text, flags=re.MULTILINE))
    return found


def _exists(root: Path, module: str) -> bool:
    package = module.partition(".")[0]
    path = root / FOLDERS[package] / module.replace(".", "/")
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


if __name__ == "__main__":
    found = find_violations(Path.cwd())
    sys.exit("\n".join(found) if found else 0)

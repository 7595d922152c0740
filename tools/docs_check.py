"""Compares each generated reference page with what its generator says now; `--write` writes the pages instead."""

import difflib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tools.references import api, cli, diagnoses, errors, jobspec, legs, metrics, openapi, recipes, settings, states

GENERATED: Final[Mapping[str, Callable[[], str]]] = {
    "docs/dev/states.md": states.build_page,
    "docs/dev/openapi.json": openapi.build_page,
    "docs/dev/api.md": api.build_page,
    "docs/dev/jobspec.schema.json": jobspec.build_page,
    "docs/dev/settings.md": settings.build_page,
    "docs/dev/errors.md": errors.build_page,
    "docs/dev/metrics.md": metrics.build_page,
    "docs/dev/cli.md": cli.build_page,
    "docs/dev/legs.md": legs.build_page,
    **diagnoses.build_pages(),
    **recipes.build_pages(),
}


def find_violations(root: Path, generated: Mapping[str, Callable[[], str]] = GENERATED) -> list[str]:
    """One sentence with a difference for each page that is missing or not what its generator says."""
    violations: list[str] = []
    for name, build_page in generated.items():
        path, wanted = root / name, build_page()
        present = path.read_text(encoding="utf-8") if path.is_file() else ""
        if present != wanted:
            difference = "\n".join(
                difflib.unified_diff(present.splitlines(), wanted.splitlines(), name, "generated", lineterm="")
            )
            violations.append(f"{name}: is not what its source says. Run make fix, then read the change\n{difference}")
    return violations


def apply_pages(root: Path, generated: Mapping[str, Callable[[], str]] = GENERATED) -> None:
    """Writes every generated page."""
    for name, build_page in generated.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(build_page(), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        apply_pages(Path.cwd())
        sys.exit(0)
    found = find_violations(Path.cwd())
    sys.exit("\n".join(found) if found else 0)

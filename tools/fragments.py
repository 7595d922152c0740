"""Changelog fragments have names that towncrier takes up.

A misnamed one would be left out of a release without a word.
"""

import re
import sys
import tomllib
from pathlib import Path

from tools.tree import load_files


def find_violations(root: Path) -> list[str]:
    """One sentence for each file in the fragments' folder whose name or text is not that of a fragment."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
    kinds = [kind["directory"] for kind in settings["type"]]
    name = re.compile(rf"\+?[a-z0-9][a-z0-9-]*\.(?:{'|'.join(kinds)})\.md")
    violations: list[str] = []
    for path in load_files(root, f"{settings['directory']}/*"):
        if path.name in settings["ignore"]:
            continue
        if not name.fullmatch(path.name):
            violations.append(f"{path}: name it +<few-words>.<kind>.md with a kind of: {', '.join(kinds)}")
        elif not (root / path).read_text(encoding="utf-8").strip():
            violations.append(f"{path}: is empty; say in a sentence what a user can notice")
    return violations


if __name__ == "__main__":
    found = find_violations(Path.cwd())
    sys.exit("\n".join(found) if found else 0)

"""Refuses what would tie the repository to one place: package hosts and absolute paths of a workplace."""

import re
import sys
from pathlib import Path
from typing import Final

from tools.tree import load_files

# The patterns are spelled so that they do not match their own line.
PLACES: Final[tuple[tuple[str, re.Pattern[str]], ...]] = (
    (
        "a package host",
        re.compile(r"\b(?:pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|deb\.debian\.org)\b"),
    ),
    ("an index option", re.compile(r"--(?:extra-)?index[-]url[ =]")),
    ("an absolute path of a workplace", re.compile(r"(?<![\w.})\]>*-])/wor[k]/|/root/\.pyen[v]|(?<![\w.])/Users/\w")),
)


def find_violations(root: Path) -> list[str]:
    """`path:line: sentence` for each line of a text file that names such a place."""
    violations: list[str] = []
    for path in load_files(root):
        text = _load_text(root / path)
        for number, line in enumerate(text.splitlines(), start=1):
            violations += [
                f"{path}:{number}: names {kind}: {match.group(0)!r}. Nothing here may depend on where it was written"
                for kind, pattern in PLACES
                if (match := pattern.search(line))
            ]
    return violations


def _load_text(path: Path) -> str:
    """The file's text; nothing for a file that is not text."""
    content = path.read_bytes()
    return "" if b"\0" in content else content.decode("utf-8", errors="replace")


if __name__ == "__main__":
    found = find_violations(Path.cwd())
    sys.exit("\n".join(found) if found else 0)

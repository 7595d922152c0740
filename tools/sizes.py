"""Size limits: a source file of 400 lines, a function of 50, a test file of 600; an exception needs its reason."""

import ast
import sys
from pathlib import Path
from typing import Final

from tools.tree import load_files

MAX_SOURCE_LINES: Final = 400
MAX_TEST_LINES: Final = 600
MAX_FUNCTION_LINES: Final = 50

# "path" or "path::function" -> (limit that holds instead, reason)
EXCEPTIONS: Final[dict[str, tuple[int, str]]] = {
    "server/starforge_console/ledger/migrations/ledger/versions/0001_first_tables.py::upgrade": (
        200,
        "a frozen list of tables in the order of their references; a migration is never edited, so it has no seams",
    ),
    "server/starforge_console/ledger/migrations/series/versions/0001_first_tables.py::upgrade": (
        80,
        "as above",
    ),
}


def find_violations(root: Path, exceptions: dict[str, tuple[int, str]] = EXCEPTIONS) -> list[str]:
    """One sentence for each file or function above its limit, and for each exception that nothing needs any more."""
    violations: list[str] = []
    needed: set[str] = set()
    for path in load_files(root, "*.py"):
        text = (root / path).read_text(encoding="utf-8")
        for name, lines, usual in _measure(path, text):
            limit = exceptions.get(name, (usual, ""))[0]
            if lines > usual:
                needed.add(name)
            if lines > limit:
                violations.append(f"{name}: {lines} lines, at most {limit}. Split it at a seam that has a name")
    stale = sorted(set(exceptions) - needed)
    return violations + [
        f"{name}: keeps an exception it no longer needs; remove it from tools/sizes.py" for name in stale
    ]


def _measure(path: Path, text: str) -> list[tuple[str, int, int]]:
    """Name, lines and usual limit of the file and of each function in it."""
    is_test = "tests" in path.parts or path.parts[0] == "e2e"
    measured = [(str(path), len(text.splitlines()), MAX_TEST_LINES if is_test else MAX_SOURCE_LINES)]
    for node in ast.walk(ast.parse(text, filename=str(path))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            measured.append((f"{path}::{node.name}", lines, MAX_FUNCTION_LINES))
    return measured


if __name__ == "__main__":
    found = find_violations(Path.cwd())
    sys.exit("\n".join(found) if found else 0)

"""What is vendored is what its publisher sent: every such file has its row, with version, licence and digest."""

import hashlib
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

from tools.tree import load_files

TABLES: Final = (
    "server/starforge_console/web/static/VENDORED.toml",
    "e2e/pages/vendor/VENDORED.toml",
    "tools/site/theme/vendor/VENDORED.toml",
)
FOLDERS: Final = ("vendor", "fonts")
"""Folders beside a table in which nothing of ours lies."""
_MEMBERS: Final = frozenset({"path", "package", "version", "licence", "licence_file", "from", "sha256"})


def find_violations(root: Path) -> list[str]:
    """One sentence for each file that differs from its row, and for each that has no row."""
    return [violation for table in TABLES for violation in _check_table(root, root / table)]


def _check_table(root: Path, table: Path) -> list[str]:
    rows: list[dict[str, Any]] = tomllib.loads(table.read_text(encoding="utf-8"))["file"]
    violations = [violation for row in rows for violation in _check_row(table, row)]
    described = {row["path"] for row in rows} | {row["licence_file"] for row in rows}
    folders = [table.parent / name for name in FOLDERS if (table.parent / name).is_dir()] or [table.parent]
    for folder in folders:
        for path in load_files(root, f"{folder.relative_to(root)}/*"):
            name = (root / path).relative_to(table.parent).as_posix()
            if name not in described and name != table.name:
                violations.append(f"{path}: has no row in {table.relative_to(root)}")
    return violations


def _check_row(table: Path, row: dict[str, Any]) -> list[str]:
    if set(row) != _MEMBERS:
        return [f"{table}: a row has the members {sorted(row)}, it needs {sorted(_MEMBERS)}"]
    path = table.parent / row["path"]
    if not path.is_file() or not (table.parent / row["licence_file"]).is_file():
        return [f"{path}: it or its licence is not there"]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != row["sha256"]:
        return [f"{path}: its SHA-256 is {digest}, the row says {row['sha256']}. Vendored files are not edited"]
    return []


if __name__ == "__main__":
    found = find_violations(Path.cwd())
    sys.exit("\n".join(found) if found else 0)

"""What pages name exists: each path, test and dotted name of ours in backticks, in `docs/dev` and promise tables."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.tree import load_files

PAGES: Final = ("docs/dev/*.md", "docs/*/ops/executor-backends.md")
TOP_FOLDERS: Final = frozenset(
    {"core", "server", "forgelet", "docs", "tools", "e2e", "bench", "examples", "tests", "changes", "simulation"}
)
IN_PACKAGES: Final = ("core/starforge", "server/starforge_console", "forgelet/starforge_forgelet")
MODULE_ROOTS: Final = {
    "starforge": "core",
    "starforge_console": "server",
    "starforge_forgelet": "forgelet",
    "tools": ".",
    "e2e": ".",
}
OTHER_NAMES: Final = {"starforge.report": "starforge.reporting"}
"""Names that a package gives to a module when it is asked for it, which no statement shows."""

_SPAN: Final = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_PATH: Final = re.compile(r"[\w.-]+(?:/[\w.*<>-]+)+/?|[\w-]+\.(?:py|sh)|[\w-]+/")
_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_FILES_OF_USERS: Final = (".yaml", ".json", ".md", ".toml")
_UNKNOWN_PART: Final = re.compile(r"[*<>]")


def find_violations(root: Path) -> list[str]:
    """`page:line: sentence` for each path or dotted name that nothing in the tree answers to."""
    present = {str(path) for path in load_files(root)}
    folders = {str(parent) for name in present for parent in Path(name).parents}
    parts = {name for package in IN_PACKAGES for name in _list_children(package, present)}
    names = _Names(root, present)
    violations = []
    for page in load_files(root, *PAGES):
        for number, span in _spans(root / page):
            file, _, test = span.partition("::")
            if test and _is_ours(file):
                missing = not _is_there(file, present) or not names.defines(file, test)
            elif _PATH.fullmatch(span) and _is_ours(span):
                missing = not _is_there(span.rstrip("/"), present | folders)
            elif _PATH.fullmatch(span) and span.split("/", maxsplit=1)[0] in parts:
                missing = not _is_in_a_package(span.rstrip("/"), present | folders)
            elif _is_dotted_name(span):
                missing = not names.has(span)
            else:
                continue
            if missing:
                violations.append(f"{page}:{number}: names `{span}`, which does not exist")
    return violations


def _spans(page: Path) -> Iterator[tuple[int, str]]:
    """What stands in backticks, with its line; lines inside code fences are programs, not names."""
    fenced = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield from ((number, match.group(1)) for match in _SPAN.finditer(line))


def _is_ours(span: str) -> bool:
    """Whether a path begins where the repository does; other paths lie on somebody's disk or in a container."""
    return span.split("/", maxsplit=1)[0] in TOP_FOLDERS or ("/" not in span and span.endswith((".py", ".sh")))


def _list_children(package: str, present: set[str]) -> set[str]:
    """The folders that a package holds: a path that begins with one is short for a path in that package."""
    inside = (name.removeprefix(f"{package}/") for name in present if name.startswith(f"{package}/"))
    return {name.split("/")[0] for name in inside if "/" in name}


def _is_in_a_package(path: str, known: set[str]) -> bool:
    """Whether one of the packages has it, as a folder, a file or a module."""
    return any(_is_there(f"{package}/{path}{suffix}", known) for package in IN_PACKAGES for suffix in ("", ".py"))


def _is_dotted_name(span: str) -> bool:
    """Whether it begins as our modules do; `starforge.yaml` and its like are files."""
    is_name = _DOTTED.fullmatch(span) is not None and span.split(".", maxsplit=1)[0] in MODULE_ROOTS
    return is_name and not span.endswith(_FILES_OF_USERS)


def _is_there(path: str, known: set[str]) -> bool:
    """`*` and `<…>` stand for what a reader fills in: the folder above them must exist. A bare name is anywhere."""
    parts = path.split("/")
    if len(parts) == 1 and path.endswith((".py", ".sh")):
        return any(name.rsplit("/", 1)[-1] == path for name in known)
    while parts and _UNKNOWN_PART.search("/".join(parts)):
        parts.pop()
    return "/".join(parts) in known


class _Names:
    """Dotted names, looked up in the sources: nothing is imported."""

    def __init__(self, root: Path, present: set[str]) -> None:
        self._root = root
        self._present = present
        self._trees: dict[str, ast.Module] = {}

    def has(self, dotted: str) -> bool:
        """Whether `dotted` is a package, a module, or something defined in one, down to a class's members."""
        for name, meant in OTHER_NAMES.items():
            if dotted == name or dotted.startswith(f"{name}."):
                dotted = meant + dotted.removeprefix(name)
        parts = dotted.split(".")
        base = MODULE_ROOTS[parts[0]]
        for length in range(len(parts), 0, -1):
            stem = "/".join(parts[:length]) if base == "." else "/".join((base, *parts[:length]))
            rest = parts[length:]
            if not rest and any(name.startswith(f"{stem}/") for name in self._present):
                return True
            for file in (f"{stem}.py", f"{stem}/__init__.py"):
                if file in self._present:
                    return _defines(self._load(file).body, rest)
        return False

    def defines(self, file: str, name: str) -> bool:
        """Whether `file`, which exists, defines `name` at its top, or in one of its classes."""
        body = self._load(file).body
        classes = [statement.body for statement in body if isinstance(statement, ast.ClassDef)]
        return any(_defines(one, [name]) for one in (body, *classes))

    def _load(self, file: str) -> ast.Module:
        if file not in self._trees:
            self._trees[file] = ast.parse((self._root / file).read_text(encoding="utf-8"))
        return self._trees[file]


def _defines(body: list[ast.stmt], names: list[str]) -> bool:
    if not names:
        return True
    found = next((statement for statement in body if names[0] in _bound(statement)), None)
    if found is None:
        return False
    return len(names) == 1 or (isinstance(found, ast.ClassDef) and _defines(found.body, names[1:]))


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a statement binds in its module or class."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
        case ast.Assign(targets=targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
        case ast.ImportFrom(names=names):
            return {one.asname or one.name for one in names}
    return set()


if __name__ == "__main__":
    found = find_violations(Path.cwd())
    sys.exit("\n".join(found) if found else 0)

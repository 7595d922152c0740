"""What an executor says of an attempt is read on pages in every language: none of it may be without a code."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

import starforge_console
from server.tests.pages.sentences import RUN
from starforge.contract.executor import FleetView, GpuView, NodeView, NoRoom
from starforge.contract.observation import Exit, Gone, NoSignal, Seen
from starforge.errors import LaunchRefused, StarForgeError
from starforge_console.domain.inputs import InputFault
from starforge_console.errors import SettingsError

CONSOLE: Final = Path(starforge_console.__file__).parent
TOLD: Final = (StarForgeError, NoSignal, Gone, Seen, Exit, NodeView, GpuView, FleetView, NoRoom, InputFault)
"""What carries a note: errors of launches, observations and views."""
NO_NOTES: Final = (SettingsError,)
"""Read in a terminal, where the console is started."""
NOTES: Final = frozenset({"what", "why", "next_step", "note", "reason", "why_not", "gpus_unknown", "error"})
LEFT_OUT: Final = {
    "executors/fake.py": "a backend of tests, whose words stand for a backend's own",
    "executors/kuberay/checking.py": "what a command prints in a terminal",
    "executors/kuberay/script.py": "a program for a shell",
    "executors/kuberay/spread.py": "a program for Ray",
    "executors/slurm/checking.py": "what a command prints in a terminal",
    "executors/slurm/script.py": "a program for a shell",
    "executors/slurm/ray.py": "the same",
    "assembly/tokens.py": "read in a terminal, where the console is started",
}
MODULES: Final = sorted(
    path.relative_to(CONSOLE).as_posix()
    for folder in ("executors", "assembly")
    for path in (CONSOLE / folder).rglob("*.py")
    if path.relative_to(CONSOLE).as_posix() not in LEFT_OUT
)

PLANTED: Final = ModuleType("planted")
vars(PLANTED).update(LaunchRefused=LaunchRefused, NoSignal=NoSignal, Seen=Seen)


def find_uncoded(source: str, module: ModuleType) -> list[str]:
    """Every note in the source that is made without a code, and every other text that reads like a sentence."""
    tree = ast.parse(source)
    quiet = {id(node) for left in _list_quiet(tree) for node in ast.walk(left)}
    notes = {
        id(node): node for call in ast.walk(tree) if isinstance(call, ast.Call) for node in _list_notes(call, module)
    }
    texts = [
        node for node in ast.walk(tree) if id(node) in notes or (id(node) not in quiet and RUN.search(_read(node)))
    ]
    return [f"line {node.lineno}: {_read(node)}" for node in texts if isinstance(node, ast.expr)]


def _list_quiet(tree: ast.AST) -> Iterator[ast.AST]:
    """Docstrings, what is logged, the values of what is said, and the parts of a text that is read as a whole."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield from node.values
        elif (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) or (
            isinstance(node, ast.Call) and ast.unparse(node.func).startswith(("_log.", "say"))
        ):
            yield node


def _list_notes(call: ast.Call, module: ModuleType) -> Iterator[ast.expr]:
    made = vars(module).get(call.func.id) if isinstance(call.func, ast.Name) else None
    if not isinstance(made, type) or not issubclass(made, TOLD) or issubclass(made, NO_NOTES):
        return
    told = [keyword.value for keyword in call.keywords if keyword.arg in NOTES]
    told += call.args[:1] if issubclass(made, StarForgeError) else []
    for value in told:
        yield from (node for node in _list_values(value) if any(map(str.isalpha, _read(node))))


def _list_values(value: ast.expr) -> Iterator[ast.expr]:
    """What the value may be."""
    match value:
        case ast.IfExp():
            yield from (*_list_values(value.body), *_list_values(value.orelse))
        case ast.BoolOp():
            yield from (one for part in value.values for one in _list_values(part))
        case ast.BinOp():
            yield from (*_list_values(value.left), *_list_values(value.right))
        case _:
            yield value


def _read(node: ast.AST) -> str:
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr():
            return "".join(_read(part) if isinstance(part, ast.Constant) else "…" for part in node.values)
        case _:
            return ""


@pytest.mark.parametrize("path", MODULES)
def test_every_note_is_said_by_its_code(path: str) -> None:
    name = f"starforge_console.{path.removesuffix('.py').replace('/', '.')}".removesuffix(".__init__")
    assert find_uncoded((CONSOLE / path).read_text(encoding="utf-8"), importlib.import_module(name)) == []


def test_nothing_is_left_out_that_is_not_there() -> None:
    assert [path for path in LEFT_OUT if not (CONSOLE / path).is_file()] == []


@pytest.mark.parametrize(
    "planted",
    [
        'raise LaunchRefused("too large")',
        'raise LaunchRefused(f"{attempt} is fenced")',
        'raise LaunchRefused(say("attempt.fenced"), why="it was" if old else say("attempt.fenced_why"))',
        'NoSignal(reason=reason or "no answer")',
        'Seen(note="queued")',
        'REFUSALS = {1: "the partition does not exist"}',
    ],
)
def test_a_note_without_a_code_is_found(planted: str) -> None:
    assert len(find_uncoded(planted, PLANTED)) == 1


def test_what_is_said_by_code_logged_or_explained_is_no_fault() -> None:
    source = (
        '"""Nobody reads this on a page."""\n_log.info("it was not done at all")\n'
        'raise LaunchRefused(say("attempt.fenced", attempt=attempt), why=str(error))\n'
    )
    assert find_uncoded(source, PLANTED) == []

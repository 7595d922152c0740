"""Whatever a message or a page tells its reader to run can be run."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import starforge
import starforge_console
from starforge.cli.lazy import LazyGroup
from starforge.cli.main import root
from starforge_console.cli.main import main

PROGRAMS = {"sf": root, "starforge-console": main}
NAMED = re.compile(r"(?<![\w./-])(sf|starforge-console)((?: (?:--?)?[A-Za-z][A-Za-z-]*)+)")
QUOTED = re.compile(r"`([^`\n]+)`")
TREES = [Path(module.__file__ or "").parent for module in (starforge, starforge_console)]
PAGES = [path for tree in TREES for kind in ("*.html", "*.mjs", "*.po") for path in tree.rglob(kind)]
MODULES = [path for tree in TREES for path in tree.rglob("*.py")]


def find_fault(program: str, words: list[str]) -> str | None:
    """What of the command line does not exist: its command, or an option of it."""
    command: click.Command = PROGRAMS[program]
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(click.Context(command), words[0])
        if found is None and isinstance(command, LazyGroup) and command.default:
            found, words = command.get_command(click.Context(command), command.default), ["", *words]
        if found is None:
            return f"{program} has no command {words[0]}"
        command, words = found, words[1:]
    known = {name for parameter in command.params for name in parameter.opts} | {"--help", "-h"}
    unknown = [word for word in words if word.startswith("-") and word not in known]
    return f"{command.name} has no option {unknown[0]}" if unknown else None


def list_messages(module: Path) -> Iterator[str]:
    """The texts of a module; of its docstrings, which are prose, what stands in quotes of code."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from QUOTED.findall(node.value) if id(node) in prose else [node.value]


def list_named(texts: Iterator[str]) -> list[tuple[str, list[str]]]:
    return [(program, words.split()) for text in texts for program, words in NAMED.findall(text)]


@pytest.mark.parametrize(
    ("program", "words", "fault"),
    [
        ("sf", "recipes upgrade first", "sf has no command recipes"),
        ("sf", "job restart", "sf has no command restart"),
        ("sf", "submit first --folow", "submit has no option --folow"),
        ("sf", "job logs -f", None),
        ("starforge-console", "token create --user NAME", None),
    ],
)
def test_what_does_not_exist_is_found(program: str, words: str, fault: str | None) -> None:
    assert find_fault(program, words.split()) == fault


def test_every_command_that_a_message_names_exists_with_its_options() -> None:
    named = [(path.name, *one) for path in MODULES for one in list_named(list_messages(path))]
    assert len(named) > 40
    faults = {f"{place}: {find_fault(program, words)}" for place, program, words in named if find_fault(program, words)}
    assert faults == set()


def test_every_command_that_a_page_names_exists_with_its_options() -> None:
    named = [(path.name, *one) for path in PAGES for one in list_named(iter([path.read_text(encoding="utf-8")]))]
    assert named
    faults = {f"{place}: {find_fault(program, words)}" for place, program, words in named if find_fault(program, words)}
    assert faults == set()

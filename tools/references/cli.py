"""The page docs/dev/cli.md: every command of the three programs, as its own help says it."""

from collections.abc import Iterator, Mapping
from typing import Final

import click

from starforge.cli.main import root as sf
from starforge_console.cli.main import main as console
from starforge_forgelet.cli import root as forgelet

_HEAD: Final = """\
# Commands

Generated from the commands' own help; `make fix` writes it anew and `make check` compares.
"""
PROGRAMS: Final[Mapping[str, click.Command]] = {"sf": sf, "starforge-console": console, "forgelet": forgelet}
_WIDTH: Final = 100


def build_page(programs: Mapping[str, click.Command] = PROGRAMS) -> str:
    """The whole page, the same text for the same commands on every terminal."""
    sections = [section for name, command in programs.items() for section in _list_sections(name, command, None)]
    return _HEAD + "".join(f"\n{section}" for section in sections)


def _list_sections(name: str, command: click.Command, parent: click.Context | None) -> Iterator[str]:
    settings = {**command.context_settings, "terminal_width": _WIDTH, "max_content_width": _WIDTH}
    context = click.Context(command, parent, info_name=name, **settings)
    mark = "##" if parent is None else "###"
    yield f"{mark} `{context.command_path}`\n\n```text\n{command.get_help(context)}\n```\n"
    if not isinstance(command, click.Group):
        return
    for below in command.list_commands(context):
        found = command.get_command(context, below)
        if found is None:
            raise ValueError(f"{context.command_path} lists {below!r} and has no such command")
        yield from _list_sections(below, found, context)

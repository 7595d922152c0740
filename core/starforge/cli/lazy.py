"""Command groups whose commands are imported when they are called, so that `sf --help` loads click alone."""

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import click


class LazyCommand(NamedTuple):
    """Where a command is (`module:attribute`) and the line that the group's help shows for it."""

    target: str
    help: str


class LazyGroup(click.Group):
    """A group that knows its commands by name and one line each."""

    def __init__(self, *args: Any, lazy: Mapping[str, LazyCommand], **kwargs: Any) -> None:  # noqa: ANN401 - click's own
        super().__init__(*args, **kwargs)
        self.lazy = lazy
        _keep_lines(self)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The names, in the order in which they are of use."""
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import the command; None when there is none of that name."""
        entry = self.lazy.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry.target} is no command")
        _keep_lines(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, and name the nearest command when there is none of that name."""
        if args and args[0] not in self.lazy and not args[0].startswith("-"):
            import difflib  # noqa: PLC0415 - of use only after a slip

            near = difflib.get_close_matches(args[0], self.lazy, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise click.UsageError(f"There is no command '{args[0]}'.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """Write the list of commands without importing one."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in self.lazy.items()])


def _keep_lines(command: click.Command) -> None:
    r"""Let `\b` of a raw docstring mean what the character means to click: the lines below it stay as they are."""
    if command.help:
        command.help = command.help.replace("\\b\n", "\b\n")

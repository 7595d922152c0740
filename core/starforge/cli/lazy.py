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

    def __init__(self, *args: Any, lazy: Mapping[str, LazyCommand], default: str = "", **kwargs: Any) -> None:  # noqa: ANN401 - click's own
        """`default` is the command that is meant where no command of the group is named."""
        super().__init__(*args, **kwargs)
        self.lazy = lazy
        self.default = default
        _keep_lines(self)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, with the default command in front where none is named."""
        named = args[:1] and (args[0] in self.lazy or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if named or not self.default else [self.default, *args])

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

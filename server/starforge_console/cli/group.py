"""How the groups of `starforge-console` show themselves and their errors."""

import sys
from typing import TYPE_CHECKING, Any

import click

from starforge.cli.run import run

if TYPE_CHECKING:
    from collections.abc import Sequence


class Commands(click.Group):
    """A group that shows errors as `sf` does, and the whole line of every command in its help."""

    def main(
        self,
        args: "Sequence[str] | None" = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002 - the same
        **extra: Any,  # noqa: ANN401 - the same
    ) -> Any:  # noqa: ANN401 - the same
        """Run the command that was named and, unless the caller wants to, end the process."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        sys.exit(run(self, sys.argv[1:] if args is None else args, prog_name or "starforge-console"))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, each with its first line uncut."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, (command.help or "").partition("\n")[0]) for name, command in found if command])

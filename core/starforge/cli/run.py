"""Runs a command to its exit code, and shows every error in the same way.

Exit codes: 0 done, 1 an answer that is no success, 2 what was given cannot be used, 130 interrupted.
"""

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Final

import click

from starforge.cli.output import print_error
from starforge.errors import InputError, StarForgeError, Unavailable

INTERRUPTED: Final = 130


class UsageRefused(InputError):
    """A command line that cannot be understood."""

    code = "usage_invalid"


def run(command: click.Command, words: Sequence[str], program: str) -> int:
    """Run `command` with `words` under the name `program`; gives the exit code."""
    as_json = "--json" in words[: words.index("--") if "--" in words else None]
    try:
        code = command.main(list(words), prog_name=program, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        print_error(_explain(error), as_json=as_json)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is buffered has no reader any more
        return 1
    except (OSError, StarForgeError) as error:
        return _tell(error if isinstance(error, StarForgeError) else _explain_machine(error), as_json=as_json)
    return code if isinstance(code, int) else 0


def _tell(error: StarForgeError, *, as_json: bool) -> int:
    with contextlib.suppress(OSError):  # nothing can be written where the answer goes: stderr was told first
        print_error(error, as_json=as_json)
    return error.exit_code


def _explain(error: click.ClickException) -> StarForgeError:
    """What click found wrong with a command line, as an error of ours."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    next_step = f"`{context.command_path} --help` shows how it is written" if context is not None else ""
    return UsageRefused(error.format_message(), next_step=next_step)


def _explain_machine(error: OSError) -> StarForgeError:
    """What this machine refused that no command expected, such as a disk that is full, as an error of ours."""
    what = "what the command writes or reads here failed" if error.filename is None else f"{error.filename} failed"
    return Unavailable(
        what, why=error.strerror or str(error), next_step="mend that on this machine, then run the command again"
    )

"""The limits of a quota as options: the same for `sf admin quota set` and `starforge-console quota set`."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

_OPTIONS: Final = (
    click.option("--gpus", metavar="N", help="So many GPUs at once."),
    click.option("--jobs", metavar="N", help="So many running jobs at once."),
    click.option("--gpu-hours", metavar="N", help="So many GPU-hours in any 24 hours."),
    click.option("--storage-gib", metavar="N", help="So many GiB on the storage, of all jobs together."),
    click.option("--series", metavar="NAMES", help="Only GPUs of these series, such as h200,l40s."),
    click.option("--profiles", metavar="NAMES", help="Only these profiles, such as cpu,h200."),
)


def limit_options(command: CommandT) -> CommandT:
    """Give the command an option for each limit."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command

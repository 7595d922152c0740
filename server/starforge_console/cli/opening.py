"""What the commands open: the settings of this machine and the ledger that they name."""

import os
import pwd
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starforge.contract.launch import Secret
    from starforge_console.ledger.database import Database
    from starforge_console.settings.console import ConsoleSettings


def read_settings() -> "ConsoleSettings":
    """The settings in the environment; names that nothing reads are warned of. Raises SettingsError."""
    from starforge_console.settings.console import load_settings, unknown_names  # noqa: PLC0415 - a help text needs none

    settings = load_settings()
    for name in unknown_names(dict(os.environ)):
        say(f"warning: {name} is set, and nothing reads it: is it a typing error?")
    return settings


@contextmanager
def open_ledger(settings: "ConsoleSettings") -> "Iterator[Database]":
    """The ledger that the settings name; what is written is kept as an act of whoever runs the command."""
    from starforge_console.fleets.install import locate, require_ledger  # noqa: PLC0415 - a help text needs none of it
    from starforge_console.ledger.audit import Actor, Via, acting_as  # noqa: PLC0415 - a help text needs none of it
    from starforge_console.ledger.database import Database  # noqa: PLC0415 - the same
    from starforge_console.ledger.revisions import require_current  # noqa: PLC0415 - the same

    require_ledger(settings)
    ledger = Database(locate(settings, "ledger"), "ledger")
    try:
        ledger.read_now(lambda c: require_current(c, "ledger"))
        with acting_as(Actor(user=_find_login(), via=Via.COMMAND, at=time.time())):
            yield ledger
    finally:
        ledger.close()


def _find_login() -> str:
    """Who runs the command on this machine, for the audit log."""
    with suppress(KeyError):
        return pwd.getpwuid(os.getuid()).pw_name
    return f"uid {os.getuid()}"


def link_of(settings: "ConsoleSettings", code: "Secret") -> str:
    """The address at which the code signs in."""
    return f"{settings.http.public_url.rstrip('/')}/signin/{code.reveal()}"


def say(text: str) -> None:
    """Tell the person, on standard error."""
    click.echo(text, err=True)

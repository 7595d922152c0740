"""`starforge-console vault` and `wheelhouse`: what the console keeps beside its ledger."""

import time
from pathlib import Path

import click

from starforge_console.cli.group import Commands
from starforge_console.cli.opening import open_ledger, read_settings


@click.group(cls=Commands)
def vault() -> None:
    """What users and administrators trust the console with, sealed."""


@vault.command("forget-unreadable")
@click.option("--apply", "is_applied", is_flag=True, help="Give it up; without this nothing is changed.")
def forget_unreadable(*, is_applied: bool) -> None:
    """List every secret, login and webhook that the key in vault-key does not open, and give it up.

    While there is any, nothing new is sealed: put back, the old key opens it again. This is for a key that is lost for
    good. Secrets and logins go, webhooks are switched off. The console may be running.
    """
    from starforge_console.accounts.vault import KEY_FILE, open_vault  # noqa: PLC0415 - a help text needs none of it
    from starforge_console.accounts.vault_command import forget_unreadable  # noqa: PLC0415 - the same

    settings = read_settings()
    with open_ledger(settings) as ledger:
        key_file = settings.paths.console_state_dir / KEY_FILE
        forget_unreadable(ledger, open_vault(key_file, ledger), time.time(), is_applied=is_applied)


@click.group(cls=Commands)
def wheelhouse() -> None:
    """Wheels that machines install forgelet from."""


@wheelhouse.command("add")
@click.option("--python", "pythons", multiple=True, help="Python of the machines, such as 3.11; may be repeated.")
@click.option("--arch", "arches", multiple=True, help="Architecture: x86_64 or aarch64; may be repeated.")
@click.option("--own", type=click.Path(file_okay=False, path_type=Path), help="Folder with this release's own wheels.")
def add_wheels(pythons: tuple[str, ...], arches: tuple[str, ...], own: Path | None) -> None:
    """Supply the wheels for machines with that Python and architecture, and print the names of what is new.

    Without options it is this machine's. Third-party wheels are downloaded with pip and its settings, exactly those
    that the release's lock names. Our own come from --own, or are built from the source tree that the console runs
    from. The console may be running.
    """
    from starforge_console.wheels.command import add_wheels  # noqa: PLC0415 - a help text needs none of it

    add_wheels(_find_wheelhouse(), pythons, arches, own)


@wheelhouse.command("ls")
@click.option("--json", "as_json", is_flag=True, help="Print JSON with a stable schema.")
def list_wheels(*, as_json: bool) -> None:
    """Show which machines could install forgelet now.

    The JSON holds folder and targets: a list of python, arch and missing.
    """
    from starforge_console.wheels.command import list_targets  # noqa: PLC0415 - a help text needs none of it

    list_targets(_find_wheelhouse(), as_json=as_json)


def _find_wheelhouse() -> Path:
    from starforge_console.fleets.install import require_ledger  # noqa: PLC0415 - a help text needs none of it
    from starforge_console.wheels.index import FOLDER  # noqa: PLC0415 - the same

    settings = read_settings()
    require_ledger(settings)
    return settings.paths.console_state_dir / FOLDER

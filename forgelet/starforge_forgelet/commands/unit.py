"""`forgelet unit`."""

from pathlib import Path

import click

_PATH = click.Path(path_type=Path)


@click.command()
@click.option("--prefix", type=_PATH, default="/opt/starforge/forgelet", show_default=True, help="Where versions lie.")
@click.option(
    "--state-dir", type=_PATH, default="/var/lib/starforge-forgelet", show_default=True, help="The state directory."
)
@click.option("--port", default=7070, show_default=True, type=click.IntRange(1, 65535), help="The port to listen on.")
@click.option(
    "--ca", type=_PATH, help="PEM file of the console's private CA; one that is empty or absent counts as none."
)
def unit(prefix: Path, state_dir: Path, port: int, ca: Path | None) -> None:
    """Print a systemd unit for the daemon."""
    from starforge.errors import InputError  # noqa: PLC0415 - a help text needs none of it
    from starforge_forgelet.unit import Installed, build_unit  # noqa: PLC0415 - the same

    for path in (prefix, state_dir):
        if not path.is_absolute() or any(sign.isspace() or sign in "\"'\\" for sign in str(path)):
            raise InputError(
                f"{str(path)!r} cannot stand in a unit", next_step="name an absolute path without blanks or quotes"
            )
    known = ca if ca is not None and ca.is_file() and ca.stat().st_size else None
    click.echo(build_unit(Installed(prefix=prefix, state_dir=state_dir, port=port, ca_file=known)), nl=False)

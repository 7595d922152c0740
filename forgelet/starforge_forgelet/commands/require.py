"""`forgelet require`."""

import click


@click.command()
@click.option("--console", metavar="URL", help="It has joined this console, and holds all that proves it.")
@click.option("--idle", is_flag=True, help="No job of its console runs here.")
def require(console: str | None, *, idle: bool) -> None:
    """For scripts: end with 0 and say nothing when this machine is as the options say, else say why not."""
    from starforge_forgelet.requiring import require_idle, require_joined  # noqa: PLC0415 - a help text needs none of it
    from starforge_forgelet.settings import load_settings  # noqa: PLC0415 - the same

    settings = load_settings()
    if console is not None:
        require_joined(settings, console)
    if idle:
        require_idle(settings)

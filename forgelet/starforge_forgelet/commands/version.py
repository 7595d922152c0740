"""`forgelet version`."""

import click

from starforge import __version__


@click.command()
def version() -> None:
    """Print the installed version and nothing else."""
    click.echo(__version__)

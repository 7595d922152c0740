"""The command `forgelet`: so far it says which version is installed."""

import click

from starforge import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="forgelet", message="%(prog)s %(version)s")
def main() -> None:
    """The daemon of one GPU machine.

    Joining a machine to a console and serving its containers come with a later release; this one only installs the
    command, so that an image or a configuration can be prepared.
    """


@main.command()
def version() -> None:
    """Print the installed version and nothing else."""
    click.echo(__version__)

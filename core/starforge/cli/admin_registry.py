"""`sf admin registry`: how the console signs in to registries of images."""

import sys
from typing import Final

import click

from starforge.cli.lazy import LazyCommand, LazyGroup
from starforge.cli.output import describe_time, json_option, note, print_json, print_table
from starforge.cli.session import open_console_as
from starforge.client.login import load_session
from starforge.client.registries import RegistryConsole
from starforge.contract.launch import RegistryLogin, Secret
from starforge.contract.registries import LONGEST_PASSWORD
from starforge.errors import InputError

_COMMANDS: Final = {
    "set": LazyCommand("starforge.cli.admin_registry:set_login", "Let the console sign in to a registry."),
    "ls": LazyCommand("starforge.cli.admin_registry:ls", "List the registries that the console signs in to."),
    "rm": LazyCommand("starforge.cli.admin_registry:rm", "Let the console sign in to a registry no more."),
}


@click.group(cls=LazyGroup, lazy=_COMMANDS)
def registry() -> None:
    """Sign the console in to registries of images.

    It does so when it asks what a tag means, and machines fetch images with the
    same login. A machine's own `docker login` goes on to work.
    """


@click.command("set")
@click.argument("registry", metavar="HOST[:PORT]")
@click.option("--username", required=True, help="The account, best one that may only read.")
@json_option
def set_login(registry: str, username: str, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Let the console sign in to a registry.

    HOST is written as images name it, without https://; docker.io is Docker Hub.
    The password, or an access token, is asked for without showing it; where
    standard input is no terminal it is its first line. It is never an argument.

    \b
    JSON: {registry, username, set_at, set_by}
    """
    load_session()  # who is not signed in learns it before anything is asked
    login = RegistryLogin(username=username, password=_read_password(registry, username))
    with open_console_as(RegistryConsole) as console:
        kept = console.set_registry_login(registry, login)
    if as_json:
        print_json(kept.model_dump(mode="json"))
    else:
        click.echo(f"the console signs in to {kept.registry} as {kept.username}")


@click.command()
@json_option
def ls(as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""List the registries that the console signs in to.

    \b
    JSON: {items: [{registry, username, set_at, set_by}]}
    """
    with open_console_as(RegistryConsole) as console:
        found = console.registry_logins().items
    if as_json:
        print_json({"items": [one.model_dump(mode="json") for one in found]})
        return
    if not found:
        click.echo("the console signs in to no registry: sf admin registry set HOST --username NAME")
        return
    rows = [(one.registry, one.username, one.set_by, describe_time(one.set_at)) for one in found]
    print_table(("REGISTRY", "USERNAME", "SET BY", "SET"), rows)


@click.command()
@click.argument("registry", metavar="HOST[:PORT]")
@json_option
def rm(registry: str, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Let the console sign in to a registry no more.

    Attempts that have been launched keep what they were given.

    \b
    JSON: {registry, removed: true}
    """
    with open_console_as(RegistryConsole) as console:
        console.remove_registry_login(registry)
    if as_json:
        print_json({"registry": registry, "removed": True})
    else:
        click.echo(f"the console signs in to {registry} no more")


def _read_password(registry: str, username: str) -> Secret:
    """Raises InputError where there is none."""
    if sys.stdin.isatty():
        note("the password is not shown")
        return Secret(str(click.prompt(f"Password of {username} at {registry}", hide_input=True, err=True)))
    try:
        password = sys.stdin.readline(LONGEST_PASSWORD + 2).rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InputError("the password is no text in UTF-8", why=f"byte {error.start} cannot be read") from None
    if not password:
        raise InputError(
            "no password was given",
            why="standard input was empty",
            next_step="type it when asked, or pipe it in: … | sf admin registry set HOST --username NAME",
        )
    return Secret(password)

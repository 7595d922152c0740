"""`sf secret`: secrets of one's own, which `sf submit --secret NAME` passes to a job as variables."""

import sys
from pathlib import Path
from typing import Final

import click

from starforge.cli.lazy import LazyCommand, LazyGroup
from starforge.cli.output import describe_time, json_option, note, print_json, print_table, warn
from starforge.cli.session import open_console_as
from starforge.client.http import is_readable_on_the_way
from starforge.client.login import load_session
from starforge.client.secrets import SecretConsole
from starforge.contract.launch import Secret
from starforge.contract.secrets import VALUE_BYTES, check_name, check_value
from starforge.errors import InputError

_COMMANDS: Final = {
    "set": LazyCommand("starforge.cli.secret:set_secret", "Set a secret; its value is asked for, or piped in."),
    "ls": LazyCommand("starforge.cli.secret:ls", "List your secrets by name, each with when it was set."),
    "rm": LazyCommand("starforge.cli.secret:rm", "Remove a secret."),
}
_READ_BYTES: Final = VALUE_BYTES + 16
_NOT_IN_ARGUMENTS: Final = "arguments can be read by everybody on this machine, and shells keep them in a history"


@click.group(cls=LazyGroup, lazy=_COMMANDS)
def secret() -> None:
    """Keep secrets for your own jobs.

    `sf submit --secret NAME` passes one to a job, as the variable NAME of the
    training process. The console never shows a value again.
    """


@click.command("set")
@click.argument("name")
@click.argument("rest", nargs=-1, metavar="")
@click.option("--from-file", "file", type=click.Path(path_type=Path), help="Take the value from a file, byte by byte.")
@json_option
def set_secret(name: str, rest: tuple[str, ...], file: Path | None, as_json: bool) -> None:  # noqa: FBT001 - click's
    r"""Set a secret; its value is asked for, or piped in.

    NAME is the variable's: A-Z, digits and _. The value is not shown while it is
    typed; where standard input is no terminal it is read from there, without
    its last line end. It is never an argument.

    \b
    JSON: {name, set_at, note}
    """
    _check_argument(name, rest)
    check_name(name)
    server = load_session().server  # who is not signed in learns it before anything is asked
    if is_readable_on_the_way(server):
        warn(f"{server} is not encrypted: the value can be read on the way")
    value = _read_value(name, file)
    check_value(name, value.reveal())
    with open_console_as(SecretConsole) as console:
        kept = console.set_secret(name, value)
    if as_json:
        print_json(kept.model_dump(mode="json"))
        return
    click.echo(f"set {kept.name}; pass it to a job with: sf submit … --secret {kept.name}")
    if kept.note:
        warn(kept.note)


@click.command()
@json_option
def ls(as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""List your secrets by name, each with when it was set.

    \b
    JSON: {items: [{name, set_at, note}]}
    """
    with open_console_as(SecretConsole) as console:
        found = console.secrets().items
    if as_json:
        print_json({"items": [one.model_dump(mode="json") for one in found]})
        return
    if not found:
        click.echo("no secret is set: sf secret set NAME")
        return
    print_table(("NAME", "SET"), [(one.name, describe_time(one.set_at)) for one in found])


@click.command()
@click.argument("name")
@json_option
def rm(name: str, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Remove a secret.

    Jobs that run keep it; those that wait in the queue and name it are refused when
    they are to start.

    \b
    JSON: {name, removed: true}
    """
    with open_console_as(SecretConsole) as console:
        console.remove_secret(name)
    if as_json:
        print_json({"name": name, "removed": True})
    else:
        click.echo(f"removed {name}")


def _check_argument(name: str, rest: tuple[str, ...]) -> None:
    """Raises InputError, which repeats nothing, where the value was written into the command line."""
    wanted, sign, _ = name.partition("=")
    if not sign and not rest:
        return
    raise InputError(
        "a value is never taken from the command line",
        why=_NOT_IN_ARGUMENTS,
        next_step=f"run `sf secret set {wanted}` and type it, or pipe it in; if that was a real value, make a new one",
    )


def _read_value(name: str, file: Path | None) -> Secret:
    """Raises InputError for what cannot be read, or is no text."""
    try:
        if file is not None:
            with file.open("rb") as opened:
                return Secret(_decode(opened.read(_READ_BYTES)))
        if sys.stdin.isatty():
            note("the value is not shown")
            return Secret(str(click.prompt(name, hide_input=True, err=True)))
        return Secret(_decode(sys.stdin.buffer.read(_READ_BYTES)).removesuffix("\n").removesuffix("\r"))
    except OSError as error:
        raise InputError(f"{file} cannot be read", why=str(error.strerror), next_step="name another file") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"the value of {name} is no text in UTF-8",
            why=f"byte {error.start} cannot be read",
            next_step="encode it, for instance with base64, and decode it in the job",
        ) from None


def _decode(content: bytes) -> str:
    """The text; of one that is too long its beginning alone, which is refused for its length."""
    return content.decode(errors="replace" if len(content) == _READ_BYTES else "strict")

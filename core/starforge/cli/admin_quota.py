"""`sf admin quota`: what users and teams may hold and use."""

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

import click

from starforge.cli.lazy import LazyCommand, LazyGroup
from starforge.cli.limit_options import limit_options
from starforge.cli.output import json_option, note, print_json
from starforge.cli.quota import describe_quota, is_limited
from starforge.cli.quota_tables import print_quotas
from starforge.cli.session import open_console_as
from starforge.client.people import PeopleConsole
from starforge.contract.people import MOST, SetQuota
from starforge.contract.quotas import QuotaView
from starforge.errors import InputError

UNLIMITED: Final = "none"
"""What takes one part of a limit away."""

_HERE: Final = "starforge.cli.admin_quota"
_COMMANDS: Final = {
    "ls": LazyCommand(f"{_HERE}:ls", "Show every limit and what counts against it now."),
    "rm": LazyCommand(f"{_HERE}:rm", "Take every limit of a user or a team away."),
    "set": LazyCommand(f"{_HERE}:change", "Limit a user or a team."),
}
_COUNTED: Final = {"gpus": "GPUs", "jobs": "jobs", "gpu_hours": "GPU-hours", "storage_gib": "GiB"}
_NUMBER: Final = re.compile(r"[0-9]{1,7}")

Holder = tuple[Literal["user", "team"], str]


@click.group(cls=LazyGroup, lazy=_COMMANDS)
def quota() -> None:
    """Say what users and teams may hold and use."""


@click.command()
@click.option("--runs", is_flag=True, help="Show the runs that add up to it, too.")
@json_option
def ls(runs: bool, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Show every limit and what counts against it now.

    \b
    JSON: {items: [quota]}, each as `sf quota` gives it
    """
    with open_console_as(PeopleConsole) as console:
        found = console.limits()
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        print_quotas(found.items, runs=runs)


@click.command("set")
@click.option("--user", metavar="NAME", help="The user whose limit it is.")
@click.option("--team", metavar="NAME", help="The team whose limit it is.")
@limit_options
@json_option
def change(user: str | None, team: str | None, *, as_json: bool, **given: str | None) -> None:
    r"""Limit a user or a team.

    What is not named stays as it is, and `none` takes a limit away. A job that could
    never start under a limit is refused; one that is only over it now waits in the
    queue. What runs already goes on, also when its hours are used up or its storage
    is full. Series bind GPUs alone, profiles also jobs without any (cpu).

    \b
    JSON: the quota, as `sf quota` gives it
    """
    holder, changes = _read_holder(user, team), _read_changes(given)
    with open_console_as(PeopleConsole) as console:
        known = next((one for one in console.limits().items if (one.kind, one.name) == holder), None)
        shown = console.set_limit(*holder, _apply(known, changes))
    if as_json:
        print_json(shown.model_dump(mode="json"))
    else:
        click.echo(f"{shown.kind} {shown.name}: {describe_quota(shown) if is_limited(shown) else 'no limit'}")


@click.command()
@click.option("--user", metavar="NAME", help="The user whose limit it is.")
@click.option("--team", metavar="NAME", help="The team whose limit it is.")
@json_option
def rm(user: str | None, team: str | None, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Take every limit of a user or a team away.

    \b
    JSON: {kind, name}
    """
    kind, name = _read_holder(user, team)
    with open_console_as(PeopleConsole) as console:
        console.remove_limit(kind, name)
    if as_json:
        print_json({"kind": kind, "name": name})
    else:
        note(f"{kind} {name}: no limit")


def _read_holder(user: str | None, team: str | None) -> Holder:
    if (user is None) == (team is None):
        raise click.UsageError("name one holder: --user NAME or --team NAME")
    return ("team", team) if team is not None else ("user", user or "")


def _read_changes(given: Mapping[str, str | None]) -> dict[str, Any]:
    changes = {part: _parse(part, text) for part, text in given.items() if text is not None}
    if not changes:
        raise click.UsageError("name a limit: --gpus, --jobs, --gpu-hours, --storage-gib, --series or --profiles")
    return changes


def _parse(part: str, text: str) -> int | tuple[str, ...] | None:
    """Raises InputError for what is no limit; whether names are known is the console's to say."""
    if text == UNLIMITED:
        return None
    if part not in _COUNTED:
        names = tuple(name.strip() for name in text.split(",") if name.strip())
        if not names:
            raise InputError(f"no {part} are named", next_step=f"write h200,l40s, or {UNLIMITED} to allow all")
        return names
    if not _NUMBER.fullmatch(text) or int(text) > MOST:
        raise InputError(
            f"{text!r} is no number of {_COUNTED[part]}",
            next_step=f"write a whole number of at most {MOST}, or {UNLIMITED} to take the limit away",
        )
    return int(text)


def _apply(known: QuotaView | None, changes: Mapping[str, Any]) -> SetQuota:
    """The whole limit as it is to be: a console takes it in place of the one before."""
    before = {} if known is None else {part: getattr(known, part) for part in SetQuota.model_fields}
    return SetQuota.model_validate({**before, **changes})

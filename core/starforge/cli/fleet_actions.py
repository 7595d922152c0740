"""`sf fleet create` and `sf fleet delete`."""

import sys
from typing import Any

import click

from starforge.cli.fleet_views import open_fleets, read_options
from starforge.cli.output import json_option, note, print_json
from starforge.contract.fleets import ChangeFleet, CreateFleet
from starforge.errors import InputError


@click.command()
@click.argument("name")
@click.option("--kind", type=click.Choice(["node", "local"]), default="node", show_default=True, help="What runs jobs.")
@click.option(
    "--network",
    type=click.Choice(["bridge", "host", "none"]),
    default="bridge",
    show_default=True,
    help="How a job's container reaches others.",
)
@click.option("--user", metavar="UID:GID", help="Whom jobs run as; `image` keeps the image's own user.")
@click.option("--require-max-runtime", is_flag=True, help="Take only jobs that have a time limit.")
@json_option
def create(name: str, *, as_json: bool, **choices: Any) -> None:  # noqa: ANN401 - click's
    r"""Make a fleet.

    It takes jobs at once, without a restart of the console.

    \b
    JSON: {name, kind, network, user, require_max_runtime, nodes, ready,
           gpus: {state: count}}
    """
    request = read_options(CreateFleet, name=name, **choices)
    with open_fleets() as console:
        made = console.create_fleet(request)
    if as_json:
        print_json(made.model_dump(mode="json"))
        return
    click.echo(f"fleet {made.name} of kind {made.kind} is there")
    if made.kind == "node":
        note(f"let machines join it: sf fleet token {made.name}")


@click.command()
@click.argument("name")
@click.option("--require-max-runtime/--no-require-max-runtime", required=True, help="Take only jobs with a time limit.")
@json_option
def change(name: str, require_max_runtime: bool, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Change what a fleet asks of jobs.

    Where every job has a time limit, a job that waits knows by when it starts, and
    others pass it only where that is not delayed. Jobs that are queued already stay
    so without one.

    \b
    JSON: as `sf fleet create`
    """
    with open_fleets() as console:
        changed = console.change_fleet(name, ChangeFleet(require_max_runtime=require_max_runtime))
    if as_json:
        print_json(changed.model_dump(mode="json"))
        return
    what = "only jobs with a time limit" if changed.require_max_runtime else "jobs with and without a time limit"
    click.echo(f"fleet {changed.name} takes {what}")


@click.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def delete(name: str, yes: bool, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Delete a fleet.

    It is refused while the fleet has jobs or machines. The history of its jobs stays
    readable, its join tokens end, and its name may be used again. Asks on a terminal;
    elsewhere, and with --json, --yes is needed.

    \b
    JSON: {name, deleted: true}
    """
    if not yes and (as_json or not sys.stdin.isatty()):
        raise InputError(
            f"fleet {name} was not deleted",
            why="nobody can be asked whether it may be: " + ("--json was given" if as_json else "stdin is no terminal"),
            next_step=f"sf fleet delete {name} --yes",
        )
    if not yes:
        click.confirm(f"delete fleet {name}?", abort=True, err=True)
    with open_fleets() as console:
        console.delete_fleet(name)
    if as_json:
        print_json({"name": name, "deleted": True})
    else:
        click.echo(f"fleet {name} is deleted")

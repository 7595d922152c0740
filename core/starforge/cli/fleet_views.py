"""`sf fleet ls`, `sf fleet show` and `sf node ls`: what the console knows of fleets and machines."""

from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Final, TypeVar

import click
from pydantic import ValidationError

from starforge.cli.output import find_width, join_lines, json_option, print_json, print_table, render_row, say, warn
from starforge.cli.session import open_console_as
from starforge.client.fleets import FleetConsole
from starforge.contract.fleets import FleetDetail, GpuDetail, NodeDetail
from starforge.contract.jobspec import Frozen, describe_faults
from starforge.errors import InputError
from starforge.wording import describe_bytes, describe_duration

_SHOWN_UUID: Final = 12

RequestT = TypeVar("RequestT", bound=Frozen)


def open_fleets() -> AbstractContextManager[FleetConsole]:
    """The console that this user is signed in at. Raises SignInRequired."""
    return open_console_as(FleetConsole)


def read_options(kind: type[RequestT], /, **options: object) -> RequestT:
    """What was given as a request. Raises InputError for values that no console takes."""
    try:
        return kind.model_validate(options)
    except ValidationError as error:
        raise InputError("what was given cannot be used", why=describe_faults(error)) from None


@click.command()
@json_option
def ls(as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""List fleets.

    \b
    JSON: {items: [{name, kind, network, user, nodes, ready,
                    gpus: {state: count}}]}
    """
    with open_fleets() as console:
        fleets = console.fleets().items
    if as_json:
        print_json({"items": [fleet.model_dump(mode="json") for fleet in fleets]})
        return
    if not fleets:
        click.echo("no fleet yet: sf fleet create NAME")
        return
    rows = [
        (fleet.name, fleet.kind, f"{fleet.ready} of {fleet.nodes}", describe_states(fleet.gpus)) for fleet in fleets
    ]
    print_table(("FLEET", "KIND", "READY", "GPUS"), rows)


@click.command()
@click.argument("fleet")
@json_option
def show(fleet: str, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Show a fleet, its machines and their GPUs.

    \b
    JSON: {fleet, nodes: [as `sf node ls` shows them], unknown_gpus: [name],
           unknown_attempts: [attempt]}
    """
    with open_fleets() as console:
        detail = console.fleet(fleet)
    if as_json:
        print_json(detail.model_dump(mode="json"))
        return
    _print_fleet(detail)


@click.command("ls")
@click.option("--fleet", help="Only machines of this fleet.")
@json_option
def nodes(fleet: str | None, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""List the machines of all fleets.

    \b
    JSON: {items: [{name, fleet, state, status, why, hostname, advertise, version,
                    legacy, joined_at, joined_from, heartbeat_at, heard_s, reach,
                    skew_s, fence, epoch, cpus, memory_bytes, disk_free_bytes,
                    disk_total_bytes, gpus, gpus_unknown, attempts, pulls}]}
    state is active, draining or lost; status is ready, draining, lost, joining,
    away, unreachable, superseded or unfit.
    """
    with open_fleets() as console:
        found = console.fleet(fleet).nodes if fleet is not None else console.nodes().items
    if as_json:
        print_json({"items": [one.model_dump(mode="json") for one in found]})
        return
    if not found:
        click.echo("no machine has joined yet: sf fleet token FLEET")
        return
    rows = [
        (one.name, one.fleet, one.status, describe_gpus(one), describe_heartbeat(one), join_lines(one.why))
        for one in found
    ]
    print_table(("NODE", "FLEET", "STATUS", "GPUS", "HEARD", "WHY"), rows)


def describe_states(gpus: Mapping[str, int]) -> str:
    """How many GPUs are in which state."""
    return ", ".join(f"{count} {state}" for state, count in gpus.items() if count) or "-"


def describe_gpus(node: NodeDetail) -> str:
    """The node's GPUs by state, or that they are not known."""
    if node.gpus_unknown:
        return "unknown"
    return describe_states(Counter(gpu.state for gpu in node.gpus))


def describe_heartbeat(node: NodeDetail) -> str:
    """When the node was last heard."""
    if node.advertise is None:
        return "-"
    return "never" if node.heard_s is None else f"{describe_duration(node.heard_s)} ago"


def _print_fleet(detail: FleetDetail) -> None:
    fleet, width = detail.fleet, find_width()
    say(f"{fleet.name}  kind {fleet.kind}, network {fleet.network}, {fleet.ready} of {fleet.nodes} nodes ready")
    for node in detail.nodes:
        why = f": {join_lines(node.why)}" if node.why else ""
        click.echo(render_row(f"  {node.name:<16} ", f"{node.status}{why}", width))
        if node.advertise is not None:
            say(f"    at {node.advertise}, forgelet {node.version}, heard {describe_heartbeat(node)}")
        if node.gpus_unknown:
            click.echo(render_row("    GPUs unknown: ", node.gpus_unknown, width))
        for gpu in node.gpus:
            click.echo(render_row(f"    GPU {gpu.index} ", _describe_gpu(gpu), width))
        for pull in node.pulls:
            total = "" if pull.total_bytes is None else f" of {describe_bytes(pull.total_bytes)}"
            say(f"    fetching {pull.image}: {describe_bytes(pull.done_bytes)}{total}")
    for name in detail.unknown_gpus:
        warn(
            f"no series is known for the GPU {name!r}: jobs that name a series are not placed on it"
            f" (sf fleet gpus add {name!r} SERIES)"
        )
    for attempt in detail.unknown_attempts:
        where = next(
            (one.name for one in detail.nodes if any(held.attempt == attempt for held in one.attempts)), "NODE"
        )
        warn(f"{attempt} runs there, and the ledger does not know it: sf node end-unknown {where} {attempt}")


def _describe_gpu(gpu: GpuDetail) -> str:
    holder = gpu.holder
    told = [f"{gpu.name} ({gpu.series or 'no series'})", gpu.uuid[:_SHOWN_UUID], gpu.state]
    if holder is not None:
        told.append(f"by {holder.job} of {holder.user}" if holder.job else f"by {holder.attempt}")
    return " ".join(told) + (f": {gpu.why}" if gpu.why else "")

"""`sf fleet gpus`: the names of GPUs that administrators added to the registry, and those that nobody knows."""

from collections.abc import Iterable, Mapping
from typing import Final

import click

from starforge.cli.fleet_views import open_fleets, read_options
from starforge.cli.lazy import LazyCommand, LazyGroup
from starforge.cli.output import json_option, print_json, print_table, warn
from starforge.contract.fleets import AddGpuSeries, NodeDetail

_COMMANDS: Final = {
    "ls": LazyCommand("starforge.cli.fleet_gpus:ls", "List names of GPUs that are not built in."),
    "add": LazyCommand("starforge.cli.fleet_gpus:add", "Give the name of a GPU its series."),
    "forget": LazyCommand("starforge.cli.fleet_gpus:forget", "Take back a name that was added."),
}


@click.group(cls=LazyGroup, lazy=_COMMANDS, default="ls")
def gpus() -> None:
    """Add GPUs that the registry does not know.

    A job that asks for a series is placed only on GPUs whose name has one.
    """


@click.command()
@json_option
def ls(as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""List names of GPUs that are not built in.

    Those that were added, and those of machines that have no series yet.

    \b
    JSON: {items: [{name, series, added_by, added_at}],
           unknown: [{name, nodes: [name]}]}
    """
    with open_fleets() as console:
        added, unknown = console.gpu_series().items, _find_unknown(console.nodes().items)
    if as_json:
        names = [{"name": name, "nodes": list(nodes)} for name, nodes in unknown.items()]
        print_json({"items": [one.model_dump(mode="json") for one in added], "unknown": names})
        return
    if added:
        print_table(("NAME", "SERIES", "ADDED BY"), [(one.name, one.series, one.added_by) for one in added])
    elif not unknown:
        click.echo("no name was added, and every GPU of every machine is known")
    for name, nodes in unknown.items():
        warn(f"no series is known for the GPU {name!r} of {', '.join(nodes)}: sf fleet gpus add {name!r} SERIES")


@click.command()
@click.argument("name")
@click.argument("series")
@json_option
def add(name: str, series: str, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Give the name of a GPU its series.

    NAME is what nvidia-smi prints; SERIES is a known label such as `h100-sxm`, or a
    new one, by which jobs then ask for it. It counts at once in every fleet.

    \b
    JSON: {name, series, added_by, added_at}
    """
    request = read_options(AddGpuSeries, name=name, series=series)
    with open_fleets() as console:
        added = console.add_gpu_series(request)
    if as_json:
        print_json(added.model_dump(mode="json"))
    else:
        click.echo(f"{added.name} is of the series {added.series}")


@click.command()
@click.argument("name")
@json_option
def forget(name: str, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Take back a name that was added.

    GPUs that carry it have no series any more. Built-in names stay.

    \b
    JSON: {name, forgotten: true}
    """
    with open_fleets() as console:
        console.forget_gpu_series(name)
    if as_json:
        print_json({"name": name, "forgotten": True})
    else:
        click.echo(f"{name} has no series any more")


def _find_unknown(nodes: Iterable[NodeDetail]) -> Mapping[str, tuple[str, ...]]:
    """The names without a series, and the machines that have such GPUs."""
    found: dict[str, dict[str, None]] = {}
    for node in nodes:
        for gpu in node.gpus:
            if gpu.series is None:
                found.setdefault(gpu.name, {})[node.name] = None
    return {name: tuple(found[name]) for name in sorted(found)}

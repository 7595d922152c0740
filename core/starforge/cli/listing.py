"""`sf ls`, `sf version`: what is here, without a network."""

import platform
from pathlib import Path
from typing import TYPE_CHECKING

import click

from starforge import __version__
from starforge.cli.output import json_option, print_json, print_table, warn

if TYPE_CHECKING:
    from starforge.workspace.experiment import Experiment


@click.command()
@json_option
def ls(as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""List the project's experiments.

    \b
    JSON: {project, root, items: [{name, method, lock, image, faults, fault}]}
    fault is the first of the faults in words, null without one. lock is
    current, compatible, incompatible, runtime_removed or malformed.
    """
    from starforge.workspace.experiment import read_experiment  # noqa: PLC0415 - `sf version` shares this module
    from starforge.workspace.project import load_project  # noqa: PLC0415 - as above

    project = load_project(Path.cwd())
    items = [_describe(read_experiment(project, name)) for name in project.experiments]
    if as_json:
        print_json({"project": project.name, "root": str(project.root), "items": items})
        return
    if not items:
        click.echo(f"{project.name} has no experiment yet: sf new first")
        return
    keys = ("name", "method", "lock", "faults", "image")
    rows = [tuple("-" if item[key] is None else str(item[key]) for key in keys) for item in items]
    print_table(("EXPERIMENT", "METHOD", "LOCK", "FAULTS", "IMAGE"), rows)
    for item in items:
        if item["fault"] is not None:
            more = f"; sf validate {item['name']} shows all {item['faults']}" if item["faults"] != 1 else ""
            warn(f"{item['name']}: {item['fault']}{more}")


@click.command()
@json_option
def version(as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Print the version.

    \b
    JSON: {version, python}
    """
    if as_json:
        print_json({"version": __version__, "python": platform.python_version()})
    else:
        click.echo(f"sf {__version__} (Python {platform.python_version()})")


def _describe(found: "Experiment") -> dict[str, str | int | None]:
    first = f"{found.faults[0].place}: {found.faults[0].message}" if found.faults else None
    return {
        "name": found.name,
        "method": found.lock.recipe.name if found.lock else None,
        "lock": str(found.lock_state),
        "image": found.image,
        "faults": len(found.faults),
        "fault": first,
    }

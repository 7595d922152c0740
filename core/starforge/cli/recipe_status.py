"""`sf recipe status`: how the locks of experiments stand to the installed methods."""

from pathlib import Path
from typing import Any

import click

import starforge
from starforge.cli.output import json_option, print_json, print_table, say
from starforge.errors import ProjectError
from starforge.recipes.catalog import load_catalog
from starforge.recipes.lock import LOCK_FILE, LockStanding, LockState, compare_lock, load_lock
from starforge.recipes.upgrade import find_newer
from starforge.workspace.project import Project, load_project, resolve_experiment


@click.command()
@click.argument("experiments", nargs=-1)
@click.option("--all", "of_all", is_flag=True, help="Every experiment, as without a name.")
@json_option
def status(experiments: tuple[str, ...], of_all: bool, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Say how locks stand to the installed methods.

    compatible is no hindrance; what is neither current nor compatible cannot be submitted until it is upgraded.

    \b
    JSON: {items: [{experiment, method, state, why, recipe_version,
                    recipe_version_here, framework_version,
                    framework_version_newer, framework_versions: [text]}]}
    Members are null where the lock cannot be read or the method is not here,
    framework_version_newer also where the lock holds the newest.
    """
    project = load_project(Path.cwd())
    items = [_describe(project, name) for name in choose_experiments(project, experiments, of_all=of_all)]
    if as_json:
        print_json({"items": items})
        return
    keys = ("experiment", "method", "state", "framework_version", "recipe_version", "recipe_version_here")
    rows = [tuple("-" if item[key] is None else str(item[key]) for key in keys) for item in items]
    print_table(("EXPERIMENT", "METHOD", "STATE", "FRAMEWORK", "LOCKED", "HERE"), rows)
    for item in items:
        if item["why"]:
            say(f"{item['experiment']}: {item['why']}")
        if item["framework_version_newer"]:
            say(describe_newer(item["experiment"], item["framework_version"], item["framework_version_newer"]))


def choose_experiments(project: Project, named: tuple[str, ...], *, of_all: bool) -> list[str]:
    """The experiments that a command is about: those named, each once, or every one.

    Raises:
        NotFound: one that is named is not there.
        UsageError: names and --all were both given.

    """
    if named and of_all:
        message = "name experiments, or give --all"
        raise click.UsageError(message)
    if named:
        return list(dict.fromkeys(resolve_experiment(project, name) for name in named))
    return list(project.experiments)


def describe_newer(experiment: str, held: str, newer: str) -> str:
    """That the method runs on a newer version of its framework, and how to go there."""
    way = f"sf recipe upgrade {experiment} --to-version {newer}"
    return f"{experiment}: made for {held}, and {newer} is offered too: {way}"


def _describe(project: Project, name: str) -> dict[str, Any]:
    try:
        lock = load_lock(project.folder_of(name) / LOCK_FILE)
    except ProjectError as error:
        why = str(error).replace(f"{project.root}/", "")
        return {**_build_item(name, None, LockStanding(LockState.MALFORMED, why)), "framework_versions": []}
    catalog = load_catalog()
    found = catalog.get(lock.recipe.name)
    item = _build_item(name, lock.recipe.name, compare_lock(lock, catalog, starforge.__version__))
    item["recipe_version"], item["framework_version"] = lock.recipe.version, lock.framework.version
    item["recipe_version_here"] = found.version if found else None
    item["framework_version_newer"] = find_newer(found, lock.framework.version) if found else None
    return {**item, "framework_versions": list(found.framework_versions) if found else []}


def _build_item(name: str, method: str | None, standing: LockStanding) -> dict[str, Any]:
    names = ("recipe_version", "recipe_version_here", "framework_version", "framework_version_newer")
    unknown = dict.fromkeys(names)
    return {"experiment": name, "method": method, "state": str(standing.state), "why": standing.why, **unknown}

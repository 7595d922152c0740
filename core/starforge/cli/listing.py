"""`sf ls`, `sf methods`, `sf version`: what is here, without a network."""

import platform
from pathlib import Path

import click

from starforge import __version__
from starforge.cli.output import json_option, print_json, print_table


@click.command()
@json_option
def ls(as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""List the project's experiments.

    \b
    JSON: {project, root, items: [{name, method, lock, image, faults}]}
    lock is current, compatible, incompatible, runtime_removed or malformed.
    """
    from starforge.workspace.experiment import read_experiment  # noqa: PLC0415 - `sf version` shares this module
    from starforge.workspace.project import load_project  # noqa: PLC0415 - as above

    project = load_project(Path.cwd())
    items = []
    for name in project.experiments:
        found = read_experiment(project, name)
        method = found.lock.recipe.name if found.lock else None
        item = {"name": name, "method": method, "lock": str(found.lock_state), "image": found.image}
        items.append({**item, "faults": len(found.faults)})
    if as_json:
        print_json({"project": project.name, "root": str(project.root), "items": items})
        return
    if not items:
        click.echo(f"{project.name} has no experiment yet: sf new first")
        return
    rows = [(str(i["name"]), str(i["method"] or "-"), str(i["lock"]), str(i["faults"]), str(i["image"])) for i in items]
    print_table(("EXPERIMENT", "METHOD", "LOCK", "FAULTS", "IMAGE"), rows)


@click.command()
@json_option
def methods(as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""List the training methods.

    \b
    JSON: {items: [{name, version, digest, framework_versions: [text], image, summary: {language: text}}]}
    """
    from starforge.recipes.catalog import load_catalog  # noqa: PLC0415 - `sf version` shares this module

    recipes = list(load_catalog().values())
    if not as_json:
        rows = [
            (recipe.name, ", ".join(recipe.framework_versions) or "any", recipe.summary["en"]) for recipe in recipes
        ]
        print_table(("METHOD", "FRAMEWORK", "WHAT IT DOES"), rows)
        return
    items = [
        {
            "name": recipe.name,
            "version": recipe.version,
            "digest": recipe.digest,
            "framework_versions": list(recipe.framework_versions),
            "image": recipe.runtimes[0].image,
            "summary": dict(recipe.summary),
        }
        for recipe in recipes
    ]
    print_json({"items": items})


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

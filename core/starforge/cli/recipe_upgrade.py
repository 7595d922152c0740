"""`sf recipe upgrade`: moves locks to another version of their methods, all of them or none."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

import starforge
from starforge.cli.output import json_option, note, print_json, say, warn
from starforge.cli.recipe_status import choose_experiments, describe_newer
from starforge.contract.canonical import Json
from starforge.contract.versions import parse_release
from starforge.errors import ProjectError, StarForgeError
from starforge.recipes.catalog import load_method
from starforge.recipes.lock import LOCK_FILE, Lock, find_named, load_lock, render_lock
from starforge.recipes.upgrade import Difference, build_upgrade, choose_runtime, find_newer
from starforge.wording import count_of
from starforge.workspace.config import CONFIG_FILE, read_config
from starforge.workspace.project import EXPERIMENTS_FOLDER, Project, load_project
from starforge.workspace.replacing import replace_files

_NAMES_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned:
    experiment: str
    after: Lock
    difference: Difference
    newer: str | None


@click.command()
@click.argument("experiments", nargs=-1)
@click.option("--all", "of_all", is_flag=True, help="Every experiment of the project.")
@click.option("--to-version", metavar="FRAMEWORK_VERSION", help="The framework's version; the lock's own without it.")
@click.option("--dry-run", is_flag=True, help="Show the difference, write nothing.")
@json_option
def upgrade(experiments: tuple[str, ...], **flags: Any) -> None:  # noqa: ANN401 - click's
    r"""Move locks to another version of their methods.

    Shows what changes, and which of it the experiment's config sets. Every experiment is checked first; when one cannot
    be moved, none is. Nothing but the locks is written.

    \b
    JSON: {items: [{experiment, method, framework_version,
                    framework_version_newer, changed,
                    changes: [{what, before, after}],
                    parameters: {gone: [name], new: [name],
                                 changed: [{name, before: {path, type},
                                            after: {path, type}}]},
                    touched: [name]}], written: [path]}
    touched are the names of gone and changed parameters that the config sets.
    framework_version_newer is null with --to-version, and on the newest.
    """
    project = load_project(Path.cwd())
    if not experiments and not flags["of_all"]:
        message = "name an experiment, or give --all"
        raise click.UsageError(message)
    names = choose_experiments(project, experiments, of_all=flags["of_all"])
    planned = _plan_all(project, names, flags["to_version"])
    changed = [plan for plan in planned if not plan.difference.is_empty]
    contents = {_locate(project, plan.experiment): render_lock(plan.after).encode() for plan in changed}
    if not flags["dry_run"]:
        replace_files(contents)
    written = [] if flags["dry_run"] else [path.relative_to(project.root).as_posix() for path in contents]
    if flags["as_json"]:
        print_json({"items": [_describe(plan) for plan in planned], "written": written})
        return
    for plan in planned:
        _show(plan)
    done = "would be written" if flags["dry_run"] else "written"
    click.echo(f"{count_of(len(changed), 'lock')} {done}" if changed else "nothing to upgrade")


def _plan_all(project: Project, names: list[str], version: str | None) -> list[_Planned]:
    """What every experiment would become; raises for all that cannot be moved at once."""
    planned, refused = [], []
    for name in names:
        try:
            planned.append(_plan(project, name, version))
        except StarForgeError as error:
            refused.append(f"{name}: {str(error).replace(f'{project.root}/', '')}")
    if refused:
        raise ProjectError(
            f"{count_of(len(refused), 'experiment')} cannot be upgraded, so none was",
            why="\n".join(refused),
            next_step="mend what is named, or name the other experiments alone",
        )
    return planned


def _plan(project: Project, name: str, version: str | None) -> _Planned:
    file = _locate(project, name)
    before, method, held = _read_before(file)
    recipe = load_method(method)
    if parse_release(starforge.__version__) < parse_release(recipe.requires_core):
        raise ProjectError(f"{method} needs StarForge {recipe.requires_core}", next_step="install a newer sf")
    runtime = choose_runtime(recipe, version, held)
    after, difference = build_upgrade(recipe, runtime, before, _read_hyperparameters(project, name))
    newer = find_newer(recipe, runtime.version) if version is None else None
    return _Planned(experiment=name, after=after, difference=difference, newer=newer)


def _read_before(file: Path) -> tuple[Lock | None, str, str | None]:
    """The lock as it is, its method and framework version; of a damaged one whatever it still names."""
    try:
        lock = load_lock(file)
    except ProjectError:
        named = find_named(file)
        if named is None:
            raise
        return None, *named
    return lock, lock.recipe.name, lock.framework.version


def _read_hyperparameters(project: Project, name: str) -> dict[str, Json]:
    values = read_config(project.root, Path(EXPERIMENTS_FOLDER, name, CONFIG_FILE)).values.get("hyperparameters")
    return values if isinstance(values, dict) else {}


def _locate(project: Project, name: str) -> Path:
    return project.folder_of(name) / LOCK_FILE


def _describe(plan: _Planned) -> dict[str, Any]:
    lock = plan.after
    facts = {"experiment": plan.experiment, "method": lock.recipe.name, "framework_version": lock.framework.version}
    facts |= {"framework_version_newer": plan.newer}
    return {**facts, "changed": not plan.difference.is_empty, **plan.difference.to_json()}


def _show(plan: _Planned) -> None:
    difference = plan.difference
    version = f" {plan.after.framework.version}" if plan.after.framework.version else ""
    say(f"{plan.experiment}: {plan.after.recipe.name}{version}{': unchanged' if difference.is_empty else ''}")
    for change in difference.changes:
        say(f"  {change.what}: {_clip(change.before)} -> {_clip(change.after)}")
    for label, names in (("gone", difference.gone), ("new", difference.new)):
        if names:
            more = len(names) - _NAMES_SHOWN
            say(f"  {label}: {', '.join(names[:_NAMES_SHOWN])}{f' and {more} more' if more > 0 else ''}")
    for one in difference.rebound:
        before, after = one.before, one.after
        say(f"  changed: {one.name}: {before.type} at {before.path} -> {after.type} at {after.path}")
    if plan.newer:
        note(describe_newer(plan.experiment, str(plan.after.framework.version), plan.newer))
    if difference.touched:
        warn(
            f"the config of {plan.experiment} sets {', '.join(difference.touched)}: "
            f"see sf validate {plan.experiment} after the upgrade"
        )


def _clip(text: str | None) -> str:
    if text is None:
        return "none"
    return text[:19] if text.startswith("sha256:") else text

"""`sf new`: an experiment from a method's template."""

from pathlib import Path
from typing import Final

import click

from starforge.cli.methods import choose_runtime
from starforge.cli.output import json_option, print_json, say
from starforge.contract.images import parse_image_reference
from starforge.errors import ProjectError
from starforge.recipes.catalog import load_method, load_template
from starforge.recipes.faults import Fault
from starforge.recipes.lock import LOCK_FILE, build_lock, render_lock
from starforge.recipes.model import Recipe, Runtime
from starforge.workspace.experiment import read_experiment
from starforge.workspace.project import EXPERIMENTS_FOLDER, NAME, NAME_RULE, Project, load_project

_IMAGE_MARK: Final = b"@IMAGE@"


@click.command()
@click.argument("experiment")
@click.option("--method", default="custom/custom", show_default=True, help="The method; `sf methods` lists them.")
@click.option("--framework-version", "version", metavar="VERSION", help="The framework's version; the newest.")
@click.option("--image", help="The training image; the method's own when it is not given.")
@json_option
def new(experiment: str, method: str, version: str | None, image: str | None, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Make an experiment from a method.

    What it writes runs as it stands where the method has an image and what it needs; else the lines to fill in are
    named.

    \b
    JSON: {experiment, method, framework_version, image, folder, files: [path],
           missing: [{code, message, file, line, column, hint}]}
    missing are the faults that `sf validate` shows until they are filled in.
    """
    project = load_project(Path.cwd())
    _check_name(project, experiment)
    recipe = load_method(method)
    runtime = choose_runtime(recipe, version)
    chosen = image or runtime.image
    if chosen is not None:
        parse_image_reference(chosen)
    files = _build_files(experiment, recipe, runtime, chosen)
    _write(project.folder_of(experiment), files)
    missing = read_experiment(project, experiment).faults
    shown = f"{EXPERIMENTS_FOLDER}/{experiment}"
    if as_json:
        answer = {"experiment": experiment, "method": recipe.name, "framework_version": runtime.version}
        told = [fault.to_json() for fault in missing]
        print_json({**answer, "image": chosen, "folder": shown, "files": sorted(files), "missing": told})
        return
    click.echo(
        f"made {shown} with {recipe.name}{f' for {recipe.framework} {runtime.version}' if runtime.version else ''}"
    )
    _say_next(experiment, missing, _choose_profile(recipe))


def _check_name(project: Project, experiment: str) -> None:
    if not NAME.fullmatch(experiment):
        raise ProjectError(
            f"{experiment!r} cannot name an experiment",
            why=NAME_RULE,
            next_step="choose another name, for instance `sf new first`",
        )
    if project.folder_of(experiment).exists():
        raise ProjectError(f"{EXPERIMENTS_FOLDER}/{experiment} is there already", next_step="choose another name")


def _build_files(experiment: str, recipe: Recipe, runtime: Runtime, image: str | None) -> dict[str, bytes]:
    """The experiment's files by path. Where there is no image, its line says what an image must hold."""
    shown = image.encode() if image is not None else f"# to fill in: {_describe_wanted(recipe, runtime)}".encode()
    files = {
        path: content.replace(b"@EXPERIMENT@", experiment.encode()).replace(_IMAGE_MARK, shown)
        for path, content in load_template(recipe.name).items()
    }
    files[LOCK_FILE] = render_lock(build_lock(recipe, runtime)).encode()
    return files


def _describe_wanted(recipe: Recipe, runtime: Runtime) -> str:
    held = [f"Python {runtime.python}"] if runtime.python else []
    held += [f"{name} {versions}".strip() for name, versions in runtime.modules.items()]
    return f"an image of yours with {', '.join(held) or recipe.framework}"


def _write(folder: Path, files: dict[str, bytes]) -> None:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
        if path.endswith(".sh"):
            (folder / path).chmod(0o755)


def _choose_profile(recipe: Recipe) -> str:
    """A profile that suits the template as it stands: what needs a model wants a GPU for it."""
    return "any:1" if "model" in recipe.needs else "cpu"


def _say_next(experiment: str, missing: list[Fault], profile: str) -> None:
    for fault in missing:
        say(f"to fill in: {fault.place}: {fault.message}{f' ({fault.hint})' if fault.hint else ''}")
    submit = f"git add -A && git commit -m 'Add {experiment}' && sf submit {experiment} --profile {profile} --follow"
    click.echo(f"next: fill that in, then sf validate {experiment}" if missing else f"next: {submit}")

"""`sf new`: an experiment from a method's template."""

from pathlib import Path

import click

from starforge.cli.output import json_option, print_json
from starforge.contract.images import parse_image_reference
from starforge.errors import ProjectError
from starforge.recipes.catalog import load_method, load_template
from starforge.recipes.lock import LOCK_FILE, build_lock, render_lock
from starforge.workspace.project import EXPERIMENTS_FOLDER, NAME, NAME_RULE, load_project


@click.command()
@click.argument("experiment")
@click.option("--method", default="custom/custom", show_default=True, help="The method; `sf methods` lists them.")
@click.option("--image", help="The training image; the method's own when it is not given.")
@json_option
def new(experiment: str, method: str, image: str | None, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Make an experiment from a method.

    What it writes runs as it stands: a small real job, so that the first submit works.

    \b
    JSON: {experiment, method, image, folder, files: [path]}
    """
    project = load_project(Path.cwd())
    if not NAME.fullmatch(experiment):
        raise ProjectError(
            f"{experiment!r} cannot name an experiment",
            why=NAME_RULE,
            next_step="choose another name, for instance `sf new first`",
        )
    folder = project.folder_of(experiment)
    if folder.exists():
        raise ProjectError(f"{EXPERIMENTS_FOLDER}/{experiment} is there already", next_step="choose another name")
    recipe = load_method(method)
    runtime = recipe.runtimes[0]
    chosen = image or runtime.image
    if chosen is not None:
        parse_image_reference(chosen)
    files = {
        path: content.replace(b"@EXPERIMENT@", experiment.encode()).replace(b"@IMAGE@", (chosen or "").encode())
        for path, content in load_template(recipe.name).items()
    }
    files[LOCK_FILE] = render_lock(build_lock(recipe, runtime)).encode()
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
        if path.endswith(".sh"):
            (folder / path).chmod(0o755)
    shown = f"{EXPERIMENTS_FOLDER}/{experiment}"
    if as_json:
        answer = {"experiment": experiment, "method": recipe.name, "image": chosen, "folder": shown}
        print_json({**answer, "files": sorted(files)})
        return
    click.echo(f"made {shown} with {recipe.name}")
    click.echo(f"next: git add -A && git commit -m 'Add {experiment}' && sf submit {experiment} --profile cpu --follow")

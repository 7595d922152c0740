"""`sf init`: a project in a new folder."""

import re
from pathlib import Path
from typing import Final

import click

from starforge import __version__
from starforge.cli.output import json_option, note, print_json
from starforge.errors import ProjectError
from starforge.workspace.git import GitStanding, commit_all, find_repository, start_repository
from starforge.workspace.project import (
    CONFIGS_FOLDER,
    EXPERIMENTS_FOLDER,
    NAME,
    NAME_RULE,
    PROJECT_FILE,
    PROJECT_VERSION,
    find_root,
)

_IGNORED: Final = """\
# Python
__pycache__/
*.pyc
.venv/
venv/
.mypy_cache/
.pytest_cache/
.ruff_cache/
.ipynb_checkpoints/

# Secrets never travel with a job
.env
.env.*
*.pem
id_rsa
id_ed25519

# What runs on this machine leave behind
wandb/
out/
checkpoints/
.DS_Store
"""

_README: Final = """\
# {name}

| folder | what it holds |
|---|---|
| `experiments/` | one folder for each experiment: settings, code, and the version of its method |
| `common/` | code that several experiments share |
| `configs/` | settings that experiments take over with `defaults:` |

```
sf new first                                 # an experiment that runs as it stands
sf validate first                            # every fault at once, without a network
sf submit first --profile cpu --follow       # run it on the team's machines
```

A job gets every file that git tracks or would track, except those that `.sfignore` names.
"""

_ATTRIBUTES: Final = "*.sh text eol=lf\n"


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--name", help="The project's name; the folder's name when it is not given.")
@click.option("--no-git", is_flag=True, help="Make no repository and no commit.")
@json_option
def init(folder: Path, name: str | None, no_git: bool, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Make a project in a new folder.

    Writes starforge.yaml, experiments/, common/, configs/, .gitignore and a README, and commits them in a new
    repository. Inside a repository that is already there nothing is committed.

    \b
    JSON: {name, root, files: [path], commit: text or null}
    """
    root = folder.absolute()
    chosen = name or root.resolve().name
    if not NAME.fullmatch(chosen):
        slug = re.sub(r"[^a-z0-9._-]+", "-", chosen.lower()).strip("-._")[:63]
        raise ProjectError(f"{chosen!r} cannot name a project", why=NAME_RULE, next_step=f"add --name {slug or 'NAME'}")
    outer = find_root(root.parent)
    if outer is not None:
        raise ProjectError(f"{folder} would lie inside the project {outer}", next_step="choose another folder")
    files = _build_files(chosen)
    taken = [path for path in files if (root / path).exists()]
    if taken:
        raise ProjectError(f"{folder} already holds {', '.join(taken)}", next_step="choose a new folder")
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content, encoding="utf-8", newline="\n")
    commit = None if no_git else _commit(root)
    if as_json:
        print_json({"name": chosen, "root": str(root), "files": list(files), "commit": commit})
        return
    click.echo(f"made the project {chosen} in {folder}")
    click.echo(f"next: cd {folder} && sf new first")


def _build_files(name: str) -> dict[str, str]:
    project = f"apiVersion: {PROJECT_VERSION}\nname: {_quote(name)}\ncreated_by: sf {__version__.split('+')[0]}\n"
    return {
        PROJECT_FILE: project,
        "README.md": _README.format(name=name),
        ".gitignore": _IGNORED,
        ".gitattributes": _ATTRIBUTES,
        f"{EXPERIMENTS_FOLDER}/.gitkeep": "",
        "common/.gitkeep": "",
        f"{CONFIGS_FOLDER}/.gitkeep": "",
    }


def _quote(name: str) -> str:
    """A name of digits alone would be read as a number."""
    return name if name[0].isalpha() and name not in {"true", "false", "null"} else f'"{name}"'


def _commit(root: Path) -> str | None:
    standing, _ = find_repository(root)
    if standing is GitStanding.NO_REPOSITORY:
        start_repository(root)
        return commit_all(root, "Start the project")
    if standing is GitStanding.NO_GIT:
        note("git is not installed: no repository was made, and jobs will have no provenance")
    else:
        note("the folder lies in a repository already: nothing was committed")
    return None

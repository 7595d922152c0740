"""Small projects and repositories for tests, made by git itself."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from starforge.recipes.catalog import load_method, load_template
from starforge.recipes.lock import build_lock, render_lock

PROJECT = "apiVersion: forge/project/v1\nname: demo\ncreated_by: test\n"


def write_tree(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write `files` (path to content) below `root`; a path that ends in `.sh` becomes executable."""
    for path, content in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        file.chmod(0o755 if path.endswith(".sh") else 0o644)
    return root


def write_project(root: Path, experiment: str = "first", config: str | None = None) -> Path:
    """A project with one custom experiment; `config` replaces the template's."""
    recipe = load_method("custom/custom")
    folder = f"experiments/{experiment}"
    files: dict[str, str | bytes] = {"starforge.yaml": PROJECT}
    for path, content in load_template(recipe.name).items():
        text = content.replace(b"@EXPERIMENT@", experiment.encode()).replace(b"@IMAGE@", b"python:3.12-slim")
        files[f"{folder}/{path}"] = text
    files[f"{folder}/recipe.lock.json"] = render_lock(build_lock(recipe, recipe.runtimes[0]))
    if config is not None:
        files[f"{folder}/config.yaml"] = config
    return write_tree(root, files)


def git(root: Path, *args: str, **variables: str) -> str:
    """Run git in `root` as somebody whose own configuration does not exist."""
    own = {
        "PATH": os.environ["PATH"],
        "HOME": str(root),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "Ada",
        "GIT_AUTHOR_EMAIL": "ada@example.org",
        "GIT_COMMITTER_NAME": "Ada",
        "GIT_COMMITTER_EMAIL": "ada@example.org",
    }
    options = ("-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always")
    done = subprocess.run(
        ["git", *options, *args], cwd=root, env={**own, **variables}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit_tree(root: Path, files: Mapping[str, str | bytes] | None = None) -> str:
    """Make `root` a repository if it is none, write `files`, commit everything; gives the commit."""
    root.mkdir(parents=True, exist_ok=True)
    if not (root / ".git").exists():
        git(root, "init", "-q")
    write_tree(root, files or {})
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "more", "--allow-empty")
    return git(root, "rev-parse", "HEAD")

"""The recipe for a backup in the guides, run as it is printed: it can be repeated, and its copies can be put back."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tools.tests.support.trees import ROOT, build_tree

GUIDES = ("docs/en/ops/backup.md", "docs/zh-Hans/ops/backup.md")
PLACES = ("/srv/starforge", "/backup")


def load_recipe(guide: str) -> str:
    """The block of commands that copies to /backup."""
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / guide).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (recipe,) = [block for block in blocks if "--hold" in block]
    return str(recipe)


def run_recipe(machine: Path) -> list[str]:
    """Run it with every place below `machine`; what it asked of the console and of sf, in order."""
    recipe = load_recipe(GUIDES[0])
    for place in PLACES:
        recipe = recipe.replace(place, f"{machine}{place}")
    asked = machine / "asked"
    console = machine / "bin/starforge-console"
    console.parent.mkdir(exist_ok=True)
    console.write_text(f"#!/bin/sh\necho $1 with $(ls {machine}/backup) >>{asked}; mkdir $2\n", encoding="utf-8")
    console.chmod(0o755)
    sf = machine / "bin/sf"
    sf.write_text(f"#!/bin/sh\necho sf $3 with $(ls {machine}/backup) >>{asked}\n", encoding="utf-8")
    sf.chmod(0o755)
    env = {"PATH": f"{console.parent}:{os.environ['PATH']}"}
    subprocess.run(["bash", "-euo", "pipefail", "-c", recipe], env=env, check=True, timeout=60)
    return asked.read_text(encoding="utf-8").splitlines()


def list_files(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in files}


def test_both_languages_print_the_same_recipe() -> None:
    assert load_recipe(GUIDES[0]) == load_recipe(GUIDES[1])


@pytest.mark.rsync
def test_the_recipe_for_a_backup_can_be_repeated_and_copies_what_is_there(tmp_path: Path) -> None:
    if shutil.which("rsync") is None:
        pytest.skip("rsync is not installed")
    storage = tmp_path / "srv/starforge"
    build_tree(tmp_path, {"srv/starforge/runs/j1/out/model": "weights"})

    told = [re.sub(r"state-[0-9-]+", "state", line) for line in run_recipe(tmp_path)]
    assert told == ["sf --hold with", "backup with", "sf --release with state storage"]

    (storage / "runs/j1/out/model").unlink()
    build_tree(tmp_path, {"srv/starforge/runs/j2/out/model": "more"})
    for state in (tmp_path / "backup").glob("state-*"):
        state.rename(state.with_name("state-older"))  # a second has not gone by
    run_recipe(tmp_path)

    assert list_files(tmp_path / "backup/storage") == list_files(storage) == {"runs/j2/out/model": "more"}
    assert len(list((tmp_path / "backup").glob("state-*"))) == 2

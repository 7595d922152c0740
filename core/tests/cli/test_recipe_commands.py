import json
from pathlib import Path
from typing import Any

import pytest

from core.tests.cli.conftest import Sf
from core.tests.workspace.trees import write_project
from starforge.recipes.catalog import load_method

LOCK = "experiments/first/recipe.lock.json"


def change_lock(project: Path, experiment: str = "first", **parts: dict[str, Any]) -> None:
    """Let the lock of `experiment` be that of another time: `parts` are laid over its own."""
    file = project / f"experiments/{experiment}/recipe.lock.json"
    content = json.loads(file.read_text())
    for name, members in parts.items():
        content[name].update(members)
    file.write_text(json.dumps(content))


OLDER = {"version": "0", "template_digest": "sha256:" + "0" * 64}
REBOUND = {"parameters": {"steps": {"path": "steps", "type": "int"}}}


def test_status_tells_every_lock_as_it_stands(sf: Sf, project: Path) -> None:
    write_project(project, "second")
    write_project(project, "third")
    change_lock(project, "second", recipe=OLDER)
    (project / "experiments/third/recipe.lock.json").write_text("{")
    items = {item["experiment"]: item for item in sf("recipe", "status", "--json").json["items"]}
    assert {name: item["state"] for name, item in items.items()} == {
        "first": "current",
        "second": "compatible",
        "third": "malformed",
    }
    assert (items["second"]["recipe_version"], items["third"]["method"]) == ("0", None)
    text = sf("recipe", "status", "second")
    assert "compatible" in text.out
    assert "first" not in text.out


def test_a_compatible_lock_is_a_warning_that_names_the_way(sf: Sf, project: Path) -> None:
    change_lock(project, recipe=OLDER)
    answer = sf("validate", "first", "--json").json
    assert answer["ok"]
    (warning,) = answer["warnings"]
    assert (warning["code"], "sf recipe upgrade first" in warning["hint"]) == ("lock_compatible", True)


def test_an_upgrade_shows_the_difference_before_it_writes_it(sf: Sf, project: Path) -> None:
    before = (project / LOCK).read_text()
    change_lock(project, recipe=OLDER, bindings=REBOUND)
    changed = (project / LOCK).read_text()
    (project / "experiments/first/config.yaml").write_text("image: a\nhyperparameters: {steps: 3}\n")
    assert sf("validate", "first", "--json").json["errors"][0]["code"] == "lock_incompatible"
    dry = sf("recipe", "upgrade", "first", "--dry-run")
    assert "recipe version: 0 -> 1" in dry.out
    assert "gone: steps" in dry.out
    assert "sets steps" in dry.err
    assert (project / LOCK).read_text() == changed
    answer = sf("recipe", "upgrade", "first", "--json").json
    assert answer["written"] == [LOCK]
    assert answer["items"][0]["touched"] == ["steps"]
    assert (project / LOCK).read_text() == before
    assert "nothing to upgrade" in sf("recipe", "upgrade", "--all").out


def test_where_one_experiment_cannot_be_upgraded_none_is(sf: Sf, project: Path) -> None:
    write_project(project, "second")
    change_lock(project, recipe=OLDER)
    change_lock(project, "second", recipe={"name": "custom/gone"})
    held = (project / LOCK).read_text()
    refused = sf("recipe", "upgrade", "--all")
    assert refused.code == 2
    assert "second: there is no method 'custom/gone'" in refused.err
    assert (project / LOCK).read_text() == held
    assert sf("recipe", "upgrade", "first").code == 0


def test_a_damaged_lock_that_still_names_its_method_is_written_anew(sf: Sf, project: Path) -> None:
    before = (project / LOCK).read_text()
    (project / LOCK).write_text(before.replace("recipe-lock/v4", "recipe-lock/v3"))
    assert sf("recipe", "upgrade", "first").code == 0
    assert (project / LOCK).read_text() == before
    (project / LOCK).write_text("{")
    assert "restore it from git" in sf("recipe", "upgrade", "first").err


def test_nothing_but_an_upgrade_rewrites_a_lock(sf: Sf, project: Path) -> None:
    change_lock(project, recipe=OLDER)
    held = (project / LOCK).read_bytes()
    for words in (["validate", "first"], ["pack", "first"], ["ls"], ["recipe", "status"], ["submit", "first"]):
        sf(*words, *(["--profile", "cpu", "--dry-run"] if words[0] == "submit" else []))
    assert (project / LOCK).read_bytes() == held


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ([], "name an experiment, or give --all"),
        (["first", "--all"], "name experiments, or give --all"),
        (["frist"], "did you mean 'first'"),
    ],
)
def test_an_upgrade_says_what_it_needs(sf: Sf, project: Path, words: list[str], hint: str) -> None:
    assert (project / LOCK).exists()
    result = sf("recipe", "upgrade", *words)
    assert (result.code != 0, hint in result.err) == (True, True)


def test_arguments_of_a_launch_script_are_checked_at_their_own_place(sf: Sf, project: Path) -> None:
    (project / "run.args").write_text("--lr 1e-5 \\\n# --fp16 \\\n--steps 3\n")
    answer = sf("validate", "first", "--args", "run.args", "--json").json
    (error,) = answer["errors"]
    assert (error["code"], error["file"], error["line"]) == ("arguments_interrupted", "run.args", 2)
    assert "cannot be read" in sf("validate", "first", "--args", "none.args").err


def test_a_profile_that_cannot_be_met_is_a_fault_like_any_other(sf: Sf, project: Path) -> None:
    (project / "experiments/first/config.yaml").write_text("image: a\nimag: b\n")
    answer = sf("validate", "first", "--profile", "cpus", "--json").json
    assert [(one["code"], one["file"]) for one in answer["errors"]] == [
        ("key_unknown", "experiments/first/config.yaml"),
        ("profile_invalid", "--profile"),
    ]
    assert "did you mean 'cpu'" in answer["errors"][1]["hint"]


def test_checking_with_a_profile_says_how_old_the_kept_ones_are(sf: Sf, project: Path, server: str) -> None:
    assert server
    assert project.is_dir()
    assert sf("validate", "first", "--profile", "cpu", "--json").json["profiles_age_s"] is None
    age_s = sf("validate", "first", "--profile", "h200:16", "--json").json["profiles_age_s"]
    assert 0 <= age_s < 60
    assert "ago, at the last sign-in" in sf("validate", "first", "--profile", "h200").err
    (error,) = sf("validate", "first", "--profile", "h200:12", "--json").json["errors"]
    assert "ask for h200:8 or h200:16" in error["hint"]


def test_a_newer_version_of_the_framework_is_named_with_the_way_there(sf: Sf, project: Path) -> None:
    older, newest = ("--framework-version", "1.4.0"), load_method("trl/sft").framework_versions[0]
    for name, words in (("older", older), ("newest", ())):
        sf("new", name, "--method", "trl/sft", "--image", "train:1", *words)
    items = {item["experiment"]: item for item in sf("recipe", "status", "--json").json["items"]}
    assert {name: item["framework_version_newer"] for name, item in items.items()} == {
        "first": None,
        "older": newest,
        "newest": None,
    }
    way = f"sf recipe upgrade older --to-version {newest}"
    assert way in sf("recipe", "status").out
    stays = sf("recipe", "upgrade", "older")
    assert "nothing to upgrade" in stays.out
    assert way in stays.err
    assert sf("recipe", "upgrade", "older", "--to-version", newest, "--json").json["written"]
    assert way not in sf("recipe", "status").out
    assert project.is_dir()

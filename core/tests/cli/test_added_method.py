"""A method is a folder: laid into a copy of the package, it is there for every command."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import starforge
from core.tests.workspace.trees import PROJECT, write_tree

MANIFEST = """\
name: demo/fit
version: "3"
summary: {en: Fit a line, zh-Hans: 拟合直线}
framework: demo
adapter: custom
entry: {kind: module, value: demo.fit}
roles: [train]
needs: [model, train]
include: [shared.yaml]
parameters:
  - {name: lr, group: optimizer, type: number, minimum: 0, default: 0.1, help: {en: The step size, zh-Hans: 步长}}
  - {name: group_size, group: method, type: int, minimum: 1, default: 8, help: {en: Of a group, zh-Hans: 组大小}}
  - {name: old, group: method, type: int, versions: "<2", help: {en: Only once, zh-Hans: 旧参数}}
rules:
  - require: "batch * processes % group_size == 0"
    message: {en: batch times processes must be whole groups, zh-Hans: 批量乘以进程数须为整组}
runtimes:
  - {id: demo-2, version: "2.0", python: ">=3.11", modules: {demo: ">=2,<3"}}
  - {id: demo-1, version: "1.4", image: "registry.local/demo:1.4"}
metrics: [{kind: report}]
primary_metric: {key: loss, better: lower}
checkpoints: {kind: none}
completion: {kind: unknown}
requires_core: "0.1.0"
"""
SHARED = """\
parameters:
  - {name: batch, group: batch, type: int, minimum: 1, default: 4, help: {en: At once, zh-Hans: 批量}}
platform_parameters: [output_dir]
"""
CONFIG = """\
image: @IMAGE@
model: hf://demo/tiny
data: {train: experiments/@EXPERIMENT@/a.jsonl}
hyperparameters: {lr: 1e-2}
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with one more folder."""
    return make_package(tmp_path_factory.mktemp("package"))


def make_package(root: Path) -> Path:
    source = Path(starforge.__file__).parent
    shutil.copytree(source, root / "starforge", ignore=shutil.ignore_patterns("__pycache__"))
    builtin = "starforge/recipes/builtin/demo"
    files = {"shared.yaml": SHARED, "fit/recipe.yaml": MANIFEST, "fit/template/config.yaml": CONFIG}
    write_tree(root, {f"{builtin}/{path}": content for path, content in files.items()})
    write_tree(root, {f"{builtin}/fit/template/a.jsonl": "{}\n"})
    return root


@pytest.fixture
def run(package: Path, tmp_path: Path) -> Run:
    """Run the copy's `sf` in a project."""
    return make_run(package, tmp_path)


def make_run(package: Path, tmp_path: Path) -> Run:
    write_tree(tmp_path / "demo", {"starforge.yaml": PROJECT, "experiments/.gitkeep": ""})
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(package), "LC_ALL": "C.UTF-8"}

    def call(*words: str) -> "subprocess.CompletedProcess[str]":
        argv = [sys.executable, "-m", "starforge.cli.main", *words]
        return subprocess.run(argv, cwd=tmp_path / "demo", env=variables, capture_output=True, text=True, check=False)

    return call


def answer(done: "subprocess.CompletedProcess[str]") -> Any:
    return json.loads(done.stdout)


def test_the_method_is_listed_and_shown_with_its_versions_and_hyperparameters(run: Run) -> None:
    assert "demo/fit" in {item["name"] for item in answer(run("methods", "--json"))["items"]}
    shown = answer(run("methods", "demo/fit", "--json"))
    assert [(one["version"], one["image"]) for one in shown["versions"]] == [
        ("2.0", None),
        ("1.4", "registry.local/demo:1.4"),
    ]
    assert [one["name"] for one in shown["parameters"]] == ["lr", "group_size", "batch"]
    assert shown["parameters"][0]["help"] == {"en": "The step size", "zh-Hans": "步长"}
    assert (shown["needs"], shown["framework_version"]) == (["model", "train"], "2.0")
    older = answer(run("methods", "demo/fit", "--framework-version", "1.4", "--json"))
    assert "old" in {one["name"] for one in older["parameters"]}
    text = run("methods", "demo/fit").stdout
    for part in ("none is published", "Python >=3.11, demo >=2,<3", "lr: number, >= 0, default: 0.1", "The step size"):
        assert part in text
    assert "did you mean '1.4'?" in run("methods", "demo/fit", "--framework-version", "1.5").stderr


def test_an_experiment_of_it_says_what_is_left_to_fill_in(run: Run, tmp_path: Path) -> None:
    made = run("new", "first", "--method", "demo/fit")
    assert "config.yaml:1:1: demo/fit needs an image" in made.stdout
    config = tmp_path / "demo/experiments/first/config.yaml"
    assert "an image of yours with Python >=3.11, demo >=2,<3" in config.read_text()
    published = answer(run("new", "second", "--method", "demo/fit", "--framework-version", "1.4", "--json"))
    assert (published["image"], published["framework_version"], published["missing"]) == (
        "registry.local/demo:1.4",
        "1.4",
        [],
    )
    lock = json.loads((tmp_path / "demo/experiments/second/recipe.lock.json").read_text())
    assert (lock["framework"]["runtime"], "old" in lock["bindings"]["parameters"]) == ("demo-1", True)
    assert "did you mean '1.4'?" in run("new", "third", "--method", "demo/fit", "--framework-version", "1.3").stderr
    assert not (tmp_path / "demo/experiments/third").exists()


def test_its_rules_names_and_needs_are_checked_all_at_once(run: Run, tmp_path: Path) -> None:
    run("new", "first", "--method", "demo/fit", "--image", "registry.local/mine:1")
    assert answer(run("validate", "first", "--json"))["ok"]
    config = "image: registry.local/mine:1\nhyperparameters:\n  old: 1\n  bach: 3\n  batch: 3\n  output_dir: x\n"
    (tmp_path / "demo/experiments/first/config.yaml").write_text(config)
    errors = answer(run("validate", "first", "--json", "--profile", "cpu"))["errors"]
    assert {(error["code"], error["line"]) for error in errors} == {
        ("key_removed", 3),
        ("key_unknown", 4),
        ("rule_broken", 5),
        ("key_platform_owned", 6),
        ("input_missing", 0),
    }
    assert sum(error["code"] == "input_missing" for error in errors) == 2
    without = answer(run("validate", "first", "--json"))["errors"]
    assert "rule_broken" not in {error["code"] for error in without}


def test_a_dry_run_checks_the_rules_with_what_was_asked_for(run: Run) -> None:
    run("new", "first", "--method", "demo/fit", "--image", "registry.local/mine:1")
    broken = run("submit", "first", "--profile", "any:3", "--dry-run", "--set", "batch=2")
    assert broken.returncode == 2
    assert "batch times processes must be whole groups (batch is 2, processes is 3, group_size is 8)" in broken.stderr
    assert run("submit", "first", "--profile", "any:4", "--dry-run", "--set", "batch=2").returncode == 0


def test_an_experiment_moves_to_another_version_of_it(run: Run) -> None:
    run("new", "first", "--method", "demo/fit", "--framework-version", "1.4")
    item = answer(run("recipe", "upgrade", "first", "--to-version", "2.0", "--json"))["items"][0]
    assert (item["parameters"]["gone"], item["framework_version"]) == (["old"], "2.0")
    assert "demo/fit does not run on demo 2.1" in run("recipe", "upgrade", "first", "--to-version", "2.1").stderr


def test_a_method_that_cannot_be_read_hinders_no_other(tmp_path: Path) -> None:
    package = make_package(tmp_path / "package")
    write_tree(package, {"starforge/recipes/builtin/demo/broken/recipe.yaml": "name: [\n"})
    run = make_run(package, tmp_path)
    assert run("new", "first", "--method", "demo/fit", "--image", "registry.local/mine:1").returncode == 0
    assert answer(run("validate", "first", "--json"))["ok"]
    assert run("recipe", "status").returncode == 0
    assert "demo/broken/recipe.yaml" in run("methods").stderr

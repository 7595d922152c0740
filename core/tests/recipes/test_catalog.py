import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import JsonValue

import starforge
from core.tests.recipes.plans import broken_rules
from starforge.contract.jobspec import JobSpec, parse_jobspec
from starforge.errors import NotFound, ProjectError
from starforge.recipes.adapters import build_plan
from starforge.recipes.adapters.inputs import InputPaths, PlanInputs
from starforge.recipes.catalog import (
    list_parts,
    load_catalog,
    load_method,
    load_recipe,
    load_recipes,
    load_template,
    render_compiled,
)
from starforge.runner.packed import NameSets

MANIFEST = """\
name: demo/fit
version: "1"
summary: {en: Fit, zh-Hans: 拟合}
framework: demo
adapter: custom
entry: {kind: file, value: train.py}
roles: [train]
parameters:
  - {name: lr, group: optim, type: number, path: optim.lr, help: {en: The step size, zh-Hans: 步长}, minimum: 0}
runtimes: [{id: demo-1, version: "1.0", image: "demo:1"}]
metrics: [{kind: report}]
checkpoints: {kind: none}
completion: {kind: unknown}
requires_core: "0.1.0"
"""


def write_recipe(root: Path, manifest: str = MANIFEST) -> Path:
    folder = root / "demo" / "fit"
    (folder / "template").mkdir(parents=True)
    (folder / "recipe.yaml").write_text(manifest)
    (folder / "template" / "train.py.template").write_text("print('hello')\n")
    return folder


def spec(**hyperparameters: JsonValue) -> JobSpec:
    digest = "sha256:" + "0" * 64
    return parse_jobspec(
        {
            "metadata": {"name": "first", "project": "demo"},
            "spec": {
                "recipe": {"name": "custom/custom", "version": "1", "digest": digest},
                "framework": {"kind": "custom", "image": "python:3.12-slim"},
                "resources": {"pools": [{"gpus_per_node": 0}]},
                "hyperparameters": hyperparameters,
                "entry": {"kind": "experiment", "value": "experiments/first"},
                "workspace": {"digest": digest, "bytes": 1, "files": 1},
            },
        }
    )


def test_the_custom_method_comes_with_the_installation() -> None:
    recipe = load_catalog()["custom/custom"]
    assert (recipe.entry.value, recipe.entry.executable, recipe.open_parameters) == ("train.sh", True, True)
    assert set(recipe.summary) == {"en", "zh-Hans"}


def test_a_method_is_a_folder_and_nothing_else(tmp_path: Path) -> None:
    write_recipe(tmp_path)
    assert list(load_recipes(tmp_path)) == ["demo/fit"]


def test_the_digest_depends_on_manifest_and_template_alone(tmp_path: Path) -> None:
    first = load_recipe(write_recipe(tmp_path / "a"))
    folder = write_recipe(tmp_path / "b", "# a comment\n" + MANIFEST)
    os.utime(folder / "recipe.yaml", (1, 1))
    assert load_recipe(folder).digest == first.digest
    (folder / "template" / "train.py.template").write_text("print('bye')\n")
    assert load_recipe(folder).digest != first.digest


def test_a_manifest_with_a_fault_is_refused_with_its_place(tmp_path: Path) -> None:
    folder = write_recipe(tmp_path, MANIFEST.replace("version:", "verzion:", 1))
    with pytest.raises(ProjectError, match="verzion"):
        load_recipe(folder)


def test_a_manifest_in_the_wrong_folder_is_refused(tmp_path: Path) -> None:
    folder = write_recipe(tmp_path, MANIFEST.replace("demo/fit", "demo/other"))
    with pytest.raises(ProjectError, match="demo/other"):
        load_recipe(folder)


def test_an_unknown_method_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(NotFound, match=r"did you mean 'custom/custom'\?"):
        load_method("custom/costum")


def test_the_plan_of_a_custom_job_starts_its_script_in_the_experiments_folder() -> None:
    recipe = load_method("custom/custom")
    paths = InputPaths(train="@FORGE_WORK_DIR@/data/train.jsonl")
    inputs = PlanInputs(recipe=recipe, runtime=recipe.runtimes[0], spec=spec(lr=0.1), paths=paths, resume=True)
    plan = build_plan(inputs)
    assert plan.env == {"FORGE_TRAIN_DATA": "@FORGE_WORK_DIR@/data/train.jsonl"}
    assert (plan.argv, plan.cwd) == (("bash", "train.sh"), "experiments/first")
    assert (plan.checkpoint.kind, plan.complete.kind, plan.metric_sources[0].kind) == ("manifest", "finish", "report")


def run_template(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    for name, content in load_template("custom/custom").items():
        (folder / name).write_bytes(content)
    own = {"PATH": os.environ["PATH"], "FORGE_PYTHON": sys.executable}
    package = {"PYTHONPATH": str(Path(starforge.__file__).parents[1])}
    return subprocess.run(
        ["bash", "train.sh"],
        cwd=folder,
        env={**own, **package, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_fresh_custom_experiment_trains_and_leaves_curve_checkpoint_and_artifact(tmp_path: Path) -> None:
    settings = {"steps": 60, "learning_rate": 0.05, "seed": 3, "checkpoint_every": 30}
    (tmp_path / "spec.json").write_text(json.dumps(settings))
    (tmp_path / "report.jsonl").touch()
    done = run_template(
        tmp_path,
        FORGE_SPEC=str(tmp_path / "spec.json"),
        FORGE_OUT_DIR=str(tmp_path / "out"),
        FORGE_CKPT_DIR=str(tmp_path / "ckpt"),
        FORGE_REPORT_FILE=str(tmp_path / "report.jsonl"),
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "report.jsonl").read_text().splitlines()]
    names = NameSets()
    for line in lines:
        if "packed" in line:
            line.update(json.loads(names.unpack(line)))
        elif "keys" in line:
            names.learn(line)
    losses = [line["values"]["loss"] for line in lines if "loss" in line.get("values", {})]
    assert len(losses) == 60
    assert losses[-1] < 0.8 * losses[0]
    assert (tmp_path / "ckpt" / "step-60" / "starforge-checkpoint.json").is_file()
    assert json.loads((tmp_path / "out" / "model.json").read_text())["loss"] == losses[-1]


def test_the_template_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    start = tmp_path / "old"
    start.mkdir()
    (start / "state.json").write_text(json.dumps({"step": 199, "weights": [[0.1, 0.2, 0.3]]}))
    done = run_template(tmp_path, FORGE_RESUME_FROM=str(start))
    assert done.returncode == 0, done.stderr
    assert "resuming after step 199" in done.stdout
    assert "step 200:" in done.stdout
    assert "step 20:" not in done.stdout


def test_the_script_of_the_template_is_executable_and_has_unix_line_ends() -> None:
    script = Path(starforge.__file__).parent / "recipes/builtin/custom/custom/template/train.sh"
    assert script.stat().st_mode & stat.S_IXUSR
    assert all(b"\r" not in content for content in load_template("custom/custom").values())


def test_a_compiled_file_is_taken_for_the_very_yaml_that_it_was_made_of(tmp_path: Path) -> None:
    folder = write_recipe(tmp_path)
    plain = load_recipe(folder)
    compiled = folder / "recipe.json"
    compiled.write_text(render_compiled(folder / "recipe.yaml"))
    assert load_recipe(folder) == plain
    compiled.write_text(compiled.read_text().replace("The step size", "Taken from beside it"))
    assert load_recipe(folder).parameters[0].help["en"] == "Taken from beside it"
    (folder / "recipe.yaml").write_text(MANIFEST.replace("The step size", "Edited"))
    assert load_recipe(folder).parameters[0].help["en"] == "Edited"


def test_what_several_methods_share_is_a_part_that_is_compiled_too(tmp_path: Path) -> None:
    folder = write_recipe(tmp_path)
    (folder.parent / "common.yaml").write_text("platform_parameters: [output_dir]\n")
    assert [path.name for path in list_parts(tmp_path)] == ["common.yaml", "recipe.yaml"]


@pytest.mark.parametrize("method", load_catalog())
def test_a_name_that_was_changed_is_answered_with_one_that_the_newest_version_has(method: str) -> None:
    recipe = load_method(method)
    newest = recipe.at(recipe.framework_versions[0] if recipe.framework_versions else None)
    names = {parameter.name for parameter in newest.parameters}
    written = {name: texts["en"].removeprefix("write ") for name, texts in recipe.removed.items()}
    renamed = {name: new for name, new in written.items() if new != recipe.removed[name]["en"]}
    assert not names & set(renamed)
    assert set(renamed.values()) <= names


@pytest.mark.parametrize("method", ["trl/sft", "verl/sft", "openrlhf/sft", "openrlhf/dpo", "openrlhf/rm"])
def test_methods_that_no_ray_spreads_are_refused_on_two_nodes_before_they_are_sent(method: str) -> None:
    assert any("one node" in message for message in broken_rules(method, {}, gpus=2, nodes=2))
    assert not any("one node" in message for message in broken_rules(method, {}, gpus=2, nodes=1))


@pytest.mark.parametrize("name", sorted(load_catalog()))
def test_no_two_hyperparameters_of_a_method_write_one_setting(name: str) -> None:
    recipe = load_method(name)
    for version in recipe.framework_versions or (None,):
        found = recipe.at(version)
        paths = [one.path for one in found.parameters]
        assert sorted(paths) == sorted(set(paths)), version
        names = [one.name for one in found.parameters] + [other for one in found.parameters for other in one.aliases]
        assert sorted(names) == sorted(set(names)), version
        assert not set(paths) & found.fixed.keys(), version


def test_what_methods_share_is_said_once_and_may_be_said_anew(tmp_path: Path) -> None:
    shared = {"metrics": [{"kind": "trainer"}], "checkpoints": {"kind": "none"}, "completion": {"kind": "finish"}}
    own = "\n".join(line for line in MANIFEST.splitlines() if not line.startswith(("metrics", "checkpoints")))
    folder = write_recipe(tmp_path, f"{own}\ninclude: [platform.yaml]\n")
    more = {**shared, "modules": {"1.0": {"ray": ">=2"}, "2.0": {"ray": ">=3"}}}
    (tmp_path / "demo" / "platform.yaml").write_text(json.dumps(more))
    recipe = load_recipe(folder)
    assert [one.kind for one in recipe.metrics] == ["trainer"]
    assert (recipe.checkpoints.kind, recipe.completion.kind) == ("none", "unknown")
    assert dict(recipe.runtimes[0].modules) == {"ray": ">=2"}


def test_a_recipe_that_does_not_say_how_checkpoints_are_told_cannot_be_used(tmp_path: Path) -> None:
    folder = write_recipe(tmp_path, MANIFEST.replace("checkpoints: {kind: none}\n", ""))
    with pytest.raises(ProjectError, match="does not say its checkpoints"):
        load_recipe(folder)

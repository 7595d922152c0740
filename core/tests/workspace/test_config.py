import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from core.tests.workspace.trees import commit_tree, write_project, write_tree
from starforge.contract.jobspec import Resources
from starforge.errors import NotFound, ProjectError
from starforge.hardware.profiles import build_resources
from starforge.recipes.faults import Fault
from starforge.recipes.lock import LockState
from starforge.workspace.config import Setting, parse_setting
from starforge.workspace.experiment import Experiment, check_experiment, read_experiment
from starforge.workspace.manifest import load_manifest
from starforge.workspace.pack import pack_manifest
from starforge.workspace.project import load_project, resolve_experiment
from starforge.workspace.provenance import load_origin
from starforge.workspace.submission import Contents, build_jobspec, build_share, check_clean, check_data_travels

IMAGE = "image: python:3.12-slim\n"


def read(root: Path, config: str | None = None, settings: Sequence[Setting] = ()) -> Experiment:
    write_project(root, config=config)
    return read_experiment(load_project(root), "first", settings)


def shown(faults: Sequence[Fault]) -> list[tuple[str, str]]:
    return [(fault.code, str(fault.place).removeprefix("experiments/first/")) for fault in faults]


def test_a_fresh_experiment_has_no_fault(tmp_path: Path) -> None:
    experiment = read(tmp_path)
    assert (experiment.faults, experiment.warnings, experiment.lock_state) == ([], [], LockState.CURRENT)


def test_every_fault_is_named_at_once_with_file_line_and_column(tmp_path: Path) -> None:
    config = (
        "imagee: x\n"
        "hyperparameters: [1]\n"
        "lifecycle:\n"
        "  retries: -1\n"
        "  graces_s: 3\n"
        "  resume: maybe\n"
        "labels: {team: 7}\n"
        "workspace: x\n"
    )
    write_project(tmp_path, config=config)
    (tmp_path / "experiments/first/train.sh").chmod(0o644)
    experiment = read_experiment(load_project(tmp_path), "first")
    assert set(shown(experiment.faults)) == {
        ("key_unknown", "config.yaml:1:1"),
        ("value_type", "config.yaml:2:18"),
        ("value_bounds", "config.yaml:4:12"),
        ("key_unknown", "config.yaml:5:3"),
        ("value_choice", "config.yaml:6:11"),
        ("value_type", "config.yaml:7:16"),
        ("key_platform_owned", "config.yaml:8:1"),
        ("image_missing", "config.yaml"),
        ("entry_not_executable", "train.sh"),
    }
    hints = {fault.hint for fault in experiment.faults}
    assert {"did you mean 'image'?", "did you mean 'grace_s'?", "chmod +x experiments/first/train.sh"} <= hints


def test_a_missing_image_is_a_fault(tmp_path: Path) -> None:
    assert shown(read(tmp_path, "hyperparameters: {a: 1}\n").faults) == [("image_missing", "config.yaml")]


def test_what_the_contract_would_refuse_is_named_where_it_is_set(tmp_path: Path) -> None:
    config = (
        f"image: {'i' * 301}\n"
        "init_from: run/x/checkpoint\n"
        "observability: somewhere\n"
        f"note: {'n' * 1001}\n"
        "placement: {fleet: 'My Fleet'}\n"
    )
    faults = read(tmp_path, config).faults
    assert {(code, place.partition(":")[2]) for code, place in shown(faults)} == {
        ("image_invalid", "1:8"),
        ("value_invalid", "2:12"),
        ("value_invalid", "3:16"),
        ("value_invalid", "4:7"),
        ("value_invalid", "5:20"),
    }


def test_a_script_with_windows_line_ends_is_refused_at_the_first_of_them(tmp_path: Path) -> None:
    write_project(tmp_path)
    write_tree(tmp_path, {"experiments/first/train.sh": "#!/bin/bash\necho a\r\necho b\r\n"})
    faults = read_experiment(load_project(tmp_path), "first").faults
    assert shown(faults) == [("entry_line_ends", "train.sh:2:1")]


@pytest.mark.parametrize("parent", ["pipe", "endless"])
def test_a_pipe_or_a_device_in_place_of_a_config_or_parent_is_not_waited_for(tmp_path: Path, parent: str) -> None:
    write_project(tmp_path, config=f"{IMAGE}defaults: [{parent}]\n")
    (tmp_path / "configs").mkdir(exist_ok=True)
    os.mkfifo(tmp_path / "configs/pipe.yaml")
    (tmp_path / "configs/endless.yaml").symlink_to("/dev/zero")
    (fault,) = read_experiment(load_project(tmp_path), "first").faults
    assert (fault.code, "is no plain file" in fault.message) == ("parent_missing", True)
    config = tmp_path / "experiments/first/config.yaml"
    config.unlink()
    config.symlink_to(tmp_path / f"configs/{parent}.yaml")
    assert "config_missing" in [fault.code for fault in read_experiment(load_project(tmp_path), "first").faults]


def test_a_missing_script_config_or_lock_is_named(tmp_path: Path) -> None:
    write_project(tmp_path)
    for name in ("train.sh", "config.yaml"):
        (tmp_path / "experiments/first" / name).unlink()
    faults = read_experiment(load_project(tmp_path), "first").faults
    assert {code for code, _ in shown(faults)} == {"config_missing", "entry_missing"}
    (tmp_path / "experiments/first/recipe.lock.json").write_text("{}")
    experiment = read_experiment(load_project(tmp_path), "first")
    assert ("lock_malformed", "recipe.lock.json") in shown(experiment.faults)


def test_a_lock_that_is_behind_is_a_warning_and_one_that_cannot_run_is_a_fault(tmp_path: Path) -> None:
    write_project(tmp_path)
    lock = tmp_path / "experiments/first/recipe.lock.json"
    text = lock.read_text()
    digest = text.partition('"template_digest": "sha256:')[2][:64]
    lock.write_text(text.replace(digest, "0" * 64))
    experiment = read_experiment(load_project(tmp_path), "first")
    assert (shown(experiment.warnings), experiment.faults) == ([("lock_compatible", "recipe.lock.json")], [])
    lock.write_text(text.replace("custom-any", "custom-old"))
    assert shown(read_experiment(load_project(tmp_path), "first").faults) == [
        ("lock_runtime_removed", "recipe.lock.json")
    ]


def test_parents_lie_below_the_experiment_and_later_ones_above_earlier(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "configs/base.yaml": "hyperparameters: {a: 1, b: 1, c: 1, nested: {x: 1, y: 1}}\n",
            "configs/fast.yaml": "hyperparameters: {b: 2, c: 2}\nlifecycle: {retries: 3}\n",
        },
    )
    config = IMAGE + "defaults: [base, fast.yaml]\nhyperparameters: {c: 3, nested: {y: 3}}\n"
    experiment = read(tmp_path, config)
    assert experiment.faults == []
    assert experiment.section("hyperparameters") == {"a": 1, "b": 2, "c": 3, "nested": {"x": 1, "y": 3}}
    assert experiment.section("lifecycle") == {"retries": 3}
    assert "defaults" not in experiment.values


def test_a_fault_of_a_parent_is_shown_in_the_parents_file(tmp_path: Path) -> None:
    write_tree(tmp_path, {"configs/base.yaml": "\nlifecycle: {retries: many}\n"})
    faults = read(tmp_path, IMAGE + "defaults: [base]\n").faults
    assert shown(faults) == [("value_type", "configs/base.yaml:2:22")]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("basse", "parent_missing"),
        ("../secrets", "parent_outside"),
        ("/etc/passwd", "parent_outside"),
        ("7", "value_type"),
    ],
)
def test_a_parent_that_cannot_be_one_is_refused_where_it_is_named(tmp_path: Path, name: str, code: str) -> None:
    write_tree(tmp_path, {"configs/base.yaml": "note: x\n"})
    faults = read(tmp_path, IMAGE + f"defaults: [{name}]\n").faults
    assert shown(faults) == [(code, "config.yaml:2:12")]


def test_a_loop_of_parents_is_shown_as_the_chain_that_it_is(tmp_path: Path) -> None:
    write_tree(tmp_path, {"configs/a.yaml": "defaults: [b]\n", "configs/b.yaml": "defaults: [a]\n"})
    (fault,) = read(tmp_path, IMAGE + "defaults: [a]\n").faults
    assert fault.code == "parent_loop"
    assert "configs/a.yaml > configs/b.yaml > configs/a.yaml" in fault.message


def test_two_parents_may_share_a_parent(tmp_path: Path) -> None:
    files = {"configs/a.yaml": "defaults: [c]\n", "configs/b.yaml": "defaults: [c]\n", "configs/c.yaml": "note: x\n"}
    write_tree(tmp_path, files)
    experiment = read(tmp_path, IMAGE + "defaults: [a, b]\n")
    assert (experiment.faults, experiment.values["note"]) == ([], "x")


@pytest.mark.parametrize(
    ("setting", "path", "value"),
    [
        ("learning_rate=1e-5", ("hyperparameters", "learning_rate"), 1e-5),
        ("optim.name=adam", ("hyperparameters", "optim", "name"), "adam"),
        ("lifecycle.retries=2", ("lifecycle", "retries"), 2),
        ("list=[1, 2]", ("hyperparameters", "list"), [1, 2]),
        ("text=a=b", ("hyperparameters", "text"), "a=b"),
        ("empty=", ("hyperparameters", "empty"), None),
        ("shell=$(id) `id` ${x}", ("hyperparameters", "shell"), "$(id) `id` ${x}"),
        (r'lines="a\nb: 2"', ("hyperparameters", "lines"), "a\nb: 2"),
    ],
)
def test_a_setting_of_the_command_line_is_yaml(setting: str, path: tuple[str, ...], value: object) -> None:
    parsed = parse_setting(setting)
    assert (parsed.path, parsed.value) == (path, value)
    assert parsed.option == f"--set {setting.partition('=')[0]}"


@pytest.mark.parametrize(
    "setting",
    [
        *("x", "=1", "a=[1", "a=042", "a..b=1", ".a=1", "a.=1"),
        *("a=1\nb: 2", "a=1\u2028b: 2", "a=\udc80", "a=\ud800", "a=\0", f"a={'9' * 5000}"),
    ],
)
def test_a_setting_that_is_none_is_refused(setting: str) -> None:
    with pytest.raises(ProjectError, match="--set"):
        parse_setting(setting)


def test_settings_lie_above_the_files_and_are_checked_like_them(tmp_path: Path) -> None:
    experiment = read(tmp_path, None, [parse_setting("steps=7"), parse_setting("lifecycle.retries=1000")])
    assert experiment.section("hyperparameters")["steps"] == 7
    assert [fault.code for fault in experiment.faults] == ["value_bounds"]


@pytest.mark.parametrize(
    ("setting", "code"),
    [
        (Setting(("lifecycle", "retries"), -1, "--retries"), "value_bounds"),
        (Setting(("lifecycle", "max_runtime_s"), 0.0, "--max-runtime"), "value_bounds"),
        (Setting(("init_from",), "run/xyz", "--init-from"), "value_invalid"),
        (Setting(("image",), "Not An Image", "--image"), "image_invalid"),
        (Setting(("placement", "fleet"), "My Fleet", "--fleet"), "value_invalid"),
        (Setting(("note",), "n" * 1001, "--note"), "value_invalid"),
        (Setting(("data", "train"), "nosuch.json", "--train-data"), "data_missing"),
        (Setting(("data",), 5, "--set data"), "value_type"),
        (parse_setting("lifecycle.retrys=1"), "key_unknown"),
        (parse_setting("labels={a: 1}"), "value_type"),
    ],
)
def test_a_fault_of_an_option_is_named_by_the_option_in_words(tmp_path: Path, setting: Setting, code: str) -> None:
    experiment = read(tmp_path, None, [setting])
    assert [(fault.code, str(fault.place)) for fault in experiment.faults] == [(code, setting.option)]
    with pytest.raises(ProjectError) as refused:
        check_experiment(experiment)
    said = str(refused.value)
    assert setting.option in said
    assert "config.yaml" not in said
    assert "^" not in said


@pytest.mark.parametrize("key", ["init_from: run/x", "observability: here", "placement: {fleet: A B}", "image: A b"])
def test_no_message_shows_a_regular_expression(tmp_path: Path, key: str) -> None:
    (fault,) = read(tmp_path, ("" if key.startswith("image") else IMAGE) + key).faults
    assert not set("^$\\") & set(fault.message + fault.hint)
    assert "pattern" not in fault.message


@pytest.mark.parametrize(
    ("value", "code", "hint"),
    [
        ("nosuch.json", "data_missing", "from the project's folder"),
        ("train.py", "data_missing", "write experiments/first/train.py"),
        ("../secret", "data_outside", "without '..'"),
        ("s3://bucket/x", "data_scheme", "hf://OWNER/NAME"),
        ("hf://name", "data_address", "hf://OWNER/NAME"),
        ("Qwen/Qwen2.5-0.5B", "data_missing", "did you mean hf://Qwen/Qwen2.5-0.5B?"),
        ("hf:Qwen/Qwen2.5-0.5B@main", "data_missing", "did you mean hf://Qwen/Qwen2.5-0.5B@main?"),
        ("experiments/nosuch", "data_missing", "paths count"),
    ],
)
@pytest.mark.parametrize("setting", ["data: {{train: '{}'}}\n", "model: '{}'\n"])
def test_inputs_that_cannot_be_there_are_a_fault(
    tmp_path: Path, setting: str, value: str, code: str, hint: str
) -> None:
    (fault,) = read(tmp_path, IMAGE + setting.format(value)).faults
    assert (fault.code, fault.place.line) == (code, 2)
    assert hint in fault.hint


@pytest.mark.parametrize("value", ["experiments/first/train.py", "experiments", "hf://a/b@main", "hf://a/b"])
def test_data_that_is_there_or_at_a_hub_is_none(tmp_path: Path, value: str) -> None:
    experiment = read(tmp_path, f"{IMAGE}data: {{train: '{value}', validation: '{value}'}}\n")
    assert (experiment.faults, experiment.warnings) == ([], [])


def test_data_on_the_machines_is_warned_of(tmp_path: Path) -> None:
    experiment = read(tmp_path, IMAGE + "data: {validation: /nosuch}\n")
    assert experiment.faults == []
    assert [(w.code, w.place.line) for w in experiment.warnings] == [("data_unchecked", 2)]


def test_data_that_a_rule_leaves_out_does_not_travel(tmp_path: Path) -> None:
    write_tree(tmp_path, {"big/a.json": "{}", "kept/a.json": "{}", ".sfignore": "big/\n"})
    experiment, _, contents = build(tmp_path, IMAGE + "data: {train: kept, validation: kept/a.json}\n")
    check_data_travels(experiment, contents.packed)
    for setting in ("data: {train: ./big/a.json}\n", "model: big\n"):
        experiment, _, contents = build(tmp_path, IMAGE + setting)
        with pytest.raises(ProjectError, match=r"(?s)big.*\.sfignore"):
            check_data_travels(experiment, contents.packed)


def test_an_experiment_is_named_by_its_name_or_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = load_project(write_project(tmp_path))
    monkeypatch.chdir(tmp_path / "experiments")
    assert resolve_experiment(project, "first") == "first"
    assert resolve_experiment(project, "./first/") == "first"
    with pytest.raises(NotFound, match="did you mean 'first'"):
        resolve_experiment(project, "frist")


def test_a_project_is_found_from_any_folder_below_and_its_faults_are_named(tmp_path: Path) -> None:
    write_project(tmp_path)
    assert load_project(tmp_path / "experiments/first").root == tmp_path
    with pytest.raises(ProjectError, match="sf init"):
        load_project(tmp_path.parent)
    write_tree(tmp_path, {"starforge.yaml": "apiVersion: forge/project/v9\nname: Demo\n"})
    with pytest.raises(ProjectError, match=r"(?s)forge/project/v9.*Demo"):
        load_project(tmp_path)


def build(root: Path, config: str | None = None) -> tuple[Experiment, Resources, Contents]:
    experiment = read(root, config)
    check_experiment(experiment)
    manifest = load_manifest(root)
    contents = Contents(packed=pack_manifest(manifest), origin=load_origin(manifest))
    return experiment, build_resources(["cpu"], {}, ("train",), build_share(experiment)), contents


def test_the_jobspec_says_what_the_experiment_says(tmp_path: Path) -> None:
    config = IMAGE + (
        "model: hf://a/b@main\nnote: a try\nlabels: {team: nlp}\ndata: {train: data/a.json}\n"
        "hyperparameters: {lr: 1e-5}\nresources: {cpus: 2, memory_gib: 4}\n"
        "lifecycle: {retries: 2, max_runtime_s: 60}\nplacement: {priority: high}\n"
    )
    write_tree(tmp_path, {"data/a.json": "{}"})
    experiment, resources, contents = build(tmp_path, config)
    spec = build_jobspec(experiment, resources, contents)
    assert (spec.metadata.name, spec.metadata.project, spec.metadata.labels) == ("first", "demo", {"team": "nlp"})
    assert (spec.spec.entry.kind, spec.spec.entry.value) == ("experiment", "experiments/first")
    assert spec.spec.resources.pools[0].memory_bytes == 4 << 30
    assert (spec.spec.lifecycle.retries, spec.spec.placement.priority) == (2, "high")
    assert spec.spec.hyperparameters == {"lr": 1e-5}
    assert experiment.lock is not None
    assert spec.spec.recipe.digest == experiment.lock.recipe.digest
    assert spec.spec.provenance.config_digest == experiment.config_digest


def test_a_dirty_tree_is_refused_by_name_unless_it_is_allowed(tmp_path: Path) -> None:
    commit_tree(write_project(tmp_path))
    write_tree(tmp_path, {"new.py": "x"})
    origin = load_origin(load_manifest(tmp_path))
    with pytest.raises(ProjectError, match=r"new\.py.*--allow-dirty"):
        check_clean(origin, allow_dirty=False)
    check_clean(origin, allow_dirty=True)

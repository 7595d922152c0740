"""What `sf validate` says of experiments of the methods, before a machine would say it."""

from pathlib import Path
from typing import Any

import pytest

from core.tests.cli.conftest import Sf
from core.tests.workspace.trees import write_tree
from starforge.workspace.experiment import read_experiment
from starforge.workspace.project import load_project

CONFIG = "experiments/third/config.yaml"
WITH_DATA = "image: train:1\nmodel: hf://a/b\n"


def write_config(sf: Sf, project: Path, method: str, config: str) -> None:
    assert sf("new", "third", "--method", method, "--image", "train:1").code == 0
    write_tree(project, {CONFIG: config, "data/a.jsonl": "{}\n", "data/b.json": "{}\n"})


@pytest.mark.parametrize(
    ("method", "settings", "told"),
    [
        (
            "trl/sft",
            "data: {train: data/a.jsonl}\nhyperparameters: {eval_strategy: epoch}\n",
            (4, "eval_strategy is 'epoch' and there is no validation data"),
        ),
        ("trl/dpo", "data: {train: data, validation: data/b.json}\n", (3, "data.train is a folder")),
        ("trl/sft", "data: {train: hf://a/b.json, validation: data/b.json}\n", (3, "data.train is a folder")),
        ("trl/sft", "data: {train: data/a.jsonl, validation: data/b.json}\n", (3, "one data set has one format")),
        (
            "nemo-rl/sft",
            "data: {train: data/a.jsonl}\nhyperparameters: {sft.val_period: 5}\n",
            (4, "sft.val_period is 5 and there is no validation data"),
        ),
    ],
)
def test_what_a_launch_would_refuse_is_a_fault_at_its_setting(
    sf: Sf, project: Path, method: str, settings: str, told: tuple[int, str]
) -> None:
    line, message = told
    write_config(sf, project, method, WITH_DATA + settings)
    for words in (["validate", "third", "--json"], ["validate", "third", "--profile", "any:1", "--json"]):
        (fault,) = sf(*words).json["errors"]
        assert (fault["code"], fault["file"], fault["line"]) == ("launch_refused", CONFIG, line)
        assert message in fault["message"]
    refused = sf("submit", "third", "--profile", "any:1", "--dry-run")
    assert message in refused.err


def test_what_depends_on_the_gpus_is_told_once_they_are_named(sf: Sf, project: Path) -> None:
    sf("new", "third", "--method", "openrlhf/ppo", "--image", "train:1")
    config = (project / CONFIG).read_text()
    write_tree(project, {CONFIG: config.replace("tensor_parallel_size: 1", "tensor_parallel_size: 3")})
    assert sf("validate", "third", "--json").json["errors"] == []
    (fault,) = sf("validate", "third", "--profile", "any:4", "--json").json["errors"]
    assert (fault["code"], "multiple of vllm.tensor_parallel_size" in fault["message"]) == ("rule_broken", True)


def test_rules_that_wait_for_a_profile_are_counted(sf: Sf, project: Path) -> None:
    sf("new", "third", "--method", "trl/grpo", "--image", "train:1")
    without, having = sf("validate", "third", "--json"), sf("validate", "third", "--profile", "any:1", "--json")
    assert without.json["rules_about_gpus_left"] > 0
    assert (without.code, having.json["rules_about_gpus_left"]) == (0, 0)
    assert "about GPUs were not looked at: add --profile" in sf("validate", "third").err
    assert "not looked at" not in sf("validate", "third", "--profile", "any:1").err
    assert (project / CONFIG).is_file()


@pytest.mark.parametrize("method", ["trl/sft", "trl/dpo", "trl/kto", "trl/reward", "trl/grpo", "trl/rloo"])
def test_a_first_job_of_trl_takes_enough_steps_for_a_curve(sf: Sf, project: Path, method: str) -> None:
    sf("new", "third", "--method", method, "--image", "train:1")
    values: Any = read_experiment(load_project(project), "third").section("hyperparameters")
    examples = len((project / "experiments/third/data/train.jsonl").read_text().splitlines())
    answers = values.get("num_generations", 1)
    steps = examples * answers // values["per_device_train_batch_size"] * values["num_train_epochs"]
    assert steps // values["logging_steps"] >= 8
    assert steps >= values["save_steps"]
    assert steps > 4 * values.get("warmup_steps", 0)
    assert sf("validate", "third", "--profile", "any:1").code == 0


@pytest.mark.parametrize(
    ("setting", "hint"),
    [
        ("lr: 1.0e-5", "write learning_rate"),
        ("batch_size: 8", "write per_device_train_batch_size"),
        ("per_device_train_batch_size: 8.0", "write 8"),
        ("report_to: wandb", "curves come to the console by themselves"),
        ("model_name_or_path: a", "write model: at the top"),
        ("packing: true, max_length: null", "max_length is not set"),
        ("load_in_4bit: true", "use_peft is false"),
    ],
)
def test_what_is_to_be_written_instead_is_said(sf: Sf, project: Path, setting: str, hint: str) -> None:
    data = "data: {train: data/a.jsonl}\n"
    write_config(sf, project, "trl/sft", f"{WITH_DATA}{data}hyperparameters: {{{setting}}}\n")
    (fault,) = sf("validate", "third", "--json").json["errors"]
    assert hint in fault["hint"]

"""The methods of NeMo RL: what is started, with which settings upon its examples, and what is refused before."""

import json
from typing import Any

import pytest
from pydantic import JsonValue

from core.tests.recipes.plans import broken_rules, plan_of
from starforge.contract import capsule as c
from starforge.errors import LaunchRefused
from starforge.recipes.adapters.inputs import InputPaths
from starforge.recipes.catalog import load_method, load_template
from starforge.recipes.hyperparameters import check_hyperparameters
from starforge.recipes.yaml12 import read_yaml

METHODS = ("nemo-rl/sft", "nemo-rl/dpo", "nemo-rl/grpo")
VERSIONS = ("0.7.0", "0.6.0", "0.5.0", "0.4.0")
PATHS = InputPaths(model="/in/model", train="/in/a.jsonl")
WITH_TESTS = InputPaths(model="/in/model", train="/in/a.jsonl", validation="/in/b.jsonl")
DATA = "@FORGE_WORK_DIR@/starforge-run/data"
OWNED = {
    "cluster": {"gpus_per_node": 2, "num_nodes": 1},
    "logger": {
        "log_dir": "@FORGE_WORK_DIR@/starforge-run/logs",
        "mlflow_enabled": False,
        "monitor_gpus": False,
        "swanlab_enabled": False,
        "tensorboard_enabled": True,
        "wandb_enabled": False,
    },
}
KEPT = {"checkpoint_dir": "@FORGE_CKPT_DIR@", "checkpoint_must_save_by": None, "enabled": True}
OFFICIAL = b"""\
hyperparameters:
  policy:
    optimizer:
      name: "torch.optim.AdamW"
      kwargs: {lr: 5.0e-6, betas: [0.9, 0.98], eps: 1e-5, foreach: False, fused: False}
    tokenizer:
      name: ${policy.model_name} ## specify if different
    dynamic_batching:
      train_mb_tokens: ${mul:${policy.max_total_sequence_length}, ${policy.train_micro_batch_size}}
    megatron_cfg: {peft: {lora_dtype: None}}
"""


def settings_of(plan: c.Plan) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(plan.files["starforge-run/nemo_rl.yaml"])
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_a_plan_of_fine_tuning_as_a_whole(version: str) -> None:
    hyperparameters: dict[str, JsonValue] = {
        "sft": {"max_num_steps": 80},
        "policy.optimizer.kwargs.lr": 1e-5,
        "policy.tokenizer.chat_template": None,
        "data.train.input_key": "question",
        "extra": {"policy.megatron_cfg": {"moe_permute_fusion": True}},
    }
    plan = plan_of("nemo-rl/sft", hyperparameters, version=version, gpus=2, paths=PATHS)
    nested = {
        "train": {
            "data_path": f"{DATA}/train.jsonl",
            "dataset_name": "ResponseDataset",
            "input_key": "question",
            "split": "train",
        },
        "validation": None,
    }
    flat = {"dataset_name": "ResponseDataset", "input_key": "question", "train_data_path": f"{DATA}/train.jsonl"}
    assert settings_of(plan) == {
        **OWNED,
        "checkpointing": {**KEPT, "metric_name": None},
        "data": flat if version == "0.4.0" else nested,
        "defaults": "/opt/nemo-rl/examples/configs/sft.yaml",
        "policy": {
            "megatron_cfg": {"moe_permute_fusion": True},
            "model_name": "/in/model",
            "optimizer": {"kwargs": {"lr": 1e-5}},
            "tokenizer": {"chat_template": None, "name": "/in/model"},
        },
        "sft": {"max_num_steps": 80, "val_at_end": False, "val_at_start": False, "val_period": 0},
    }
    assert plan == c.Plan(
        argv=(
            *("uv", "run", "--directory", "/opt/nemo-rl", "examples/run_sft.py"),
            *("--config", "@FORGE_WORK_DIR@/starforge-run/nemo_rl.yaml"),
        ),
        env={"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
        files=plan.files,
        links={"starforge-run/data/train.jsonl": "/in/a.jsonl"},
        metric_sources=(c.MetricSource("tensorboard", "@FORGE_WORK_DIR@/starforge-run/logs"),),
        checkpoint=c.CheckpointRule("folders", "step_*", ("training_info.json", "policy/*")),
        complete=c.CompleteRule("steps", 80),
        cwd="experiments/first",
        python_path=("@FORGE_WORK_DIR@/experiments/first",),
        resume_mirror=c.ResumeMirror("step_@FORGE_RESUME_STEP@"),
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_preferences_in_the_layout_of_the_version(version: str) -> None:
    given = plan_of("nemo-rl/dpo", {"data.train.prompt_key": "question"}, version=version, gpus=2, paths=WITH_TESTS)
    flat = {
        "dataset_name": "BinaryPreferenceDataset",
        "prompt_key": "question",
        "train_data_path": f"{DATA}/train.jsonl",
        "val_data_path": f"{DATA}/validation.jsonl",
    }
    part = {"dataset_name": "BinaryPreferenceDataset", "prompt_key": "question", "split": "train"}
    nested = {
        "train": {**part, "data_path": f"{DATA}/train.jsonl"},
        "validation": {**part, "data_path": f"{DATA}/validation.jsonl"},
    }
    wanted = {"0.4.0": flat, "0.5.0": {**flat, **nested}}.get(version, nested)
    settings = settings_of(given)
    assert (settings["data"], settings["checkpointing"]) == (wanted, KEPT)
    assert "dpo" not in settings


@pytest.mark.parametrize("version", VERSIONS)
def test_grpo_starts_under_the_name_of_the_version_and_tests_with_a_part_of_its_data(version: str) -> None:
    plan = plan_of("nemo-rl/grpo", {"data.default.prompt_file": "./prompt.txt"}, version=version, gpus=2, paths=PATHS)
    older = version == "0.4.0"
    assert plan.argv[4] == ("examples/run_grpo_math.py" if older else "examples/run_grpo.py")
    settings = settings_of(plan)
    prompt = "@FORGE_WORK_DIR@/experiments/first/prompt.txt"
    assert settings["data"]["prompt_file" if older else "default"] == (prompt if older else {"prompt_file": prompt})
    assert ("grpo" in settings) == older  # from 0.5 on, a twentieth of the data is there to test with
    assert plan.complete == c.CompleteRule("unknown")


def test_validation_data_stands_above_a_part_of_the_training_data() -> None:
    settings = settings_of(plan_of("nemo-rl/grpo", {"data.train.output_key": "a"}, gpus=2, paths=WITH_TESTS))
    assert settings["data"]["train"]["split_validation_size"] == 0
    assert settings["data"]["validation"]["output_key"] == "a"


def test_the_split_of_a_folder_is_named() -> None:
    paths = InputPaths(model="/in/model", train="/hub/data", validation="/hub/data")
    named: dict[str, JsonValue] = {"data.train.split": "train", "data.validation.split": "test"}
    data = settings_of(plan_of("nemo-rl/sft", named, gpus=2, paths=paths))["data"]
    assert (data["train"]["split"], data["validation"]["split"]) == ("train", "test")
    older = settings_of(plan_of("nemo-rl/sft", named, version="0.4.0", gpus=2, paths=paths))["data"]
    assert (older["train_split"], older["val_split"]) == ("train", "test")
    alone = settings_of(plan_of("nemo-rl/sft", named, gpus=2, paths=PATHS))["data"]
    assert alone["validation"] is None


@pytest.mark.parametrize("method", METHODS)
def test_what_stands_in_official_files_is_taken_and_handed_on(method: str) -> None:
    document = read_yaml(OFFICIAL, "config.yaml")
    values: Any = document.mapping()["hyperparameters"]
    assert check_hyperparameters(load_method(method).at("0.7.0"), values, document) == []
    policy = settings_of(plan_of(method, values, gpus=2, paths=PATHS))["policy"]
    assert policy["optimizer"]["kwargs"]["eps"] == 1e-5
    assert policy["tokenizer"]["name"] == "${policy.model_name}"
    assert policy["megatron_cfg"]["peft"]["lora_dtype"] == "None"
    assert policy["dynamic_batching"]["train_mb_tokens"].startswith("${mul:${policy.max_total")


@pytest.mark.parametrize("method", METHODS)
def test_a_fresh_experiment_is_valid_in_every_version(method: str) -> None:
    config = load_template(method)["config.yaml"].replace(b"@IMAGE@", b"nemo-rl:1")
    document = read_yaml(config, "config.yaml")
    values: Any = document.mapping()["hyperparameters"]
    for version in VERSIONS:
        assert check_hyperparameters(load_method(method).at(version), values, document) == []
        assert broken_rules(method, values, version=version, gpus=2) == []
        settings = settings_of(plan_of(method, values, version=version, gpus=2, paths=PATHS))
        assert settings["checkpointing"]["save_period"] == 20


@pytest.mark.parametrize(
    ("hyperparameters", "paths", "gpus", "words"),
    [
        ({}, PATHS, 0, "nemo-rl/sft runs on GPUs alone"),
        ({}, InputPaths(train="/in/a.jsonl"), 1, "has no model to train"),
        ({}, InputPaths(model="/in/model"), 1, "has no data to train on"),
        ({"sft.val_period": 10}, PATHS, 1, "sft.val_period is 10 and there is no validation data"),
        ({"sft.val_at_end": True}, PATHS, 1, "sft.val_at_end is true and there is no validation data"),
        ({"extra": {"cluster": {"num_nodes": 2}}}, PATHS, 1, "'cluster.num_nodes', which is set by the platform"),
        ({"extra": {"policy.precision.x": 1}, "policy.precision": "float32"}, PATHS, 1, "precision above it is no map"),
    ],
)
def test_what_cannot_be_started_is_refused(
    hyperparameters: dict[str, JsonValue], paths: InputPaths, gpus: int, words: str
) -> None:
    with pytest.raises(LaunchRefused) as refused:
        plan_of("nemo-rl/sft", hyperparameters, gpus=gpus, paths=paths)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("method", "changes", "gpus", "words"),
    [
        ("nemo-rl/sft", {}, 0, "nemo-rl trains on GPUs alone"),
        ("nemo-rl/sft", {"policy.megatron_cfg.enabled": True}, 1, "exactly one of"),
        ("nemo-rl/sft", {"policy.dtensor_cfg.tensor_parallel_size": 3}, 4, "the GPUs must be a multiple of"),
        ("nemo-rl/sft", {"policy.train_global_batch_size": 6}, 4, "GPUs that see different examples"),
        ("nemo-rl/grpo", {"grpo.num_prompts_per_step": 33}, 1, "must be a multiple of policy.train_global"),
        (
            "nemo-rl/grpo",
            {"grpo.num_prompts_per_step": 64, "loss_fn.force_on_policy_ratio": True},
            1,
            "loss_fn.force_on_policy_ratio needs",
        ),
        ("nemo-rl/grpo", {"grpo.async_grpo.enabled": True}, 1, "grpo.async_grpo.enabled needs"),
        ("nemo-rl/grpo", {"policy.generation.colocated.enabled": False}, 1, "say in policy.generation.colocated"),
    ],
)
def test_what_does_not_go_together_is_said(method: str, changes: dict[str, JsonValue], gpus: int, words: str) -> None:
    (broken,) = broken_rules(method, changes, gpus=gpus)
    assert words in broken

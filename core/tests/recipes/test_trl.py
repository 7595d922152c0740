"""The methods of trl: what is started, with which settings, and what is refused before."""

import json
from collections.abc import Mapping
from typing import Any, Final

import pytest
from pydantic import JsonValue

from core.tests.recipes.plans import INPUTS, broken_rules, plan_of
from starforge.contract import capsule as c
from starforge.errors import LaunchRefused
from starforge.recipes.adapters.inputs import InputPaths
from starforge.recipes.adapters.settings_file import dump_settings
from starforge.recipes.catalog import load_method, load_template
from starforge.recipes.hyperparameters import check_hyperparameters
from starforge.recipes.model import Recipe
from starforge.recipes.yaml12 import Document, read_yaml

METHODS = ("sft", "dpo", "kto", "grpo", "reward", "rloo")
VERSIONS = ("1.16.0", "1.14.0", "1.12.0", "1.9.0", "1.4.0", "1.0.0", "0.29.0", "0.24.0")
ON_ONE_GPU = ("@FORGE_PYTHON@", "-m", "trl.scripts.sft", "--config", "@FORGE_WORK_DIR@/starforge-run/trl.yaml")
REWARDS: dict[str, JsonValue] = {"reward_funcs": ["rewards.good"]}


def settings_of(plan: c.Plan) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(plan.files["starforge-run/trl.yaml"])
    return found


def faults_of(recipe: Recipe, text: str) -> list[tuple[str, str]]:
    document = read_yaml(text.encode(), "config.yaml")
    values = document.mapping()["hyperparameters"]
    assert isinstance(values, dict)
    return [(fault.code, str(fault.place)) for fault in check_hyperparameters(recipe, values, document)]


OF_EACH_KIND: Final[Mapping[str, JsonValue]] = {
    "learning_rate": 1e-5,
    "max_steps": 80,
    "max_length": None,
    "eval_strategy": "steps",
    "warmup_ratio": 0.1,
    "nproc_per_node": 2,
    "extra": {"torchdynamo": "inductor", "label_names": ["labels"], "parallelism_config": {"tp_size": 2}},
}
"""Hyperparameters that go into the file, onto the command line, to the launcher, and past the recipe."""


@pytest.mark.parametrize("version", VERSIONS)
def test_a_plan_as_a_whole(version: str) -> None:
    paths = InputPaths(model="/inputs/model", train="/in/a.jsonl", validation="/in/b.jsonl")
    assert plan_of("trl/sft", dict(OF_EACH_KIND), version=version, paths=paths) == c.Plan(
        argv=(
            *("@FORGE_PYTHON@", "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"),
            *ON_ONE_GPU[1:],
            *("--warmup_ratio=0.1", "--label_names", "labels", "--torchdynamo=inductor"),
        ),
        env={
            "HF_HUB_OFFLINE": "1",
            "HF_DATASETS_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "FORGE_TRAINER_RESUMES": "1",
        },
        files={
            "starforge-run/trl.yaml": """\
{
  "bf16": false,
  "dataset_name": "@FORGE_WORK_DIR@/starforge-run/data",
  "eval_strategy": "steps",
  "learning_rate": 1.0e-05,
  "max_length": null,
  "max_steps": 80,
  "model_name_or_path": "/inputs/model",
  "output_dir": "@FORGE_CKPT_DIR@",
  "parallelism_config": {
    "tp_size": 2
  },
  "report_to": "none",
  "use_cpu": true
}
"""
        },
        links={"starforge-run/data/train.jsonl": "/in/a.jsonl", "starforge-run/data/test.jsonl": "/in/b.jsonl"},
        metric_sources=(c.MetricSource("trainer"),),
        checkpoint=c.CheckpointRule(
            "folders", "checkpoint-*", ("trainer_state.json", "*model*", "!checkpoint-is-incomplete.txt")
        ),
        complete=c.CompleteRule("steps", 80),
        resume=("--resume_from_checkpoint", "@FORGE_RESUME_FROM@"),
        cwd="experiments/first",
        ports={"MASTER_PORT": 0, "PET_MASTER_PORT": 1},
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_starts_its_own_script_with_nothing_but_what_was_set(method: str, version: str) -> None:
    plan = plan_of(f"trl/{method}", {}, version=version, gpus=1)
    assert plan.argv == tuple(part.replace("sft", method) for part in ON_ONE_GPU)
    assert settings_of(plan) == {
        "model_name_or_path": "/inputs/model",
        "dataset_name": "@FORGE_WORK_DIR@/starforge-run/data",
        "output_dir": "@FORGE_CKPT_DIR@",
        "report_to": "none",
    }
    assert (plan.complete, plan.cwd) == (c.CompleteRule("steps"), "experiments/first")


@pytest.mark.parametrize("method", METHODS)
def test_a_fresh_experiment_has_no_fault_in_any_version(method: str) -> None:
    recipe = load_method(f"trl/{method}")
    assert recipe.framework_versions == VERSIONS
    assert recipe.needs == ("model", "train")
    config = load_template(recipe.name)["config.yaml"].decode()
    values: Any = read_yaml(config.replace("@IMAGE@", "trl:1").encode(), "config.yaml").mapping()
    for version in VERSIONS:
        assert faults_of(recipe.at(version), config.replace("@IMAGE@", "trl:1")) == []
        assert broken_rules(recipe.name, values["hyperparameters"], version=version) == []
        plan = plan_of(recipe.name, values["hyperparameters"], version=version, gpus=1)
        assert settings_of(plan)["save_steps"] == 10


def test_each_gpu_gets_a_process_and_bf16_is_left_to_trl() -> None:
    plan = plan_of("trl/sft", {}, gpus=4)
    assert plan.argv[:6] == ("@FORGE_PYTHON@", "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "4")
    assert not {"bf16", "use_cpu"} & set(settings_of(plan))


@pytest.mark.parametrize("gpus", [1, 8])
def test_on_several_nodes_torchrun_is_not_told_to_stand_alone(gpus: int) -> None:
    plan = plan_of("trl/sft", {}, gpus=gpus, nodes=2)
    assert plan.argv[:5] == ("@FORGE_PYTHON@", "-m", "torch.distributed.run", "--nproc_per_node", str(gpus))


def test_a_single_process_of_several_gpus_still_starts_under_torchrun() -> None:
    # By itself the Trainer would spread one process over all GPUs that it sees, which trl refuses.
    assert plan_of("trl/sft", {"nproc_per_node": 1}, gpus=2).argv[5] == "1"


def test_without_a_gpu_what_was_set_by_hand_stands() -> None:
    assert settings_of(plan_of("trl/sft", {"bf16": True}))["bf16"] is True


def test_a_checkpoint_of_another_job_stands_in_for_the_model() -> None:
    plan = plan_of("trl/dpo", {}, paths=InputPaths(start="/runs/a/checkpoint-9", train="/in/x"))
    assert settings_of(plan)["model_name_or_path"] == "/runs/a/checkpoint-9"


def test_a_folder_of_data_is_used_as_it_is() -> None:
    plan = plan_of("trl/sft", {"eval_strategy": "epoch"}, paths=InputPaths(model="/m", train="/cache/data-set"))
    assert (settings_of(plan)["dataset_name"], plan.links) == ("/cache/data-set", {})


def test_files_of_data_keep_their_endings_and_are_named_as_the_splits_that_are_asked_for() -> None:
    paths = InputPaths(model="/m", train="/in/a.jsonl.gz", validation="/in/b.jsonl.gz")
    plan = plan_of("trl/sft", {"dataset_test_split": "validation"}, paths=paths)
    assert sorted(plan.links) == ["starforge-run/data/train.jsonl.gz", "starforge-run/data/validation.jsonl.gz"]


@pytest.mark.parametrize(
    ("paths", "hyperparameters", "said"),
    [
        (InputPaths(train="/in/a.jsonl"), {}, "no model"),
        (InputPaths(model="/m"), {}, "no data"),
        (InputPaths(model="/m", train="/in/folder", validation="/in/b.jsonl"), {}, "its own splits"),
        (InputPaths(model="/m", train="/in/a.jsonl", validation="/in/b.csv"), {}, "one format"),
        (INPUTS, {"eval_strategy": "steps"}, "no validation data"),
        (INPUTS, {"extra": {"output_dir": "/x"}}, "set by the platform"),
        (INPUTS, {"extra": {"learning_rate": 1}}, "of its own"),
        (INPUTS, {"lerning_rate": 1}, "no hyperparameter 'lerning_rate'"),
    ],
)
def test_what_cannot_be_started_is_refused_with_the_reason(
    paths: InputPaths, hyperparameters: dict[str, JsonValue], said: str
) -> None:
    with pytest.raises(LaunchRefused, match=said):
        plan_of("trl/sft", hyperparameters, paths=paths)


@pytest.mark.parametrize(
    ("method", "version", "known", "gone"),
    [
        ("grpo", "0.24.0", "max_prompt_length", "vllm_group_port"),
        ("grpo", "1.16.0", "entropy_target", "max_prompt_length"),
        ("dpo", "0.24.0", "rpo_alpha", "activation_offloading"),
        ("sft", "1.16.0", "model_init_kwargs", "torch_dtype"),
        ("sft", "1.14.0", "router_aux_loss_coef", "model_init_kwargs"),
        ("kto", "1.4.0", "precompute_ref_batch_size", "sync_ref_model"),
        ("reward", "1.4.0", "model_init_kwargs", "router_aux_loss_coef"),
    ],
)
def test_a_version_has_its_own_names(method: str, version: str, known: str, gone: str) -> None:
    names = {parameter.name for parameter in load_method(f"trl/{method}").at(version).parameters}
    assert known in names
    assert gone not in names


@pytest.mark.parametrize(
    ("method", "name", "defaults"),
    [
        ("grpo", "max_completion_length", {"1.16.0": 512, "1.9.0": 256}),
        ("grpo", "vllm_mode", {"1.0.0": "colocate", "0.29.0": "server"}),
        ("sft", "pad_to_multiple_of", {"1.16.0": "auto", "1.14.0": None}),
        ("sft", "loss_type", {"1.16.0": "nll", "1.9.0": None, "1.4.0": "nll"}),
        ("dpo", "truncation_mode", {"0.29.0": "keep_start", "0.24.0": "keep_end"}),
    ],
)
def test_a_version_has_its_own_defaults(method: str, name: str, defaults: dict[str, JsonValue]) -> None:
    recipe = load_method(f"trl/{method}")
    found = {v: next(one.default for one in recipe.at(v).parameters if one.name == name) for v in defaults}
    assert found == defaults


@pytest.mark.parametrize(
    ("method", "hyperparameters", "gpus", "said"),
    [
        (
            "grpo",
            {"num_generations": 7, "per_device_train_batch_size": 16, **REWARDS},
            1,
            "gradient_accumulation_steps",
        ),
        ("grpo", {"num_generations": 6, "per_device_train_batch_size": 4, **REWARDS}, 3, ""),
        (
            "grpo",
            {"generation_batch_size": 12, "per_device_train_batch_size": 4, **REWARDS},
            1,
            "multiple of num_generations",
        ),
        ("grpo", {"generation_batch_size": 24, "per_device_train_batch_size": 7, **REWARDS}, 1, "times the processes"),
        ("grpo", {"steps_per_generation": 3, "per_device_train_batch_size": 1, **REWARDS}, 1, "steps_per_generation"),
        ("rloo", {"num_generations": 8, "nproc_per_node": 2, "per_device_train_batch_size": 4, **REWARDS}, 0, ""),
        ("grpo", {"generation_batch_size": 8, "steps_per_generation": 1, **REWARDS}, 1, "not both"),
        ("grpo", {}, 1, "nothing rewards"),
        ("grpo", {"auto_find_batch_size": True, **REWARDS}, 1, "breaks the groups"),
        (
            "grpo",
            {"eval_strategy": "steps", "per_device_eval_batch_size": 3, **REWARDS},
            1,
            "per_device_eval_batch_size",
        ),
        ("sft", {"load_best_model_at_end": True, "eval_strategy": "epoch"}, 1, "to agree"),
        ("sft", {"load_best_model_at_end": True, "eval_strategy": "steps", "eval_steps": 300}, 1, "a multiple of"),
        ("sft", {"bf16": True, "fp16": True}, 1, "exclude each other"),
        ("sft", {"padding_free": True}, 1, "max_length to null"),
        ("sft", {"padding_free": True, "max_length": None}, 1, ""),
        ("sft", {"load_in_4bit": True}, 1, "set use_peft"),
        ("sft", {"nproc_per_node": 4}, 2, "a GPU of its own"),
        ("sft", {"warmup_ratio": 0.1, "warmup_steps": 10}, 1, "not both"),
        ("reward", {"use_peft": True}, 1, "SEQ_CLS"),
    ],
)
def test_values_that_do_not_fit_together_are_refused(
    method: str, hyperparameters: dict[str, JsonValue], gpus: int, said: str
) -> None:
    found = broken_rules(f"trl/{method}", hyperparameters, gpus=gpus)
    assert len(found) == bool(said), found
    assert said in "".join(found)


@pytest.mark.parametrize(
    ("method", "version", "hyperparameters", "is_refused"),
    [
        ("kto", "1.4.0", {"attn_implementation": "sdpa"}, True),
        ("kto", "1.9.0", {"attn_implementation": "sdpa"}, False),
        ("reward", "1.4.0", {"dtype": "bfloat16"}, True),
        ("reward", "1.4.0", {}, False),
        ("rloo", "0.24.0", {"dtype": "bfloat16", **REWARDS}, True),
        ("grpo", "0.24.0", {"load_in_4bit": True, "use_peft": True, **REWARDS}, True),
        ("grpo", "0.29.0", {"dtype": "bfloat16", **REWARDS}, False),
    ],
)
def test_what_a_versions_script_would_pass_over_is_refused(
    method: str,
    version: str,
    hyperparameters: dict[str, JsonValue],
    is_refused: bool,  # noqa: FBT001 - a column
) -> None:
    assert bool(broken_rules(f"trl/{method}", hyperparameters, version=version)) is is_refused


def test_faults_of_an_experiment_have_their_places() -> None:
    config = """\
hyperparameters:
  learning_rate: fast
  output_dir: /tmp
  report_to: wandb
  gradient_accumulation_steps: 0
  eval_strategy: never
  max_length: null
  num_train_epochs: null
  extra:
    hub_token: x
    seed: 1
"""
    assert faults_of(load_method("trl/sft").at("1.16.0"), config) == [
        ("value_type", "config.yaml:2:18"),
        ("key_platform_owned", "config.yaml:3:3"),
        ("key_platform_owned", "config.yaml:4:3"),
        ("value_bounds", "config.yaml:5:32"),
        ("value_choice", "config.yaml:6:18"),
        ("value_type", "config.yaml:8:21"),
        ("key_platform_owned", "config.yaml:10:5"),
        ("key_misplaced", "config.yaml:11:5"),
    ]


def test_every_parameter_says_what_it_is_in_both_languages() -> None:
    for method in METHODS:
        recipe = load_method(f"trl/{method}")
        names = [parameter.name for parameter in recipe.parameters]
        assert len(names) == len(set(names))
        for parameter in recipe.parameters:
            assert all(parameter.help[language].strip() for language in ("en", "zh-Hans")), parameter.name
            assert check_hyperparameters(recipe, {parameter.name: parameter.default}, Document("x")) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e-05, "1.0e-05"),
        (2.5e-07, "2.5e-07"),
        (1e16, "1.0e+16"),
        (0.1, "0.1"),
        (3, "3"),
        ("1e-5", '"1e-5"'),
        ("a\u2028b\x85", '"a\\u2028b\\u0085"'),
        ("\U0001f600 \u4e2d", '"\U0001f600 \u4e2d"'),
        ([1e-5, None, True], "[1.0e-05, null, true]"),
    ],
)
def test_the_file_is_read_alike_by_readers_of_json_and_of_old_yaml(value: JsonValue, text: str) -> None:
    written = dump_settings({"key": value})
    assert written == f'{{\n  "key": {text}\n}}\n'
    assert json.loads(written) == {"key": value}

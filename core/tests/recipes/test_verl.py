"""The methods of verl: what is started, with which overrides, and what is refused before."""

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

METHODS = ("verl/sft", "verl/grpo", "verl/ppo")
VERSIONS = ("0.9.1", "0.8.0", "0.7.1", "0.7.0", "0.6.1")
PATHS = InputPaths(model="/in/model", train="/in/a.parquet")
WITH_TESTS = InputPaths(model="/in/model", train="/in/a.parquet", validation="/in/b.parquet")
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "true",
    "VERL_FILE_LOGGER_PATH": "@FORGE_WORK_DIR@/starforge-run/metrics.jsonl",
    "HYDRA_FULL_ERROR": "1",
}
COMMON: dict[str, Any] = {
    "env": ENVIRONMENT,
    "links": {"starforge-run/data/train.parquet": "/in/a.parquet"},
    "metric_sources": (c.MetricSource("jsonl", "@FORGE_WORK_DIR@/starforge-run/metrics.jsonl"),),
    "resume": ("trainer.resume_mode=resume_path", "trainer.resume_from_path='@FORGE_RESUME_FROM@'"),
    "cwd": "experiments/first",
    "python_path": ("@FORGE_WORK_DIR@/experiments/first",),
}
TRAIN = "'@FORGE_WORK_DIR@/starforge-run/data/train.parquet'"
RL: dict[str, JsonValue] = {
    "actor_rollout_ref.rollout.name": "vllm",
    "actor_rollout_ref.rollout.n": 4,
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 2,
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": 2,
    "trainer.save_freq": 20,
}


def overrides_of(plan: c.Plan) -> dict[str, str]:
    return {name: value for name, _, value in (word.partition("=") for word in plan.argv) if value}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_plan_of_fine_tuning_as_a_whole(version: str) -> None:
    hyperparameters: dict[str, JsonValue] = {
        "optim": {"lr": 1e-5},
        "trainer.save_freq": "after_each_epoch",
        "trainer.total_training_steps": 80,
        "model.override_config": {"attn_implementation": "eager"},
        "extra": {"+data.more": "a b", "model": {"tokenizer_path": None}},
    }
    assert plan_of("verl/sft", hyperparameters, version=version, gpus=4, paths=PATHS) == c.Plan(
        argv=(
            *("@FORGE_PYTHON@", "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "4"),
            *("-m", "verl.trainer.sft_trainer", f"data.train_files=[{TRAIN}]"),
            "hydra.run.dir='@FORGE_WORK_DIR@/starforge-run/hydra'",
            *("model.path=/in/model", "optim.lr=1.0e-05", "trainer.default_local_dir='@FORGE_CKPT_DIR@'"),
            *("trainer.experiment_name=run", "trainer.logger=[console,file]", "trainer.project_name=starforge"),
            *("trainer.resume_mode=disable", "trainer.save_freq=after_each_epoch", "trainer.total_training_steps=80"),
            *("++model.override_config.attn_implementation=eager", "+data.more='a b'", "model.tokenizer_path=null"),
        ),
        checkpoint=c.CheckpointRule("folders", "global_step_*", ("data_*.pt", "huggingface/*")),
        complete=c.CompleteRule("steps", 80),
        **COMMON,
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_plan_of_grpo_as_a_whole(version: str) -> None:
    rewards = "custom_reward_function.path"
    where = rewards if version in {"0.7.0", "0.6.1"} else f"reward.{rewards}"
    plan = plan_of("verl/grpo", {**RL, rewards: "./rewards.py"}, version=version, gpus=1, paths=PATHS)
    owned = {
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": "2",
        "actor_rollout_ref.model.path": "/in/model",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": "2",
        "actor_rollout_ref.rollout.n": "4",
        "actor_rollout_ref.rollout.name": "vllm",
        "actor_rollout_ref.rollout.tensor_model_parallel_size": "1",
        "algorithm.adv_estimator": "grpo",
        where: "'@FORGE_WORK_DIR@/experiments/first/rewards.py'",
        "data.train_files": f"[{TRAIN}]",
        "data.val_files": f"[{TRAIN}]",
        "hydra.run.dir": "'@FORGE_WORK_DIR@/starforge-run/hydra'",
        "trainer.default_local_dir": "'@FORGE_CKPT_DIR@'",
        "trainer.experiment_name": "run",
        "trainer.logger": "[console,file]",
        "trainer.n_gpus_per_node": "1",
        "trainer.nnodes": "1",
        "trainer.project_name": "starforge",
        "trainer.resume_mode": "disable",
        "trainer.save_freq": "20",
        "trainer.val_before_train": "false",
    }
    assert plan == c.Plan(
        argv=("@FORGE_PYTHON@", "-m", "verl.trainer.main_ppo", *(f"{key}={owned[key]}" for key in sorted(owned))),
        checkpoint=c.CheckpointRule("folders", "global_step_*", ("data.pt", "actor/*")),
        complete=c.CompleteRule("steps"),
        **COMMON,
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_ppo_has_a_critic_and_its_checkpoints_too(version: str) -> None:
    plan = plan_of("verl/ppo", RL, version=version, gpus=8, paths=WITH_TESTS)
    given = overrides_of(plan)
    assert (given["algorithm.adv_estimator"], given["critic.model.path"]) == ("gae", "/in/model")
    assert given["data.val_files"] == "['@FORGE_WORK_DIR@/starforge-run/data/validation.parquet']"
    assert not {"trainer.val_before_train", "actor_rollout_ref.rollout.tensor_model_parallel_size"} & set(given)
    assert plan.checkpoint.complete == ("data.pt", "actor/*", "critic/*")
    own = plan_of("verl/ppo", {**RL, "critic.model.path": "./critic"}, version=version, gpus=8, paths=PATHS)
    assert overrides_of(own)["critic.model.path"] == "'@FORGE_WORK_DIR@/experiments/first/critic'"


@pytest.mark.parametrize("method", METHODS)
def test_a_fresh_experiment_is_valid_in_every_version(method: str) -> None:
    template = load_template(method)
    document = read_yaml(template["config.yaml"].replace(b"@IMAGE@", b"verl:1"), "config.yaml")
    values: Any = document.mapping()["hyperparameters"]
    for version in VERSIONS:
        assert check_hyperparameters(load_method(method).at(version), values, document) == []
        assert broken_rules(method, values, version=version) == []
        assert plan_of(method, values, version=version, gpus=1, paths=PATHS).argv
    for name in template:
        if name.endswith(".py"):
            compile(template[name], name, "exec")
    parquet = template["data/train.parquet"]
    assert (parquet[:4], parquet[-4:]) == (b"PAR1", b"PAR1")


def test_the_reward_function_of_the_template_prefers_the_right_answer() -> None:
    names: dict[str, Any] = {}
    exec(load_template("verl/grpo")["rewards.py"], names)  # noqa: S102 - it comes with this package
    score = names["compute_score"]
    assert score("own", "It is honey.", "honey") > score("own", "It is stone.", "honey")


def test_files_of_a_folder_are_named() -> None:
    paths = InputPaths(model="/in/model", train="/hub/data", validation="/hub/data")
    named: dict[str, JsonValue] = {**RL, "train_files": ["a/1.parquet", "a/2.parquet"], "val_files": ["b.parquet"]}
    given = overrides_of(plan_of("verl/grpo", named, gpus=2, paths=paths))
    folder = "@FORGE_WORK_DIR@/starforge-run/data"
    assert given["data.train_files"] == f"['{folder}/train/a/1.parquet','{folder}/train/a/2.parquet']"
    assert given["data.val_files"] == f"['{folder}/validation/b.parquet']"
    assert not {"train_files", "val_files"} & set(given)


def test_a_value_that_verl_resolves_itself_is_taken_and_handed_on() -> None:
    recipe = load_method("verl/grpo").at("0.9.1")
    text = b"hyperparameters: {actor_rollout_ref.actor.ppo_mini_batch_size: '${data.train_batch_size}'}\n"
    document = read_yaml(text, "config.yaml")
    values: Any = document.mapping()["hyperparameters"]
    assert check_hyperparameters(recipe, values, document) == []
    given = overrides_of(plan_of("verl/grpo", {**RL, **values}, gpus=1, paths=PATHS))
    assert given["actor_rollout_ref.actor.ppo_mini_batch_size"] == "'${data.train_batch_size}'"


@pytest.mark.parametrize(
    ("hyperparameters", "paths", "gpus", "words"),
    [
        ({}, PATHS, 0, "verl/grpo runs on GPUs alone"),
        ({}, InputPaths(train="/in/a.parquet"), 1, "has no model to train"),
        ({}, InputPaths(model="/in/model"), 1, "has no data to train on"),
        ({}, InputPaths(model="/in/model", train="/in/a.jsonl"), 1, "data.train is 'a.jsonl', and verl reads parquet"),
        ({}, InputPaths(model="/m", train="/a.parquet", validation="/hub/b"), 1, "data.validation is 'b'"),
        ({"trainer.test_freq": 5}, PATHS, 1, "trainer.test_freq is 5 and there is no validation data"),
        ({"extra": {"trainer": {"nnodes": 2}}}, PATHS, 1, "'trainer.nnodes', which is set by the platform"),
    ],
)
def test_what_cannot_be_started_is_refused(
    hyperparameters: dict[str, JsonValue], paths: InputPaths, gpus: int, words: str
) -> None:
    with pytest.raises(LaunchRefused) as refused:
        plan_of("verl/grpo", {**RL, **hyperparameters}, gpus=gpus, paths=paths)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("method", "changes", "gpus", "words"),
    [
        ("verl/grpo", {"trainer.save_freq": None}, 1, "trainer.save_freq must be set"),
        ("verl/sft", {}, 1, "trainer.save_freq must be set"),
        ("verl/grpo", {"actor_rollout_ref.rollout.name": None}, 1, "rollout.name must be set"),
        (
            "verl/grpo",
            {"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": None},
            1,
            "set actor_rollout_ref.actor.ppo",
        ),
        (
            "verl/grpo",
            {"actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": None},
            1,
            "rollout.log_prob_micro",
        ),
        ("verl/grpo", {"actor_rollout_ref.actor.use_kl_loss": True}, 1, "the reference model is used"),
        ("verl/grpo", {"data.train_batch_size": 128}, 1, "ppo_mini_batch_size must not be more"),
        ("verl/grpo", {"data.train_batch_size": 257}, 8, "must be a multiple of the GPUs"),
        ("verl/grpo", {"actor_rollout_ref.rollout.tensor_model_parallel_size": 3}, 8, "the GPUs must be a multiple"),
        ("verl/grpo", {"actor_rollout_ref.rollout.n": 1}, 1, "rollout.n must be 2 or more"),
        ("verl/grpo", {"actor_rollout_ref.rollout.mode": "sync"}, 1, "knows only"),
        ("verl/grpo", {}, 0, "verl trains on GPUs alone"),
        ("verl/ppo", {}, 1, "set critic.ppo_micro_batch_size_per_gpu"),
        (
            "verl/sft",
            {"trainer.save_freq": 5, "data.train_batch_size": 9},
            2,
            "data.train_batch_size must be a multiple",
        ),
    ],
)
def test_what_does_not_go_together_is_said(method: str, changes: dict[str, JsonValue], gpus: int, words: str) -> None:
    given = {**({} if method == "verl/sft" else RL), **changes}
    (broken,) = broken_rules(method, given, gpus=gpus)
    assert words in broken


def test_batches_by_tokens_need_no_micro_batches() -> None:
    given: dict[str, JsonValue] = {
        "actor_rollout_ref.rollout.name": "sglang",
        "actor_rollout_ref.actor.use_dynamic_bsz": True,
        "actor_rollout_ref.actor.use_kl_loss": True,
        "trainer.save_freq": -1,
    }
    assert broken_rules("verl/ppo", given) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_what_verl_once_had_is_answered_with_what_it_has(version: str) -> None:
    text = b"hyperparameters: {actor_rollout_ref.actor.fsdp_config.grad_offload: false, trainer.logger: [wandb]}\n"
    document = read_yaml(text, "config.yaml")
    values: Any = document.mapping()["hyperparameters"]
    faults = check_hyperparameters(load_method("verl/grpo").at(version), values, document)
    assert [fault.code for fault in faults] == ["key_removed", "key_platform_owned"]


def test_names_change_with_versions() -> None:
    newest, oldest = load_method("verl/ppo").at("0.9.1"), load_method("verl/ppo").at("0.6.1")
    names = [{one.name for one in recipe.parameters} for recipe in (newest, oldest)]
    assert {"trainer.use_v1", "critic.fsdp.param_offload", "reward.reward_model.enable"} <= names[0] - names[1]
    assert {"trainer.use_legacy_worker_impl", "critic.model.fsdp_config.param_offload"} <= names[1] - names[0]


@pytest.mark.parametrize("version", ["0.9.1", "0.7.1"])
def test_the_old_name_of_the_reward_function_is_another_one_of_the_new(version: str) -> None:
    old, new = "custom_reward_function", "reward.custom_reward_function"
    for above in (old, new):
        asked = {**RL, f"{above}.path": "./rewards.py", f"{above}.name": "judge"}
        plan = plan_of("verl/grpo", asked, version=version, gpus=1, paths=PATHS)
        assert overrides_of(plan)[f"{new}.name"] == "judge"
        assert not any(word.startswith(f"{old}.") for word in plan.argv)
    recipe = load_method("verl/grpo").at(version)
    document = read_yaml(f"hyperparameters:\n  {new}: {{name: judge}}\n  {old}.name: other\n".encode(), "c.yaml")
    (fault,) = check_hyperparameters(recipe, {new: {"name": "judge"}, f"{old}.name": "other"}, document)
    assert (fault.code, str(fault.place)) == ("key_twice", "c.yaml:3:3")
    assert fault.message == f"'{old}.name' is another name of '{new}.name', and both are set"


@pytest.mark.parametrize("version", ["0.7.0", "0.6.1"])
def test_versions_that_know_the_old_name_alone_refuse_the_new(version: str) -> None:
    document = read_yaml(b"hyperparameters: {reward.custom_reward_function.name: judge}\n", "c.yaml")
    asked: dict[str, JsonValue] = {"reward.custom_reward_function.name": "judge"}
    (fault,) = check_hyperparameters(load_method("verl/grpo").at(version), asked, document)
    assert (fault.code, fault.hint) == ("key_removed", f"only verl >=0.7.1 has it, this is {version}")

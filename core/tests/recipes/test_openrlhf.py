"""The methods of OpenRLHF: what is started, with which flags, and what is refused before."""

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

METHODS = ("openrlhf/sft", "openrlhf/dpo", "openrlhf/rm", "openrlhf/ppo", "openrlhf/grpo")
DOTTED = ("0.11.2", "0.11.0", "0.10.4", "0.10.2")
FLAT = "0.9.3"
PATHS = InputPaths(model="/in/model", train="/in/a,b@c.jsonl")
WITH_TESTS = InputPaths(model="/in/model", train="/in/a.jsonl", validation="/hub/data")
STEP = "global_step@FORGE_RESUME_STEP@"
DATA = "@FORGE_WORK_DIR@/starforge-run/data"
TENSORBOARD = "@FORGE_WORK_DIR@/starforge-run/tensorboard"
COMMON: dict[str, Any] = {
    "env": {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "true"},
    "metric_sources": (c.MetricSource("tensorboard", TENSORBOARD),),
    "complete": c.CompleteRule("unknown"),
    "cwd": "experiments/first",
    "python_path": ("@FORGE_WORK_DIR@/experiments/first",),
}
TORCHRUN = ("@FORGE_PYTHON@", "-m", "torch.distributed.run", "--standalone", "--nproc_per_node")
RL: dict[str, JsonValue] = {
    "reward.remote_url": "./rewards.py",
    "train.colocate_all": True,
    "rollout.n_samples_per_prompt": 4,
    "ckpt.save_steps": 20,
}


@pytest.mark.parametrize("version", DOTTED)
def test_a_plan_of_fine_tuning_as_a_whole(version: str) -> None:
    hyperparameters: dict[str, JsonValue] = {
        "data": {"input_key": "messages", "apply_chat_template": True, "multiturn": False},
        "adam.betas": [0.9, 0.98],
        "adam.lr": 1e-5,
        "ds.lora.target_modules": ["q_proj", "v_proj"],
        "data.output_key": None,
        "ckpt.save_steps": 50,
        "extra": {"muon": {"no_nesterov": True}, "eval.more": "a b"},
    }
    assert plan_of("openrlhf/sft", hyperparameters, version=version, gpus=2, paths=PATHS) == c.Plan(
        argv=(
            *(*TORCHRUN, "2", "-m", "openrlhf.cli.train_sft", "--adam.betas", "0.9", "0.98", "--adam.lr=1e-05"),
            *("--ckpt.output_dir=@FORGE_OUT_DIR@/model", "--ckpt.path=@FORGE_CKPT_DIR@", "--ckpt.save_steps=50"),
            *("--data.apply_chat_template", f"--data.dataset={DATA}/train.jsonl", "--data.input_key=messages"),
            *("--ds.lora.target_modules", "q_proj", "v_proj", f"--logger.tensorboard_dir={TENSORBOARD}"),
            *("--logger.wandb.run_name=run", "--model.model_name_or_path=/in/model"),
            *("--eval.more=a b", "--muon.no_nesterov"),
        ),
        links={"starforge-run/data/train.jsonl": "/in/a,b@c.jsonl"},
        checkpoint=c.CheckpointRule("folders", "global_step*", ("metric.json", "*model_states.pt")),
        resume=("--ckpt.load_enable",),
        resume_mirror=c.ResumeMirror(STEP, {"latest": STEP}),
        **COMMON,
    )


def test_a_plan_without_dots_as_a_whole() -> None:
    hyperparameters: dict[str, JsonValue] = {"adam.lr": 1e-5, "model.beta": 0.2, "ckpt.save_steps": 50}
    assert plan_of("openrlhf/dpo", hyperparameters, version=FLAT, gpus=2, paths=WITH_TESTS) == c.Plan(
        argv=(
            *(*TORCHRUN, "2", "-m", "openrlhf.cli.train_dpo", "--beta=0.2", "--ckpt_path=@FORGE_CKPT_DIR@"),
            *(f"--dataset={DATA}/train.jsonl", f"--eval_dataset={DATA}/validation", "--learning_rate=1e-05"),
            *("--pretrain=/in/model", "--save_path=@FORGE_OUT_DIR@/model", "--save_steps=50"),
            *(f"--use_tensorboard={TENSORBOARD}", "--wandb_run_name=run"),
        ),
        links={"starforge-run/data/train.jsonl": "/in/a.jsonl", "starforge-run/data/validation": "/hub/data"},
        checkpoint=c.CheckpointRule(
            "folders",
            "global_step*",
            (
                "*model_states.pt",
                "*zero_pp_rank_0_mp_rank_00_optim_states.pt",
                "*zero_pp_rank_1_mp_rank_00_optim_states.pt",
            ),
        ),
        resume=("--load_checkpoint",),
        resume_mirror=c.ResumeMirror(STEP, {"latest": STEP}),
        **COMMON,
    )


@pytest.mark.parametrize("version", DOTTED)
def test_a_plan_of_grpo_as_a_whole(version: str) -> None:
    flags = {
        "actor.model_name_or_path": "/in/model",
        "actor.num_gpus_per_node": "4",
        "actor.num_nodes": "1",
        "algo.advantage.estimator": "group_norm",
        "ckpt.output_dir": "@FORGE_OUT_DIR@/model",
        "ckpt.path": "@FORGE_CKPT_DIR@",
        "ckpt.save_steps": "20",
        "data.prompt_dataset": f"{DATA}/train.jsonl",
        "logger.tensorboard_dir": TENSORBOARD,
        "logger.wandb.run_name": "run",
        "ref.num_gpus_per_node": "4",
        "ref.num_nodes": "1",
        "reward.num_gpus_per_node": "4",
        "reward.num_nodes": "1",
        "reward.remote_url": "@FORGE_WORK_DIR@/experiments/first/rewards.py",
        "rollout.n_samples_per_prompt": "4",
        "train.colocate_all": "",
        "vllm.num_engines": "2",
        "vllm.tensor_parallel_size": "2",
    }
    plan = plan_of("openrlhf/grpo", {**RL, "vllm.tensor_parallel_size": 2}, version=version, gpus=4, paths=PATHS)
    assert plan == c.Plan(
        argv=(
            *("@FORGE_PYTHON@", "-m", "openrlhf.cli.train_ppo_ray"),
            *(f"--{name}={flags[name]}".removesuffix("=") for name in sorted(flags)),
        ),
        links={"starforge-run/data/train.jsonl": "/in/a,b@c.jsonl"},
        checkpoint=c.CheckpointRule("folders", "_actor/global_step*", ("metric.json", "*model_states.pt")),
        resume=("--ckpt.load_enable",),
        resume_mirror=c.ResumeMirror(f"_actor/{STEP}", {"_actor/latest": STEP}),
        **COMMON,
    )


@pytest.mark.parametrize("version", [*DOTTED, FLAT])
def test_a_critic_goes_on_together_with_its_policy(version: str) -> None:
    with_critic = plan_of("openrlhf/ppo", RL, version=version, gpus=4, paths=PATHS)
    assert with_critic.resume_mirror == c.ResumeMirror(
        f"_actor/{STEP}", {"_actor/latest": STEP, "_critic/latest": STEP}, (f"_critic/{STEP}",)
    )
    without = plan_of("openrlhf/ppo", {**RL, "algo.advantage.estimator": "rloo"}, version=version, gpus=4, paths=PATHS)
    assert without.resume_mirror == c.ResumeMirror(f"_actor/{STEP}", {"_actor/latest": STEP})


def test_models_are_placed_by_hand_where_they_do_not_share_all_gpus() -> None:
    placed: dict[str, JsonValue] = {
        **RL,
        "train.colocate_all": False,
        "actor.num_gpus_per_node": 2,
        "ref.num_gpus_per_node": 2,
        "vllm.num_engines": 4,
    }
    argv = plan_of("openrlhf/grpo", placed, gpus=8, paths=PATHS).argv
    assert {"--actor.num_gpus_per_node=2", "--ref.num_gpus_per_node=2", "--vllm.num_engines=4"} <= set(argv)
    flat = plan_of("openrlhf/grpo", placed, version=FLAT, gpus=8, paths=PATHS)
    assert flat.checkpoint.complete[1:] == tuple(f"*zero_pp_rank_{rank}_mp_rank_00_optim_states.pt" for rank in (0, 1))


@pytest.mark.parametrize(
    "hyperparameters", [{"ds.zero_stage": 0}, {"ds.tensor_parallel_size": 2}, {"ds.ring_attn_size": 2}]
)
def test_files_whose_names_are_not_known_are_not_waited_for(hyperparameters: dict[str, JsonValue]) -> None:
    plan = plan_of("openrlhf/sft", hyperparameters, version=FLAT, gpus=2, paths=PATHS)
    assert plan.checkpoint.complete == ("*model_states.pt",)


@pytest.mark.parametrize("method", METHODS)
def test_a_fresh_experiment_is_valid_in_every_version(method: str) -> None:
    template = load_template(method)
    document = read_yaml(template["config.yaml"].replace(b"@IMAGE@", b"openrlhf:1"), "config.yaml")
    values: Any = document.mapping()["hyperparameters"]
    for version in (*DOTTED, FLAT):
        assert check_hyperparameters(load_method(method).at(version), values, document) == []
        assert broken_rules(method, values, version=version, gpus=2) == []
        assert plan_of(method, values, version=version, gpus=2, paths=PATHS).argv
    for name in template:
        if name.endswith(".py"):
            compile(template[name], name, "exec")


@pytest.mark.parametrize(
    ("method", "hyperparameters", "paths", "gpus", "words"),
    [
        ("openrlhf/sft", {}, PATHS, 0, "openrlhf/sft runs on GPUs alone"),
        ("openrlhf/sft", {}, InputPaths(train="/in/a.jsonl"), 1, "has no model to train"),
        ("openrlhf/sft", {}, InputPaths(model="/in/model"), 1, "has no data to train on"),
        ("openrlhf/sft", {"extra": {"logger": {"wandb": {"key": "x"}}}}, PATHS, 1, "'logger.wandb.key', which is set"),
        ("openrlhf/grpo", {**RL, "train.colocate_all": False}, PATHS, 1, "vllm.num_engines is not set"),
        ("openrlhf/grpo", {**RL, "train.async_enable": True}, PATHS, 1, "vllm.num_engines is not set"),
        ("openrlhf/grpo", {**RL, "vllm.tensor_parallel_size": 3}, PATHS, 4, "is 3 and there are 4 GPUs"),
    ],
)
def test_what_cannot_be_started_is_refused(
    method: str, hyperparameters: dict[str, JsonValue], paths: InputPaths, gpus: int, words: str
) -> None:
    with pytest.raises(LaunchRefused) as refused:
        plan_of(method, hyperparameters, gpus=gpus, paths=paths)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("method", "changes", "gpus", "words"),
    [
        ("openrlhf/sft", {}, 1, "ckpt.save_steps must be set"),
        ("openrlhf/sft", {"ckpt.save_steps": 5}, 0, "OpenRLHF trains on GPUs alone"),
        ("openrlhf/sft", {"ckpt.save_steps": 5, "train.batch_size": 12}, 1, "must be a multiple of train.micro"),
        ("openrlhf/sft", {"ckpt.save_steps": 5, "data.multiturn": True}, 1, "needs data.apply_chat_template"),
        ("openrlhf/rm", {"ckpt.save_steps": 5, "ds.ring_attn_size": 2}, 1, "needs ds.packing_samples"),
        ("openrlhf/grpo", {"reward.remote_url": None}, 1, "answers must be worth something"),
        ("openrlhf/grpo", {"train.colocate_all": False}, 1, "vllm.num_engines must be set"),
        ("openrlhf/grpo", {"vllm.num_engines": 3}, 4, "must be all GPUs"),
        ("openrlhf/grpo", {"vllm.tensor_parallel_size": 3}, 4, "multiple of vllm.tensor_parallel_size"),
        ("openrlhf/grpo", {"train.batch_size": 100}, 1, "must be a multiple of train.batch_size"),
        ("openrlhf/grpo", {"rollout.n_samples_per_prompt": 1}, 1, "rollout.n_samples_per_prompt must be 2 or more"),
        ("openrlhf/grpo", {"train.partial_rollout_enable": True}, 1, "needs train.async_enable"),
        (
            "openrlhf/grpo",
            {"rollout.batch_size": 32, "train.batch_size": 128, "rollout.micro_batch_size": 64},
            4,
            "must be at least the GPUs of the policy",
        ),
        (
            "openrlhf/ppo",
            {"rollout.n_samples_per_prompt": 1, "algo.advantage.estimator": "rloo"},
            1,
            "rollout.n_samples_per_prompt must be 2 or more",
        ),
    ],
)
def test_what_does_not_go_together_is_said(method: str, changes: dict[str, JsonValue], gpus: int, words: str) -> None:
    given = {**(RL if method in {"openrlhf/ppo", "openrlhf/grpo"} else {}), **changes}
    (broken,) = broken_rules(method, given, gpus=gpus)
    assert words in broken


def test_flags_move_with_versions() -> None:
    newest, older, flat = (load_method("openrlhf/grpo").at(version) for version in ("0.11.2", "0.11.0", FLAT))
    names = [{one.name for one in recipe.parameters} for recipe in (newest, older, flat)]
    assert "algo.advantage.is_correction_level" in names[0] - names[1]
    assert "algo.advantage.is_correction_type" in (names[1] & names[2]) - names[0]
    assert "data.prompt_max_len" in names[2] - names[1]
    paths = {one.name: one.path for one in flat.parameters}
    assert (paths["rollout.max_new_tokens"], paths["actor.adam.lr"]) == ("generate_max_len", "actor_learning_rate")


@pytest.mark.parametrize("method", ["openrlhf/ppo", "openrlhf/grpo"])
def test_what_writes_answers_is_asked_of_the_image(method: str) -> None:
    for runtime in load_method(method).runtimes:
        assert {"ray", "vllm", "openrlhf", "deepspeed"} <= runtime.modules.keys()
        assert runtime.modules["vllm"].startswith(">=0.")
    assert "vllm" not in load_method("openrlhf/sft").runtimes[0].modules

"""What the adapters of verl, OpenRLHF and NeMo RL write, read by those frameworks' own parsers, version by version."""

import sys
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import JsonValue

from core.tests.recipes.plans import plan_of
from e2e.recipes.wheels import load_config_python, load_wheel, read_with
from starforge.contract import capsule as c
from starforge.recipes.adapters.inputs import InputPaths
from starforge.recipes.catalog import load_method
from starforge.recipes.model import Parameter

pytestmark = pytest.mark.timeout(600)  # the first run fetches the wheels

VERL: Final = ("0.9.1", "0.8.0", "0.7.1", "0.7.0", "0.6.1")
OPENRLHF: Final = ("0.11.2", "0.11.0", "0.10.4", "0.10.2", "0.9.3")
HARD: Final = "it's \\' a, b=c: 'd' #e"
"""A text that means something to every part of hydra's grammar."""
SAMPLES: Final[dict[str, JsonValue]] = {
    "text": HARD,
    "int": 3,
    "number": 2.5e-7,
    "bool": True,
    "list": ["a,b", "1e-5"],
    "map": {"k": {"deep": [1, "x y"]}},
    "any": "null",
}
ADAPTERS_OWN: Final = {"extra", "train_files", "val_files", "nemo_rl_dir"}
PLACES: Final = {"@FORGE_WORK_DIR@": "/w", "@FORGE_CKPT_DIR@": "/a b/ckpt", "@FORGE_OUT_DIR@": "/out"}


def sample(parameter: Parameter) -> JsonValue:
    """A value that differs from the default where the type leaves a choice."""
    if parameter.choices:
        return parameter.choices[-1]
    if parameter.type == "list" and parameter.items in {"number", "int"}:
        return [1, 2] if parameter.items == "int" else [0.25, 0.5]
    if parameter.type == "int" or (parameter.type == "number" and parameter.maximum is not None):
        return 1
    return SAMPLES[parameter.type]


def set_everything(method: str, version: str) -> dict[str, JsonValue]:
    return {one.name: sample(one) for one in load_method(method).at(version).parameters if one.name not in ADAPTERS_OWN}


def words_of(plan: c.Plan, *, resumed: bool = False) -> list[str]:
    """The words behind the program, as the runner hands them over."""
    words = [*plan.argv, *(plan.resume if resumed else ())]
    at = max(index for index, word in enumerate(words) if word == "-m") + 2
    for place, path in {**PLACES, "@FORGE_RESUME_FROM@": "/old run/global_step_5"}.items():
        words = [word.replace(place, path) for word in words]
    return words[at:]


def look_up(composed: Any, path: str) -> Any:  # noqa: ANN401 - a configuration of any shape
    for part in path.split("."):
        composed = composed[part]
    return composed


@pytest.mark.parametrize("version", VERL)
@pytest.mark.parametrize("method", ["verl/sft", "verl/grpo", "verl/ppo"])
def test_verls_hydra_takes_every_setting_as_what_it_was(tmp_path: Path, method: str, version: str) -> None:
    python, wheel = load_config_python(), load_wheel("verl", version)
    recipe = load_method(method).at(version)
    values = set_everything(method, version)
    paths = InputPaths(model="/in/it's a model", train="/in/a.parquet", validation="/in/b.parquet")
    plan = plan_of(method, {**values, "extra": {"+own.key": {"a": HARD}}}, version=version, gpus=4, paths=paths)

    module = wheel / (recipe.entry.value.replace(".", "/") + ".py")
    words = words_of(plan, resumed=True)
    code, composed, complaint = read_with(
        python, "compose.py", str(module), *words, f"hydra.run.dir={tmp_path}", cwd=tmp_path
    )
    assert code == 0, complaint
    paths_of = {one.name: one.path for one in recipe.parameters}
    arrived = {name: look_up(composed, paths_of[name]) for name in values}
    assert arrived == {
        name: {**look_up(composed, paths_of[name]), **value} if isinstance(value, dict) else value
        for name, value in values.items()
    }
    assert look_up(composed, "own.key.a") == HARD
    assert composed["trainer"]["resume_mode"] == "resume_path"
    assert composed["trainer"]["resume_from_path"] == "/old run/global_step_5"
    assert composed["trainer"]["default_local_dir"] == "/a b/ckpt"
    assert composed["trainer"]["logger"] == ["console", "file"]


@pytest.mark.parametrize("version", VERL)
def test_verl_refuses_a_key_that_it_does_not_have(tmp_path: Path, version: str) -> None:
    python, wheel = load_config_python(), load_wheel("verl", version)
    paths = InputPaths(model="/in/model", train="/in/a.parquet")
    plan = plan_of("verl/sft", {"extra": {"optim.learning_rate": 1}}, version=version, gpus=1, paths=paths)
    module = wheel / "verl/trainer/sft_trainer.py"
    code, _, complaint = read_with(python, "compose.py", str(module), *words_of(plan), cwd=tmp_path)
    assert code == 1
    assert "Could not override 'optim.learning_rate'" in complaint


def values_that_agree(method: str, version: str) -> dict[str, JsonValue]:
    """Everything set, and what OpenRLHF itself compares with one another set so that it agrees."""
    agreeing: dict[str, JsonValue] = {
        "train.async_enable": False,
        "train.partial_rollout_enable": False,
        "rollout.n_samples_per_prompt": 8,
        "rollout.batch_size": 8,
        "rollout.vllm_generate_batch_size": 8,
        "reward.remote_url": "./rewards.py",
        "train.agent_func_path": None,
        "data.max_images_per_prompt": 0,
        "data.input_template": "Q: {}",
        "ds.attn_implementation": "flash_attention_2",
        "ds.zero_stage": 2,
        "vllm.num_engines": 4,
    }
    values = set_everything(method, version)
    if method == "openrlhf/ppo":
        agreeing["algo.advantage.estimator"] = "gae"  # the others forget the critic
    return {**values, **{name: value for name, value in agreeing.items() if name in values}}


@pytest.mark.parametrize("version", OPENRLHF)
@pytest.mark.parametrize("method", ["openrlhf/sft", "openrlhf/dpo", "openrlhf/rm", "openrlhf/ppo", "openrlhf/grpo"])
def test_openrlhf_takes_every_setting_as_what_it_was(tmp_path: Path, method: str, version: str) -> None:
    wheel = load_wheel("openrlhf", version)
    recipe = load_method(method).at(version)
    values = values_that_agree(method, version)
    paths = InputPaths(model="/in/it's a model", train="/in/a.jsonl", validation="/in/b.jsonl")
    plan = plan_of(method, values, version=version, gpus=4, paths=paths)

    program = recipe.entry.value.removeprefix("openrlhf.").replace(".", "/") + ".py"
    words = words_of(plan, resumed=True)
    code, parsed, complaint = read_with(
        Path(sys.executable), "parse.py", str(wheel / "openrlhf"), program, *words, cwd=tmp_path
    )
    assert code == 0, complaint
    paths_of = {one.name: one.path for one in recipe.parameters}
    arrived = {name: look_up(parsed, paths_of[name]) for name in values}
    rewards = ["/w/experiments/first/rewards.py"]  # OpenRLHF splits what it is given at commas
    assert arrived == {**values, **({"reward.remote_url": rewards} if "reward.remote_url" in values else {})}
    is_flat = version == "0.9.3"
    assert look_up(parsed, "load_checkpoint" if is_flat else "ckpt.load_enable") is True
    assert look_up(parsed, "ckpt_path" if is_flat else "ckpt.path") == "/a b/ckpt"


def test_openrlhf_refuses_a_flag_that_it_does_not_have(tmp_path: Path) -> None:
    wheel = load_wheel("openrlhf", OPENRLHF[0])
    paths = InputPaths(model="/in/model", train="/in/a.jsonl")
    plan = plan_of("openrlhf/sft", {"extra": {"adam.rate": 1}}, version=OPENRLHF[0], gpus=1, paths=paths)
    words = ("parse.py", str(wheel / "openrlhf"), "cli/train_sft.py", *words_of(plan))
    code, _, complaint = read_with(Path(sys.executable), *words, cwd=tmp_path)
    assert code == 2
    assert "unrecognized arguments: --adam.rate=1" in complaint


def test_nemo_rl_finds_its_settings_upon_those_of_its_example(tmp_path: Path) -> None:
    # Its own loader is OmegaConf's and lays a file upon its `defaults`; its examples are in its images alone.
    python = load_config_python()
    example = tmp_path / "examples" / "configs" / "sft.yaml"
    example.parent.mkdir(parents=True)
    example.write_text(
        "sft: {max_num_steps: 60, val_period: 10}\n"
        "policy: {train_micro_batch_size: 2, max_total_sequence_length: 1024, model_name: x,"
        " tokenizer: {name: '${policy.model_name}', chat_template: y},"
        " optimizer: {kwargs: {eps: 1e-5, foreach: false}}}\n"
        "data: {train: {dataset_name: squad, split: train}, validation: {dataset_name: squad, split: validation}}\n"
    )
    values: dict[str, JsonValue] = {
        "nemo_rl_dir": str(tmp_path),
        "sft.max_num_steps": 80,
        "policy.optimizer.kwargs.lr": 1e-5,
        "policy.megatron_cfg.peft.lora_dtype": "None",
        "policy.tokenizer.chat_template": HARD,
        "policy.dynamic_batching.train_mb_tokens": "${mul:${policy.max_total_sequence_length}, 2}",
        "extra": {"policy": {"megatron_cfg": {"moe_router_bias_update_rate": 1e-3}}},
    }
    plan = plan_of("nemo-rl/sft", values, gpus=2, paths=InputPaths(model="/in/model", train="/in/a.jsonl"))
    (tmp_path / "settings.yaml").write_text(plan.files["starforge-run/nemo_rl.yaml"])
    code, laid, complaint = read_with(python, "lay.py", "settings.yaml", cwd=tmp_path)

    assert code == 0, complaint
    assert laid["sft"] == {"max_num_steps": 80, "val_at_end": False, "val_at_start": False, "val_period": 0}
    assert laid["policy"]["tokenizer"] == {"name": "/in/model", "chat_template": HARD}
    assert laid["policy"]["optimizer"]["kwargs"] == {"eps": 1e-5, "foreach": False, "lr": 1e-5}
    assert laid["policy"]["dynamic_batching"]["train_mb_tokens"] == 2048
    assert laid["policy"]["megatron_cfg"] == {"moe_router_bias_update_rate": 1e-3, "peft": {"lora_dtype": "None"}}
    assert laid["data"]["validation"] is None
    assert laid["data"]["train"]["dataset_name"] == "ResponseDataset"

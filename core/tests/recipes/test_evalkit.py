"""Benchmarks: how lm-evaluation-harness is started, and where its scores are looked for."""

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

METHOD = "evalkit/benchmark"
MODEL = InputPaths(model="/inputs/model")


def test_a_plan_as_a_whole() -> None:
    hyperparameters: dict[str, JsonValue] = {
        "tasks": ["capitals", "sums"],
        "include_path": "tasks",
        "batch_size": "auto",
        "gen_kwargs": {"temperature": 1e-5, "until": ["\n"]},
        "model_args": {"dtype": "float32"},
        "extra": {"show_config": True},
    }
    assert plan_of(METHOD, hyperparameters, paths=MODEL) == c.Plan(
        argv=("@FORGE_PYTHON@", "-m", "lm_eval", "run", "--config", "@FORGE_WORK_DIR@/starforge-run/lm_eval.yaml"),
        env={"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
        files={
            "starforge-run/lm_eval.yaml": """\
{
  "batch_size": "auto",
  "device": "cpu",
  "gen_kwargs": {
    "temperature": 1.0e-05,
    "until": ["\\n"]
  },
  "include_path": "tasks",
  "model": "hf",
  "model_args": {
    "dtype": "float32",
    "pretrained": "/inputs/model"
  },
  "output_path": "@FORGE_OUT_DIR@/lm_eval",
  "show_config": true,
  "tasks": ["capitals", "sums"]
}
"""
        },
        metric_sources=(c.MetricSource("lm_eval", "@FORGE_OUT_DIR@/lm_eval"),),
        checkpoint=c.CheckpointRule("none"),
        complete=c.CompleteRule("file", path="@FORGE_OUT_DIR@/lm_eval/*/results_*.json"),
        cwd="experiments/first",
    )


@pytest.mark.parametrize(
    ("hyperparameters", "gpus", "copies"),
    [
        ({}, 0, None),
        ({}, 1, None),
        ({}, 4, "4"),
        ({"nproc_per_node": 2}, 0, "2"),
        ({"model_args": {"parallelize": True}}, 4, None),
        ({"model": "vllm", "model_args": {"tensor_parallel_size": 4}}, 4, None),
    ],
)
def test_each_gpu_gets_a_copy_of_the_model_unless_the_model_is_spread(
    hyperparameters: dict[str, JsonValue], gpus: int, copies: str | None
) -> None:
    plan = plan_of(METHOD, {"tasks": ["x"], **hyperparameters}, gpus=gpus, paths=MODEL)
    start = plan.argv[: plan.argv.index("run")]
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", copies)
    assert start == ("@FORGE_PYTHON@", *(launcher if copies else ()), "-m", "lm_eval")
    settings: dict[str, Any] = json.loads(plan.files["starforge-run/lm_eval.yaml"])
    assert settings["device"] == ("cuda" if gpus else "cpu")


def test_a_checkpoint_of_another_job_is_looked_at() -> None:
    plan = plan_of(METHOD, {"tasks": ["x"]}, paths=InputPaths(model="/m", start="/runs/a/checkpoint-9"))
    settings = json.loads(plan.files["starforge-run/lm_eval.yaml"])
    assert settings["model_args"] == {"pretrained": "/runs/a/checkpoint-9"}


def test_without_a_model_nothing_starts() -> None:
    with pytest.raises(LaunchRefused, match="no model"):
        plan_of(METHOD, {"tasks": ["x"]}, paths=InputPaths())


@pytest.mark.parametrize(
    ("hyperparameters", "said"),
    [
        ({}, "set tasks"),
        ({"tasks": ["x"], "limit": 5, "samples": {"x": [1]}}, "not both"),
        ({"tasks": ["x"], "fewshot_as_multiturn": True}, "apply_chat_template"),
        ({"tasks": ["x"], "model": "vllm", "nproc_per_node": 2}, "by themselves"),
        ({"tasks": ["x"], "fewshot_as_multiturn": True, "apply_chat_template": "default"}, ""),
    ],
)
def test_values_that_do_not_fit_together_are_refused(hyperparameters: dict[str, JsonValue], said: str) -> None:
    found = broken_rules(METHOD, hyperparameters, gpus=2)
    assert len(found) == bool(said), found
    assert said in "".join(found)


def test_a_fresh_experiment_has_no_fault_and_brings_its_task() -> None:
    recipe = load_method(METHOD)
    template = load_template(METHOD)
    document = read_yaml(template["config.yaml"].replace(b"@IMAGE@", b"lm-eval:1"), "config.yaml")
    values = document.mapping()["hyperparameters"]
    assert isinstance(values, dict)
    assert check_hyperparameters(recipe.at("0.4.13"), values, document) == []
    assert broken_rules(METHOD, values) == []
    task: Any = read_yaml(template["tasks/capitals.yaml"], "capitals.yaml").mapping()
    assert task["dataset_kwargs"]["data_files"]["test"] in template
    assert [task["task"]] == values["tasks"]

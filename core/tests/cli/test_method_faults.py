"""What `sf validate` says of experiments of the methods, before a machine would say it."""

from pathlib import Path

import pytest

from core.tests.cli.conftest import Sf
from core.tests.workspace.trees import write_tree

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

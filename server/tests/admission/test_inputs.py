"""What a job reads: refused at admission with what was said of it, or pinned to exactly that."""

from typing import Any

import pytest

from server.tests.admission.test_gates import RECIPE, decide, fleet, node, spec
from starforge.recipes.catalog import load_catalog
from starforge_console.admission.gate import Snapshot
from starforge_console.admission.huggingface import CODES
from starforge_console.admission.images import parse_patterns
from starforge_console.admission.inputs import pin_inputs
from starforge_console.domain.inputs import (
    UNANSWERED,
    CheckpointInput,
    HubAnswer,
    HubInput,
    HubRef,
    HubStanding,
    InputFault,
    JobInputs,
    PathInput,
    find_hub_ref,
)

COMMIT = "a" * 40
READABLE = HubAnswer(HubStanding.READABLE, commit=COMMIT)
MODEL = {"model": "hf://qwen/qwen3"}


def pin(members: dict[str, Any], **seen: Any) -> JobInputs:
    shown = {"catalog": load_catalog(), "blob_bytes": 1, "images": parse_patterns("*"), "fleets": ()}
    return pin_inputs(spec(**members), Snapshot(**{**shown, **seen}))


@pytest.mark.parametrize("standing", [one for one in HubStanding if one is not HubStanding.READABLE])
def test_each_answer_but_yes_is_a_refusal_of_its_own(standing: HubStanding) -> None:
    refused = decide(spec(**MODEL), hub={"model": HubAnswer(standing, why="403")})
    assert refused == {"huggingface": [CODES[standing]]}


def test_no_two_answers_share_a_code() -> None:
    assert len(set(CODES.values())) == len(HubStanding) - 1


@pytest.mark.parametrize("standing", HubStanding)
def test_a_policy_admits_what_could_not_be_asked_and_nothing_else(standing: HubStanding) -> None:
    answer = HubAnswer(standing, commit=COMMIT if standing is HubStanding.READABLE else None)
    said = decide(spec(**MODEL), hub={"model": answer}, hub_unanswered="warn")
    if standing is HubStanding.READABLE:
        assert said == {}
    else:
        assert list(said) == (["warned"] if standing in UNANSWERED else ["huggingface"])


def test_what_the_hub_answered_is_pinned_and_what_it_could_not_answer_is_left_open() -> None:
    main = HubRef("model", "qwen/qwen3", "main")
    assert pin(MODEL, hub={"model": READABLE}) == {"model": HubInput(main, COMMIT)}
    assert pin(MODEL, hub={"model": HubAnswer(HubStanding.SILENT)}) == {"model": HubInput(main, None)}


def test_the_model_is_a_model_and_data_are_datasets() -> None:
    data = {"train": "hf://a/b@v1.2", "validation": "hf://a/b@refs/pr/3"}
    pinned = pin({"data": data}, hub={"data.train": READABLE, "data.validation": READABLE})
    assert pinned == {
        "data.train": HubInput(HubRef("dataset", "a/b", "v1.2"), COMMIT),
        "data.validation": HubInput(HubRef("dataset", "a/b", "refs/pr/3"), COMMIT),
    }


@pytest.mark.parametrize("text", ["hf://qwen", "hf://qwen/qwen3@", "hf://../etc@main", "hf://a/b/c", "hf://a/b@../x"])
def test_what_names_nothing_at_a_hub_is_refused(text: str) -> None:
    assert find_hub_ref("model", text) is None
    assert decide(spec(model=text)) == {"huggingface": ["hub_malformed"]}


@pytest.mark.parametrize(
    ("members", "codes"),
    [
        ({"model": "models/tiny", "data": {"train": "data/train.jsonl"}}, []),
        ({"model": "../elsewhere"}, ["input_outside"]),
        ({"data": {"train": "s3://bucket/key"}}, ["input_scheme"]),
        ({"model": "hf:qwen/qwen3"}, ["input_scheme"]),
    ],
)
def test_paths_stay_in_the_workspace(members: dict[str, Any], codes: list[str]) -> None:
    assert decide(spec(**members)) == ({"inputs": codes} if codes else {})


def test_what_the_storage_said_of_a_path_or_checkpoint_is_the_refusal() -> None:
    fault = InputFault("checkpoint_missing", "it has none")
    asked = spec(data={"train": "/data/x"}, init_from="run/j234567abc/checkpoint")
    said = decide(asked, stored={"data.train": InputFault("input_outside", "no"), "init_from": fault})
    assert said == {"inputs": ["input_outside", "checkpoint_missing"]}


def test_paths_and_checkpoints_are_pinned_as_they_were_found() -> None:
    path, start = PathInput("/data/x", "/data"), CheckpointInput("j234567abc", 2, 7, "step-7")
    asked = {"data": {"train": "/data/x"}, "init_from": "run/j234567abc/checkpoint", "model": "models/tiny"}
    assert pin(asked, stored={"data.train": path, "init_from": start}) == {"data.train": path, "init_from": start}


SFT = load_catalog()["trl/sft"]


def sft(stored: dict[str, Any] | None = None, **members: Any) -> dict[str, list[str]]:
    asked = {
        "recipe": {"name": SFT.name, "version": SFT.version, "digest": SFT.digest},
        "framework": {"kind": "trl", "version": SFT.framework_versions[0], "image": "train:1"},
        "entry": {"kind": SFT.entry.kind, "value": "experiments/first"},
        "model": "models/tiny",
        "data": {"train": "data/train.jsonl"},
        "resources": {"pools": [{"gpus_per_node": 1}]},
    }
    return dict(decide(spec(**(asked | members)), fleet(node("here", gpus=8)), stored=stored or {}))


@pytest.mark.parametrize(
    ("hyperparameters", "codes"),
    [
        ({"learning_rate": 1e-5}, []),
        ({"learning_rat": 1e-5}, ["key_unknown"]),
        ({"learning_rate": "fast", "max_length": 0}, ["value_type", "value_bounds"]),
        ({"output_dir": "elsewhere"}, ["key_platform_owned"]),
        ({"packing_strategy": "tight"}, ["value_choice"]),
    ],
)
def test_hyperparameters_are_checked_whatever_the_client_was(hyperparameters: Any, codes: list[str]) -> None:
    assert sft(hyperparameters=hyperparameters) == ({"catalog": codes} if codes else {})


@pytest.mark.parametrize(
    ("columns", "codes"),
    [(["question"], ["data_columns"]), (["messages", "id"], []), (None, [])],
)
def test_rows_on_the_storage_that_the_method_cannot_read_are_refused_at_once(
    columns: list[str] | None, codes: list[str]
) -> None:
    seen = PathInput("/data/x.jsonl", "/data", None if columns is None else frozenset(columns))
    said = sft(data={"train": "/data/x.jsonl"}, stored={"data.train": seen})
    assert said == ({"inputs": codes} if codes else {})


@pytest.mark.parametrize("data", [{}, {"validation": "data/test.json"}])
def test_what_the_launch_would_refuse_waits_for_no_machine(data: dict[str, str]) -> None:
    asked = {"train": "data/train.jsonl", **data}
    assert sft(data=asked, hyperparameters={"eval_strategy": "epoch"}) == {"catalog": ["launch_refused"]}


def test_names_by_the_thousand_keep_nobody_busy() -> None:
    said = sft(hyperparameters={f"name_{number}": 1 for number in range(5000)})
    assert said == {"catalog": ["key_unknown"] * 21}


def test_inputs_that_the_method_needs_are_asked_for() -> None:
    assert sft(model=None, data={}) == {"catalog": ["input_missing", "input_missing"]}
    start = CheckpointInput("j234567abc", 1, 7, "step-7")
    pinned = {"stored": {"init_from": start}}
    asked = spec(init_from="run/j234567abc/checkpoint")
    assert decide(asked, **pinned) == {}


@pytest.mark.parametrize(
    ("asked", "made_by", "fits"),
    [
        ("trl/dpo", "trl/sft", True),
        ("trl/dpo", "custom/custom", True),
        ("trl/dpo", "verl/sft", False),
        ("verl/grpo", "verl/grpo", False),
        ("evalkit/benchmark", "trl/sft", True),
        ("evalkit/benchmark", "trl/reward", False),
        ("custom/custom", "openrlhf/sft", True),
        ("trl/dpo", "lab/unpublished", True),
    ],
)
def test_a_checkpoint_is_a_start_only_where_its_method_leaves_one(asked: str, made_by: str, *, fits: bool) -> None:
    submitted = spec(
        recipe={"name": asked, "version": "1", "digest": RECIPE.digest}, init_from="run/j234567abc/checkpoint"
    )
    start = CheckpointInput("j234567abc", 1, 7, "step-7")
    said = decide(submitted, stored={"init_from": start}, start_method=made_by)
    assert said.get("inputs", []) == ([] if fits else ["checkpoint_unfit"])


@pytest.mark.parametrize(
    ("asked", "codes"),
    [("trl/dpo", ["checkpoint_adapter"]), ("evalkit/benchmark", ["checkpoint_adapter"]), ("custom/custom", [])],
)
def test_an_adapter_without_its_base_is_a_start_for_custom_jobs_alone(asked: str, codes: list[str]) -> None:
    submitted = spec(
        recipe={"name": asked, "version": "1", "digest": RECIPE.digest}, init_from="run/j234567abc/checkpoint"
    )
    start = CheckpointInput("j234567abc", 1, 7, "step-7")
    said = decide(submitted, stored={"init_from": start}, start_method="trl/sft", start_is_adapter=True)
    assert said.get("inputs", []) == codes


def test_a_version_that_is_not_published_is_told_with_the_command_that_mends_it() -> None:
    framework = {"kind": "trl", "version": "0.1.0", "image": "train:1"}
    assert sft(framework=framework) == {"catalog": ["framework_version"]}
    assert RECIPE.name == "custom/custom"

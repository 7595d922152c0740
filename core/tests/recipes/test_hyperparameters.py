from dataclasses import replace
from typing import Any

import pytest

from starforge.contract.canonical import Json
from starforge.recipes.catalog import load_method
from starforge.recipes.faults import Fault, Place
from starforge.recipes.hyperparameters import build_facts, check_hyperparameters, check_rules, list_doubtful
from starforge.recipes.model import Parameter, Rule
from starforge.recipes.yaml12 import Document, read_yaml

TEXTS = {"en": "x", "zh-Hans": "x"}
PARAMETERS = (
    Parameter(name="learning_rate", group="optim", type="number", path="lr", help=TEXTS, minimum=0, maximum=1),
    Parameter(name="steps", group="optim", type="int", path="steps", help=TEXTS, default=10, minimum=1),
    Parameter(name="bf16", group="run", type="bool", path="bf16", help=TEXTS, default=True),
    Parameter(name="scheduler", group="optim", type="text", path="s", help=TEXTS, choices=("cosine", "linear")),
    Parameter(name="targets", group="lora", type="list", path="t", help=TEXTS, default=[]),
)


def parameter(name: str, **members: Any) -> Parameter:
    return Parameter(**{"name": name, "group": "g", "type": "int", "path": name, "help": TEXTS, **members})


def section_of(document: Document) -> dict[str, Json]:
    section = document.mapping()["hyperparameters"]
    assert isinstance(section, dict)
    return section


def check(text: str) -> list[Fault]:
    recipe = replace(
        load_method("custom/custom"), parameters=PARAMETERS, open_parameters=False, platform_parameters=("output_dir",)
    )
    document = read_yaml(f"hyperparameters:\n  {text}\n".encode(), "config.yaml")
    assert not document.faults
    return check_hyperparameters(recipe, section_of(document), document)


@pytest.mark.parametrize(
    "text", ["learning_rate: 1e-5", "learning_rate: 0", "steps: 7", "bf16: false", "scheduler: cosine", "targets: [q]"]
)
def test_what_fits_is_accepted(text: str) -> None:
    assert check(text) == []


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("learning_rate: fast", "value_type", "a number, not the text 'fast'"),
        ("learning_rate: 2", "value_bounds", "the most is 1"),
        ("steps: 0", "value_bounds", "the least is 1"),
        ("steps: 1.5", "value_type", "a whole number"),
        ("steps: true", "value_type", "truth value true"),
        ("steps: null", "value_type", "nothing"),
        ("scheduler: cosin", "value_choice", "cosine, linear"),
        ("scheduler: 1.10", "value_type", "a text"),
        ("targets: q_proj,v_proj", "value_type", "a list"),
        ("output_dir: x", "key_platform_owned", "set by the platform"),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(text: str, code: str, words: str) -> None:
    (fault,) = check(text)
    assert (fault.code, fault.place.line) == (code, 2)
    assert words in fault.message


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    (fault,) = check("learning_rat: 1")
    assert (fault.code, fault.hint) == ("key_unknown", "did you mean 'learning_rate'?")


def test_a_word_that_older_yaml_took_for_a_boolean_is_explained() -> None:
    (fault,) = check("bf16: no")
    assert fault.hint.startswith("write false")


def test_an_open_method_takes_any_name() -> None:
    document = read_yaml(b"hyperparameters: {anything: [1, {a: b}]}\n", "config.yaml")
    assert check_hyperparameters(load_method("custom/custom"), section_of(document), document) == []


def check_open(text: str) -> tuple[list[Fault], list[Fault]]:
    """Faults and warnings of hyperparameters that no recipe describes."""
    recipe, document = load_method("custom/custom"), read_yaml(f"hyperparameters:\n  {text}\n".encode(), "c.yaml")
    values = section_of(document)
    return check_hyperparameters(recipe, values, document), list_doubtful(recipe, values, document)


@pytest.mark.parametrize("text", ["flash: off", "nested: {deep: [yes]}"])
def test_a_word_with_two_meanings_is_refused_where_nobody_says_which_is_wanted(text: str) -> None:
    (fault,), warnings = check_open(text)
    assert (fault.code, fault.place.line, warnings) == ("value_ambiguous", 2, [])
    assert "quote it" in fault.hint


@pytest.mark.parametrize(("text", "words"), [("tag: 1.10", "the number 1.1"), ("when: 2024-08-12", "the text")])
def test_what_may_be_meant_as_something_else_is_warned_of_there(text: str, words: str) -> None:
    faults, (warning,) = check_open(text)
    assert (faults, warning.code) == ([], "value_doubtful")
    assert words in warning.message


@pytest.mark.parametrize("text", ["flash: 'off'", "tag: '1.10'", "rate: 1e-5", "on_top: true"])
def test_what_is_quoted_or_plain_is_neither(text: str) -> None:
    assert check_open(text) == ([], [])


def test_a_word_is_a_text_where_the_recipe_wants_a_text() -> None:
    recipe = replace(load_method("custom/custom"), parameters=(parameter("mixed", type="text"),), open_parameters=False)
    document = read_yaml(b"hyperparameters: {mixed: no}\n", "c.yaml")
    assert check_hyperparameters(recipe, section_of(document), document) == []
    assert list_doubtful(recipe, section_of(document), document) == []


def test_a_name_that_only_other_versions_have_is_told_from_a_slip() -> None:
    recipe = replace(
        load_method("custom/custom"),
        framework="demo",
        parameters=(parameter("old", versions="<2"), parameter("new", versions=">=2")),
        open_parameters=False,
    )
    document = read_yaml(b"hyperparameters: {old: 1, new: 2}\n", "c.yaml")
    (fault,) = check_hyperparameters(recipe.at("2.1"), section_of(document), document)
    assert (fault.code, str(fault.place)) == ("key_removed", "c.yaml:1:19")
    assert "<2" in fault.hint


def test_a_name_that_only_newer_versions_have_is_not_called_gone() -> None:
    document = read_yaml(b"hyperparameters: {truncation_mode: keep_end}\n", "c.yaml")
    (fault,) = check_hyperparameters(load_method("trl/sft").at("0.29.0"), section_of(document), document)
    assert (fault.code, fault.message) == ("key_removed", "trl/sft has no hyperparameter 'truncation_mode'")
    assert fault.hint == "only trl >=1.0 has it, this is 0.29.0"


def test_what_the_framework_resolves_itself_may_stand_for_any_value() -> None:
    recipe = replace(
        load_method("custom/custom"),
        parameters=(parameter("tokens"), parameter("betas", type="list", items="number")),
        open_parameters=False,
    )
    document = read_yaml(b"hyperparameters: {tokens: '${mul:2,3}', betas: ['${b}', x]}\n", "c.yaml")
    values = section_of(document)
    assert [fault.code for fault in check_hyperparameters(recipe, values, document)] == ["value_type"] * 2
    resolving = replace(recipe, options={"interpolations": True}, rules=(Rule(require="tokens > 3", message=TEXTS),))
    (fault,) = check_hyperparameters(resolving, values, document)
    assert "'x'" in fault.message
    assert check_rules(resolving, values, {}, Place("c.yaml")) == []


@pytest.mark.parametrize(
    ("values", "gpus", "nodes", "processes"),
    [
        ({}, None, None, None),
        ({}, 0, 1, 1),
        ({}, 16, 2, 16),
        ({"nproc_per_node": 2}, None, None, 2),
        ({"nproc_per_node": 2}, 8, 2, 4),
    ],
)
def test_processes_are_those_asked_for_else_one_for_each_gpu_else_one(
    values: dict[str, Json], gpus: int | None, nodes: int | None, processes: int | None
) -> None:
    facts = build_facts(load_method("custom/custom"), values, gpus, nodes)
    assert facts == {"gpus": gpus, "nodes": nodes, "processes": processes}


def test_an_unknown_name_far_from_every_other_is_not_answered_with_hundreds() -> None:
    many = tuple(parameter(f"setting_{number}") for number in range(40))
    recipe = replace(load_method("custom/custom"), name="demo/fit", parameters=many, open_parameters=False)
    document = read_yaml(b"hyperparameters: {xyz: 1}\n", "c.yaml")
    (fault,) = check_hyperparameters(recipe, section_of(document), document)
    assert fault.hint == "`sf methods demo/fit` lists its hyperparameters"


def check_method(method: str, values: dict[str, Json]) -> list[str]:
    """The codes of what stands against `values`, as a client that is not ours may send them."""
    recipe = load_method(method)
    at = recipe.at(recipe.framework_versions[0])
    return [fault.code for fault in check_hyperparameters(at, values, Document("the submission"))]


@pytest.mark.parametrize(
    ("method", "extra", "code"),
    [
        ("trl/sft", {"output-dir": "/x"}, "key_platform_owned"),
        ("trl/sft", {"output_di": "/x"}, "key_platform_owned"),
        ("trl/sft", {"learning-rate": 1}, "key_misplaced"),
        ("trl/sft", {"output_dir=/x --a": 1}, "key_malformed"),
        ("trl/sft", {"": 1}, "key_malformed"),
        ("trl/sft", {"a": ["b", "--output_dir=/x"]}, "value_option"),
        ("openrlhf/sft", {"ckpt.pat": "/x"}, "key_platform_owned"),
        ("openrlhf/sft", {"ckpt": {"pa-th": 1, "path": 1}}, "key_platform_owned"),
        ("openrlhf/sft", {"+ckpt.path": "/x"}, "key_platform_owned"),
        ("openrlhf/sft", {"xa": ["-x"]}, "value_option"),
        ("verl/grpo", {"++trainer": {"default_local_dir": "/x"}}, "key_platform_owned"),
        ("verl/grpo", {"+trainer.default_local_dir": "/x"}, "key_platform_owned"),
        ("verl/grpo", {"trainer.default_local_dir@x": "/x"}, "key_platform_owned"),
        ("verl/grpo", {"trainer": "x"}, "key_platform_owned"),
        ("verl/grpo", {"hydra/launcher": "x"}, "key_malformed"),
        ("verl/grpo", {"~trainer": 1}, "key_malformed"),
        ("verl/grpo", {"data.train_batch_size": {"x": 1}}, "key_misplaced"),
        ("nemo-rl/sft", {"cluster": {"num_nodes": 2}}, "key_platform_owned"),
        ("evalkit/benchmark", {"a": {"b": "@FORGE_OUT_DIR@/x"}}, "value_reserved"),
    ],
)
def test_extra_is_no_back_door_however_it_is_written(method: str, extra: dict[str, Json], code: str) -> None:
    assert check_method(method, {"extra": extra}) == [code]


@pytest.mark.parametrize(
    ("method", "extra"),
    [
        ("trl/sft", {"torchdynamo": "inductor", "label_names": ["labels"], "parallelism_config": {"tp size": 2}}),
        ("openrlhf/sft", {"muon": {"no_nesterov": True}, "eval.more": "-a b", "x": [-1, "a-b"]}),
        ("verl/grpo", {"+data.more": ["-a"], "++trainer": {"more": 1}, "model": {"tokenizer_path": None}}),
        ("evalkit/benchmark", {"notes": {"any key": "--x"}}),
    ],
)
def test_what_the_framework_has_beside_goes_below_extra(method: str, extra: dict[str, Json]) -> None:
    assert check_method(method, {"extra": extra}) == []


def test_a_word_that_the_runner_fills_in_is_no_value() -> None:
    assert check_method("trl/sft", {"chat_template_path": "@FORGE_OUT_DIR@/x"}) == ["value_reserved"]
    assert check_method("trl/sft", {"lora_target_modules": ["q", "--output_dir=/x"]}) == ["value_option"]

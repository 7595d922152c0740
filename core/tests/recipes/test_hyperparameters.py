from dataclasses import replace

import pytest

from starforge.contract.canonical import Json
from starforge.recipes.catalog import load_method
from starforge.recipes.faults import Fault
from starforge.recipes.hyperparameters import check_hyperparameters
from starforge.recipes.model import Parameter
from starforge.recipes.yaml12 import Document, read_yaml

TEXTS = {"en": "x", "zh-Hans": "x"}
PARAMETERS = (
    Parameter(name="learning_rate", group="optim", type="number", path="lr", help=TEXTS, minimum=0, maximum=1),
    Parameter(name="steps", group="optim", type="int", path="steps", help=TEXTS, default=10, minimum=1),
    Parameter(name="bf16", group="run", type="bool", path="bf16", help=TEXTS, default=True),
    Parameter(name="scheduler", group="optim", type="text", path="s", help=TEXTS, choices=("cosine", "linear")),
    Parameter(name="targets", group="lora", type="list", path="t", help=TEXTS, default=[]),
)


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

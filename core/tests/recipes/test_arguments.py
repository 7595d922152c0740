from dataclasses import replace

import pytest

from starforge.recipes.arguments import read_arguments
from starforge.recipes.catalog import load_method
from starforge.recipes.hyperparameters import check_hyperparameters
from starforge.recipes.model import Parameter

TEXTS = {"en": "x", "zh-Hans": "x"}


def values_of(text: str) -> object:
    document = read_arguments(text.encode(), "run.args")
    assert document.faults == []
    return document.mapping()["hyperparameters"]


def test_overrides_are_read_as_hydra_reads_them() -> None:
    assert values_of(
        "trainer.nnodes=1\n+a.new=false\n++b=[x,y]\nlr=1e-6 name='a b'\nempty=\nlogger=\"['console']\"\n"
    ) == {
        "trainer.nnodes": 1,
        "a.new": False,
        "b": ["x", "y"],
        "lr": 1e-6,
        "name": "a b",
        "empty": None,
        "logger": ["console"],
    }


def test_flags_are_read_with_none_one_or_several_values() -> None:
    assert values_of("--lr 1e-5 --bf16 \\\n  --max-length=512 \\\n  --targets q_proj v_proj\n") == {
        "lr": 1e-5,
        "bf16": True,
        "max_length": 512,
        "targets": ["q_proj", "v_proj"],
    }


@pytest.mark.parametrize(
    ("text", "code", "line", "column", "words"),
    [
        ("--a 1 \\\n# --fp16 \\\n--b 2\n", "arguments_interrupted", 2, 1, '"# --fp16" inside continued arguments'),
        ("--a 1 \\\n\n--b 2\n", "arguments_interrupted", 2, 1, "a blank line inside continued arguments"),
        ("a=1\n~critic\n", "arguments_removal", 2, 1, "takes a key away"),
        ("a=1\n  b='x\n", "arguments_quotes", 2, 5, "a quote is opened"),
        ("python train.py\n", "arguments_word", 1, 1, "is no argument"),
        ("a=1 a=2\n", "arguments_twice", 1, 5, "already given in line 1"),
    ],
)
def test_what_a_shell_or_hydra_would_take_otherwise_is_named_with_its_place(
    text: str, code: str, line: int, column: int, words: str
) -> None:
    fault = read_arguments(text.encode(), "run.args").faults[0]
    assert (fault.code, fault.place.line, fault.place.column) == (code, line, column)
    assert words in fault.message


def test_a_file_that_is_no_utf_8_is_refused_with_the_place_of_the_byte() -> None:
    (fault,) = read_arguments(b"a=1\nb=\xff\n", "run.args").faults
    assert (fault.code, fault.place.line, fault.place.column) == ("yaml_encoding", 2, 3)


def test_a_comment_between_whole_lines_is_none_of_the_arguments() -> None:
    assert values_of("# the data\na=1\n\n# more\nb=2\n") == {"a": 1, "b": 2}


def test_arguments_are_checked_as_hyperparameters_at_their_own_place() -> None:
    known = Parameter(name="actor_ref.rollout.n", group="g", type="int", path="n", help=TEXTS)
    recipe = replace(
        load_method("custom/custom"),
        parameters=(known,),
        open_parameters=False,
        removed={"grad_offload": {"en": "use offload_policy", "zh-Hans": "x"}},
    )
    document = read_arguments(b"grad_offload=False\nactor.ref.rollout.n=8\nactor_ref.rollout.n=many\n", "run.args")
    section = document.mapping()["hyperparameters"]
    assert isinstance(section, dict)
    faults = check_hyperparameters(recipe, section, document)
    assert [(fault.code, fault.place.line, fault.hint) for fault in faults] == [
        ("key_removed", 1, "use offload_policy"),
        ("key_unknown", 2, "did you mean 'actor_ref.rollout.n'?"),
        ("value_type", 3, "write it without quotes, digit groups or units"),
    ]

"""What the first rows of data have, and what methods need of them: only what is sure is refused."""

import json

import pytest
from pydantic import JsonValue

from starforge.recipes.catalog import load_method
from starforge.recipes.columns import HEAD_BYTES, advise, explain_unfit, find_columns, list_wanted

CHAT = [{"role": "user", "content": "Why?"}]


def lines(*rows: JsonValue) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


@pytest.mark.parametrize(
    ("name", "head", "columns"),
    [
        ("a.jsonl", lines({"text": "x"}, {"text": "y", "id": 1}), {"text", "id"}),
        ("a.jsonl", b"\xef\xbb\xbf\n\n" + lines({"text": "x"}), {"text"}),
        ("a.jsonl", b'{"prompt": "a"}\r\n{"prompt": "b"}', {"prompt"}),
        ("a.json", json.dumps([{"prompt": "x"}, {"completion": "y"}], indent=2).encode(), {"prompt", "completion"}),
        ("a.json", lines({"chosen": "x"}), {"chosen"}),
        ("a.csv", b'prompt,"the, completion"\nx,y\n', {"prompt", "the, completion"}),
    ],
)  # fmt: skip
def test_columns_are_those_of_the_first_rows(name: str, head: bytes, columns: set[str]) -> None:
    assert find_columns(name, head) == frozenset(columns)


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("a.jsonl", b""),
        ("a.jsonl", b"not json\n"),
        ("a.jsonl", lines([1, 2])),
        ("a.jsonl", b"\xff\xfe{\x00"),
        ("a.json", b"[" * 100_000),
        ("a.json", json.dumps({"data": [{"text": "x"}]}, indent=1).encode()),
        ("a.json", b'[{"text": "' + b"x" * HEAD_BYTES),
        ("a.csv", b"prompt;completion\nx;y\n"),
        ("a.csv", b"prompt,completion"),
        ("a.parquet", b"PAR1"),
        ("a.jsonl.gz", lines({"text": "x"})),
        ("a", lines({"text": "x"})),
    ],
)
def test_what_is_not_sure_is_not_known(name: str, head: bytes) -> None:
    assert find_columns(name, head) is None


def test_a_beginning_that_ends_in_the_middle_of_a_letter_or_row_is_read_as_far_as_it_goes() -> None:
    rows = (lines({"text": "x"}) + b'{"text": "' + "é".encode() * HEAD_BYTES)[:HEAD_BYTES]
    assert find_columns("a.jsonl", rows) == frozenset({"text"})


@pytest.mark.parametrize(
    ("method", "row", "fits"),
    [
        ("trl/sft", {"messages": CHAT}, True),
        ("trl/sft", {"conversations": CHAT, "id": 1}, True),
        ("trl/sft", {"prompt": "a", "completion": "b"}, True),
        ("trl/sft", {"input_ids": [1]}, True),
        ("trl/sft", {"question": "a", "answer": "b"}, False),
        ("trl/sft", {"prompt": "a"}, False),
        ("trl/dpo", {"chosen": "a", "rejected": "b"}, True),
        ("trl/dpo", {"prompt": "a", "chosen": "b"}, False),
        ("trl/kto", {"prompt": "a", "completion": "b", "label": True}, True),
        ("trl/kto", {"prompt": "a", "completion": "b"}, False),
        ("trl/reward", {"chosen_input_ids": [1], "rejected_input_ids": [2]}, True),
        ("trl/grpo", {"prompt": "a", "solution": "b"}, True),
        ("trl/rloo", {"question": "a"}, False),
        ("openrlhf/sft", {"input": "a"}, True),
        ("openrlhf/dpo", {"chosen": "a", "rejected": "b"}, True),
        ("openrlhf/ppo", {"prompt": "a"}, False),
        ("nemo-rl/sft", {"anything": 1}, True),
        ("custom/custom", {"anything": 1}, True),
    ],
)
def test_rows_fit_a_method_or_not(method: str, row: dict[str, JsonValue], *, fits: bool) -> None:
    why = explain_unfit(list_wanted(load_method(method), {}), find_columns("a.jsonl", lines(row)))
    assert (why == "") is fits


def test_settings_name_columns() -> None:
    sft, own = load_method("trl/sft"), {"dataset_text_field": "body"}
    assert explain_unfit(list_wanted(sft, own), frozenset({"body"})) == ""
    why = explain_unfit(list_wanted(sft, own), frozenset({"text"}))
    assert why == "its rows have text; wanted are body, or messages, or conversations, or prompt and completion"
    assert advise(sft) == "rename the columns, or say with dataset_text_field which they are"
    assert list_wanted(sft, {"dataset_kwargs": {"skip_prepare_dataset": True}}) == ()
    pairs = load_method("openrlhf/sft")
    assert explain_unfit(list_wanted(pairs, {"data": {"input_key": "q", "output_key": "a"}}), frozenset({"q"}))

import time

import pytest

from starforge.recipes.lookalikes import find_lookalikes
from starforge.recipes.yaml12 import Document, read_yaml


def read(text: str) -> Document:
    return read_yaml(text.encode(), "config.yaml")


def codes(text: str) -> list[str]:
    return [fault.code for fault in read(text).faults]


def test_a_number_with_an_exponent_and_no_point_is_a_number() -> None:
    assert read("lr: 1e-5\nbig: 5E5\n").value == {"lr": 1e-5, "big": 5e5}


def test_words_that_yaml_1_1_took_for_booleans_stay_texts() -> None:
    assert read("a: no\nb: on\nc: Yes\nd: true\n").value == {"a": "no", "b": "on", "c": "Yes", "d": True}


def test_times_dates_and_digit_groups_stay_texts() -> None:
    assert read("a: 12:30\nb: 2024-08-12\nc: 1_000\n").value == {"a": "12:30", "b": "2024-08-12", "c": "1_000"}


def test_a_number_with_leading_zeros_is_refused_because_it_has_two_meanings() -> None:
    fault = read("seed: 1\nrevision: 042\n").faults[0]
    assert (fault.code, str(fault.place)) == ("yaml_ambiguous_number", "config.yaml:2:11")
    assert "'042'" in fault.hint


def test_every_duplicate_key_is_named_with_its_line_and_the_line_of_the_first() -> None:
    faults = read("a: 1\nb: 2\na: 3\nc: {x: 1, x: 2}\nb: 4\n").faults
    assert [(fault.code, fault.place.line) for fault in faults] == [("yaml_duplicate_key", line) for line in (3, 4, 5)]
    assert "line 1" in faults[0].message


def test_a_tab_in_the_indentation_is_named_as_one() -> None:
    fault = read("a:\n\tb: 1\n").faults[0]
    assert (fault.code, fault.place.line, fault.place.column) == ("yaml_tab", 2, 1)


def test_a_byte_order_mark_and_windows_line_ends_are_read_with_a_warning() -> None:
    document = read_yaml("\ufeffa: x\r\nb: 2\r\n".encode(), "config.yaml")
    assert (document.value, document.faults) == ({"a": "x", "b": 2}, [])
    assert [warning.code for warning in document.warnings] == ["yaml_bom"]


def test_utf_16_and_other_encodings_are_refused_with_the_place_of_the_byte() -> None:
    assert read_yaml("a: 1\n".encode("utf-16"), "c").faults[0].hint == "save it as UTF-8"
    fault = read_yaml("a: 1\n# 中文\n".encode("gbk"), "c").faults[0]
    assert (fault.code, fault.place.line, fault.place.column) == ("yaml_encoding", 2, 3)


def test_a_full_width_colon_is_blamed_where_it_stands_not_where_reading_fails() -> None:
    fault = read("learning_rate\uff1a 1.0e-5\nreport_to\uff1a\n  \uff0d wandb\nname: “exp1”\n").faults[0]
    assert (fault.code, fault.place.line, fault.place.column) == ("yaml_lookalike", 1, 14)
    assert fault.hint == "write ':'"


def test_every_sign_that_only_looks_like_yamls_own_is_named_at_once() -> None:
    faults = read(
        "learning_rate\uff1a 1.0e-5\nreport_to\uff1a\n  \uff0d wandb\nname: “exp1”\nsizes: [1\uff0c 2]\n"
    ).faults
    assert [(fault.place.line, fault.place.column, fault.hint) for fault in faults] == [
        (1, 14, "write ':'"),
        (2, 10, "write ':'"),
        (3, 3, "write '-'"),
        (4, 7, "write '\"'"),
        (5, 10, "write ','"),
    ]


def test_a_file_of_one_key_with_a_full_width_colon_is_told_of_that() -> None:
    assert codes("learning_rate\uff1a1.0e-5\n") == ["yaml_lookalike"]


def test_signs_of_another_language_within_texts_are_not_blamed_for_another_fault() -> None:
    text = (
        'system: "你好\uff0c世界\uff1a请回答\uff03"\nnote: 请回答\uff1a好\uff0c“是”\n# 注意\uff1a\u201c列表\u201d\n'
        "prompt: |\n  temperature\uff1a好\nbroken: [1, 2\nnext: 3\n"
    )
    (fault,) = read(text).faults
    assert (fault.code, fault.place.line) == ("yaml_syntax", 7)


def test_a_number_that_is_none_is_refused_with_what_to_do() -> None:
    assert all(fault.hint for fault in read("a: .inf\nb: .nan\nc: 1e999\n").faults)


def test_a_second_document_is_refused() -> None:
    assert codes("a: 1\n---\nb: 2\n") == ["yaml_documents"]


def test_a_key_that_is_no_text_is_refused_with_its_quoted_form() -> None:
    fault = read("true: 1\n").faults[0]
    assert (fault.code, fault.hint) == ("yaml_key", "quote it: 'true'")


def test_numbers_that_json_cannot_carry_are_refused() -> None:
    assert codes("a: .inf\nb: .nan\nc: 1e999\n") == ["yaml_not_finite"] * 3


def test_numbers_too_long_for_python_are_refused_in_every_notation() -> None:
    ones = "1" * 5000
    assert codes(f"a: {ones}\nb: 0x{ones}\nc: -{ones}\n") == ["yaml_number_too_long"] * 3


def test_texts_and_keys_that_no_job_can_be_given_are_refused() -> None:
    assert codes('a: "x\\0"\nb: "\\ud800"\n"\\udfff": 1\n') == ["yaml_text"] * 3


def test_a_long_row_of_underscores_takes_no_time() -> None:
    assert read(f"a: 0{'_' * 500_000}x\n").faults == []


def test_tags_merge_keys_and_python_objects_are_refused() -> None:
    assert codes("a: &x {b: 1}\nc: {<<: *x}\n") == ["yaml_merge"]
    assert codes("a: !!python/name:os.system x\n") == ["yaml_tag"]


def test_aliases_that_multiply_are_stopped() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert codes("\n".join(lines)) == ["yaml_too_deep"]


def test_an_empty_file_is_an_empty_map_and_a_list_is_no_config() -> None:
    assert (read("").mapping(), read("").faults) == ({}, [])
    assert codes("- a\n") == ["yaml_not_a_map"]


def test_positions_are_those_of_key_and_value() -> None:
    document = read("outer:\n  inner: 5\n")
    assert str(document.key_place_of(("outer", "inner"))) == "config.yaml:2:3"
    assert str(document.place_of(("outer", "inner"))) == "config.yaml:2:10"


def test_the_position_of_what_is_missing_is_the_nearest_that_holds_it() -> None:
    assert read("outer:\n  inner: 5\n").place_of(("outer", "other", "x")).line == 2


def test_what_cannot_be_read_is_left_out_and_the_rest_is_kept() -> None:
    document = read_yaml(b"seed: 042\nlist: [1, .nan]\nsteps: 7\ninner: {a: 017, b: 2}\n", "config.yaml")
    assert document.value == {"steps": 7, "inner": {"b": 2}}
    assert [fault.place.line for fault in document.faults] == [1, 2, 4]


def test_a_key_that_yaml_1_1_takes_for_a_boolean_is_refused_unless_it_is_quoted() -> None:
    (fault,) = read_yaml(b"A:\n  ON: false\n", "config.yaml").faults
    assert (fault.code, str(fault.place), fault.hint) == ("yaml_key", "config.yaml:2:3", "quote it: 'ON'")
    assert read_yaml(b"A:\n  'ON': false\ny: 1\n", "config.yaml").faults == []


def test_plain_scalars_that_people_mean_differently_are_noted() -> None:
    text = b"a: no\nb: 'no'\nc: 1_000\nd: 2024-08-12\ne: 1.10\nf: 1.0\ng: [off, 1:30]\nh: 1e-5\n"
    doubts = read_yaml(text, "config.yaml").doubts
    assert {path: (doubt.kind, doubt.old) for path, doubt in doubts.items()} == {
        ("a",): ("word", "false"),
        ("c",): ("text", ""),
        ("d",): ("text", ""),
        ("e",): ("number", ""),
        ("g", 0): ("word", "false"),
        ("g", 1): ("text", ""),
    }


@pytest.mark.parametrize("line", ["[", '"\\', "\u3000", " ", "- ", "- \u3000", " #", "[\uff0c", ": |", "a\uff1a"])
def test_a_hostile_file_is_told_of_in_bounded_time(line: str) -> None:
    text = "".join(line * (498 // len(line)) + "\n" for _ in range(1000))
    begun = time.process_time()
    find_lookalikes(text)
    assert time.process_time() - begun < 2

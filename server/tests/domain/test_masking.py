"""No secret in what a container tells."""

import dataclasses
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.tests.domain.test_exit_reason import RECORD
from starforge_console.domain.masking import MASK, Words, mask_record, mask_text

LETTERS = "Ab3dEf6hIj9kLmN0pQrStUv"


@pytest.mark.parametrize(
    "secret",
    [
        f"sfa_{LETTERS}-_{LETTERS}",
        f"sf_{LETTERS}",
        f"hf_{LETTERS}",
        f"ghp_{LETTERS}",
        f"github_pat_{LETTERS}_{LETTERS}",
        f"glpat-{LETTERS}",
        f"sk-proj-{LETTERS}",
        f"xoxb-123456-{LETTERS}",
        "AKIA" + "A2" * 8,
        f"eyJhbGciOiJIUzI1NiJ9.{LETTERS}.{LETTERS}",
    ],
)
def test_what_has_the_shape_of_a_token_goes_out_wherever_it_stands(secret: str) -> None:
    for text in ("{}", "401 for token={}: refused", "'{}'", '{{"key": "{}"}}', "a {} b {}\n"):
        shown = mask_text(text.format(secret, secret), Words([]))
        assert secret not in shown
        assert shown == text.format(MASK, MASK)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cloning https://ann:hunter2@git.lab/x failed", "cloning https://***@git.lab/x failed"),
        (f"Authorization: Bearer {LETTERS}", "Authorization: Bearer ***"),
    ],
)
def test_an_address_and_a_header_keep_what_is_no_secret(text: str, shown: str) -> None:
    assert mask_text(text, Words([])) == shown


@pytest.mark.parametrize(
    "text",
    [
        "exit code 1",
        "sha256:" + "0123456789abcdef" * 4,
        "RuntimeError: CUDA error: device-side assert triggered",
        "the token <|endoftext|> is not in the vocabulary of task-with-a-long-hyphenated-name",
        "j234567abc-1-abcdef: /srv/runs/j234567abc/attempts/1/ckpt/step-100",
        "see https://huggingface.co/docs, or write to ann@example.org",
    ],
)
def test_ordinary_words_stay_as_they_are(text: str) -> None:
    assert mask_text(text, Words([])) == text


WORDS = st.text(st.characters(exclude_characters=MASK))


@given(WORDS, WORDS.filter(bool), WORDS)
def test_a_known_secret_of_any_shape_goes_out(before: str, secret: str, after: str) -> None:
    shown = mask_text(before + secret + after, Words([secret]))
    assert secret not in shown


def test_the_longest_of_two_secrets_goes_out_first() -> None:
    assert mask_text("it was abcdef", Words(["abc", "abcdef", ""])) == "it was ***"


def test_a_record_keeps_all_but_the_secrets_in_its_words() -> None:
    told = dataclasses.replace(RECORD, message="no space for s3cret")
    assert mask_record(told, Words(["s3cret"])) == dataclasses.replace(RECORD, message="no space for ***")
    assert mask_record(dataclasses.replace(RECORD, message=None), Words(["s3cret"])).message is None
    told = dataclasses.replace(RECORD, message=None, last_line="KeyError: s3cret" + "x" * 5000)
    last_line = mask_record(told, Words(["s3cret"])).last_line
    assert last_line is not None
    assert last_line.startswith("KeyError: ***xxx")
    assert len(last_line) == 200


@pytest.mark.parametrize("others", [0, 100], ids=["few", "many"])
def test_of_words_that_overlap_nothing_is_left(others: int) -> None:
    words = Words(["abcdefgh", "efghijklmnop", "abcdefghij", *(f"another word {number}" for number in range(others))])
    assert words.hide("x abcdefghijklmnop y abcdefgh z") == "x *** y *** z"
    assert words.hide("abcdefg") == "abcdefg"


def test_a_hundred_thousand_lines_of_secrets_do_not_hold_up_whoever_looks_at_a_thousand_names() -> None:
    words = Words([f"line {number:010d}" for number in range(100_000)])
    began = time.perf_counter()
    shown = [words.hide(f"train/loss/{number} line {number:010d}") for number in range(1000)]
    assert time.perf_counter() - began < 2.0
    assert shown == [f"train/loss/{number} ***" for number in range(1000)]

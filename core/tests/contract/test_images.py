from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from starforge.contract.images import ImageReference, parse_image_reference
from starforge.errors import SpecError

HEX = "0123456789abcdef" * 4
DIGEST = f"sha256:{HEX}"


def reference(host: str | None, repository: str, tag: str | None = None, digest: str | None = None) -> ImageReference:
    return ImageReference(host=host, repository=repository, tag=tag, digest=digest)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("python", reference(None, "python")),
        ("python:3.12-slim", reference(None, "python", "3.12-slim")),
        ("team/llm:V3_a.b", reference(None, "team/llm", "V3_a.b")),
        ("a__b/c---d/e.f:x", reference(None, "a__b/c---d/e.f", "x")),
        ("localhost/train", reference("localhost", "train")),
        ("localhost:5000/train:1", reference("localhost:5000", "train", "1")),
        ("registry.example.org/a/b/c", reference("registry.example.org", "a/b/c")),
        ("Registry/train:1", reference("Registry", "train", "1")),
        ("[::1]:5000/train", reference("[::1]:5000", "train")),
        (f"python@{DIGEST}", reference(None, "python", None, DIGEST)),
        (f"r.io:443/p:1@{DIGEST}", reference("r.io:443", "p", "1", DIGEST)),
        (f"p@sha512:{HEX * 2}", reference(None, "p", None, f"sha512:{HEX * 2}")),
        (DIGEST, reference(None, "", None, DIGEST)),
    ],
)
def test_a_reference_is_read_in_its_parts_and_written_as_it_was(text: str, expected: ImageReference) -> None:
    assert parse_image_reference(text) == expected
    assert str(expected) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Not An Image", "no part of a repository"),
        ("Python:3", "lower case"),
        ("team/LLM", "lower case"),
        ("", "is empty"),
        (":3", "is empty"),
        ("a//b", "is empty"),
        ("/a", "is empty"),
        ("a/", "is empty"),
        ("a..b", "no part of a repository"),
        ("-a", "no part of a repository"),
        ("a_", "no part of a repository"),
        ("http://r.io/a", "no registry's host"),
        ("a:", "no tag"),
        ("a:.b", "no tag"),
        ("a:b c", "no tag"),
        ("a:" + "x" * 129, "no tag"),
        ("a:1\n", "no tag"),
        ("a:é", "no tag"),
        ("a:1:2", "no tag"),
        ("r_.io/a", "no registry's host"),
        ("r.io:port/a", "no registry's host"),
        ("-r.io/a", "no registry's host"),
        ("a@", "no digest"),
        ("a@sha256:12", "no digest"),
        (f"a@sha256:{HEX.upper()}", "no digest"),
        (f"a@md5:{HEX[:32]}", "no digest"),
        (HEX, "64 hexadecimal digits"),
        ("a" * 256, "longer than 255"),
    ],
)
def test_what_no_engine_takes_is_refused_with_the_part_at_fault(text: str, why: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse_image_reference(text)
    assert why in refused.value.why
    assert refused.value.next_step


def test_a_tag_of_128_characters_and_a_name_of_255_are_the_longest() -> None:
    text = "a" * 255 + ":" + "x" * 128
    assert str(parse_image_reference(text)) == text


@given(st.one_of(st.text(), st.text(alphabet="aA0._-:/@[] \n")))
def test_what_is_read_is_written_as_it_was(text: str) -> None:
    with suppress(SpecError):
        assert str(parse_image_reference(text)) == text

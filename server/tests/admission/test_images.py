import pytest

from starforge_console.admission.images import find_match, parse_image, parse_patterns, suggest_image

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("pattern", "image"),
    [
        ("*", "anything/at:all"),
        ("*", DIGEST),
        ("python:3.11", "python:3.11"),
        ("python:3.11", "docker.io/library/python:3.11"),
        ("docker.io/library/python:*", "python:3.12-slim"),
        ("python", "python"),
        ("python", "python:3.12"),
        ("python:latest", "python"),
        ("registry.corp/train/*:v*", "registry.corp/train/sft:v1.2"),
        ("registry.corp/*", "registry.corp/a/b/c:x"),
        ("registry.corp:5000/a:*", "registry.corp:5000/a:1"),
        ("localhost/a", "localhost/a:1"),
        ("*/team/a", "any.registry/team/a:1"),
        ("*.corp/a", "one.corp/a"),
        (f"registry.corp/a@{DIGEST}", f"registry.corp/a@{DIGEST}"),
        (f"registry.corp/a@{DIGEST}", f"registry.corp/a:v1@{DIGEST}"),
        ("registry.corp/a", f"registry.corp/a@{DIGEST}"),
        (DIGEST, DIGEST),
        ("nothing other/* python:*", "python:3.11"),
    ],
)
def test_an_image_that_a_pattern_names_is_allowed(pattern: str, image: str) -> None:
    assert find_match(parse_image(image), parse_patterns(pattern)) is not None


@pytest.mark.parametrize(
    ("pattern", "image"),
    [
        ("", "python:3.11"),
        ("python:3.11", "python:3.12"),
        ("python:3.11", "evil.example/library/python:3.11"),
        ("python:3.1", "python:3.11"),
        ("registry.corp/*", "evil.example/registry.corp/a:1"),
        ("*.corp/a", "evil.example/x.corp/a"),
        ("registry.corp/train/*:v*", "registry.corp/train/sft:latest"),
        ("registry.corp/train/*:v*", "registry.corp/train/sft"),
        ("registry.corp/a:v1", f"registry.corp/a:v1@{DIGEST}"),
        (f"registry.corp/a@{DIGEST}", "registry.corp/a:v1"),
        ("registry.corp:5000/a", "registry.corp/a"),
        ("python", DIGEST),
        ("python:[3]", "python:3x"),
        ("docker.io/*", "EVIL/train:1"),  # an engine takes a first part in upper case for a registry's host
        ("docker.io/*", "[::1]/train:1"),
    ],
)
def test_an_image_that_no_pattern_names_is_not(pattern: str, image: str) -> None:
    assert find_match(parse_image(image), parse_patterns(pattern)) is None


@pytest.mark.parametrize(
    ("image", "patterns", "said"),
    [
        ("pyhton:3.11", "python:3.11 ubuntu:24.04", "did you mean python:3.11?"),
        ("registry.corp/tarin/sft:v1", "registry.corp/train/*:v*", "the nearest that is allowed is"),
        ("zzz", "python:3.11 ubuntu:24.04", "allowed are: python:3.11, ubuntu:24.04"),
        ("zzz", "", "ask an administrator"),
    ],
)
def test_what_is_allowed_instead_is_said(image: str, patterns: str, said: str) -> None:
    assert said in suggest_image(image, parse_patterns(patterns))

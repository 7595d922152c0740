"""Which images are allowed: patterns over registry, repository, tag and digest. Pure."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from starforge.contract.images import DEFAULT_NAMESPACE, DOCKER_HUB, parse_image_reference
from starforge.errors import SpecError
from starforge_console.domain.images import DEFAULT_TAG

_DIGEST: Final = "sha256:"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageName:
    """An image reference, or a pattern for some, in its parts. An image id has a digest and an empty repository."""

    registry: str
    repository: str
    tag: str | None
    digest: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePattern:
    """One allowed pattern and the text it was written as. `everything` is a lone `*`."""

    text: str
    name: ImageName
    everything: bool = False


def parse_image(text: str) -> ImageName:
    """`text` with what Docker would add: registry `docker.io`, namespace `library`, and the tag `latest`.

    Raises:
        SpecError: it is no image reference.

    """
    reference = parse_image_reference(text)
    if not reference.repository:
        return ImageName(registry="", repository="", tag=None, digest=reference.digest)
    tag = DEFAULT_TAG if reference.tag is None and reference.digest is None else reference.tag
    return _name(reference.host or DOCKER_HUB, reference.repository, tag, reference.digest)


def parse_patterns(text: str) -> tuple[ImagePattern, ...]:
    """The patterns of a list separated by spaces, such as `registry.corp/train/*:v* python:3.11`."""
    return tuple(
        ImagePattern(text=pattern, name=_parse_pattern(pattern), everything=pattern == "*") for pattern in text.split()
    )


def find_match(image: ImageName, patterns: Iterable[ImagePattern]) -> ImagePattern | None:
    """The first pattern that allows `image`."""
    return next((pattern for pattern in patterns if _matches(image, pattern)), None)


def find_allowed(text: str, patterns: Iterable[ImagePattern]) -> ImagePattern | None:
    """The same for an image as it was written; None also where it is no image reference."""
    try:
        return find_match(parse_image(text), patterns)
    except SpecError:
        return None


def suggest_image(text: str, patterns: Sequence[ImagePattern]) -> str:
    """What is allowed instead of `text`, as a sentence."""
    if not patterns:
        return "no image is allowed here: ask an administrator"
    near = difflib.get_close_matches(text, [pattern.text for pattern in patterns], n=1, cutoff=0.6)
    if near and "*" not in near[0]:
        return f"did you mean {near[0]}?"
    if near:
        return f"the nearest that is allowed is {near[0]}"
    return f"allowed are: {', '.join(pattern.text for pattern in patterns)}"


def _matches(image: ImageName, pattern: ImagePattern) -> bool:
    if pattern.everything:
        return True
    wanted = pattern.name
    # Each part is compared alone: a `*` of the repository must not reach into another registry.
    if not fnmatchcase(image.registry, wanted.registry) or not fnmatchcase(image.repository, wanted.repository):
        return False
    if image.digest is not None:
        # With a digest the tag decides nothing: an allowed tag beside it would open the door for any content.
        return fnmatchcase(image.digest, wanted.digest) if wanted.digest is not None else wanted.tag is None
    if wanted.digest is not None:
        return False
    return wanted.tag is None or fnmatchcase(image.tag or DEFAULT_TAG, wanted.tag)


def _parse_pattern(text: str) -> ImageName:
    """A reference with wildcards, which no parser of references takes; only registry and namespace are added."""
    if text.startswith(_DIGEST):
        return ImageName(registry="", repository="", tag=None, digest=text)
    rest, at, digest = text.partition("@")
    first, slash, path = rest.partition("/")
    if slash and (first in {"localhost", "*"} or first != first.lower() or any(sign in first for sign in ".:[")):
        registry, rest = first, path
    else:
        registry = DOCKER_HUB
    repository, colon, tag = rest.rpartition(":")
    if not colon:
        repository, tag = rest, ""
    return _name(registry, repository, tag or None, digest if at else None)


def _name(registry: str, repository: str, tag: str | None, digest: str | None) -> ImageName:
    if registry == DOCKER_HUB and "/" not in repository:
        repository = f"{DEFAULT_NAMESPACE}/{repository}"
    return ImageName(registry=registry, repository=repository, tag=tag, digest=digest)

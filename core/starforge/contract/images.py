"""References of images, as registries and engines read them: `[HOST[:PORT]/]PATH[:TAG][@DIGEST]`, or an image's id."""

import re
from dataclasses import dataclass
from typing import Final

from starforge.errors import SpecError

DOCKER_HUB: Final = "docker.io"
"""The registry that a name without one means to an engine."""
DEFAULT_NAMESPACE: Final = "library"

_HUB_NAMES: Final = frozenset({DOCKER_HUB, "index.docker.io", "registry-1.docker.io"})
_LONGEST_NAME: Final = 255
_ID: Final = re.compile(r"sha256:[0-9a-f]{64}")
_BARE_ID: Final = re.compile(r"[0-9a-f]{64}")
_HOST: Final = re.compile(
    r"(?:\[[0-9a-fA-F:]+\]|(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
    r"(?:\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))*)(?::[0-9]{1,5})?"
)
_PART: Final = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}")
_FORM: Final = "write [HOST/]NAME:TAG or [HOST/]NAME@sha256:…, such as registry.example.org/train/llm:v3"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageReference:
    """A reference in its parts, as they were written: nothing is added that a default would add.

    An image's id has neither host nor repository, and its digest is the id.
    """

    host: str | None
    repository: str
    tag: str | None
    digest: str | None

    @property
    def home(self) -> tuple[str, str]:
        """Its registry, in lower case, and its repository there, with what an engine adds to a name without them."""
        registry = name_registry(self.host or DOCKER_HUB)
        if registry == DOCKER_HUB and "/" not in self.repository:
            return registry, f"{DEFAULT_NAMESPACE}/{self.repository}"
        return registry, self.repository

    def __str__(self) -> str:
        if not self.repository:
            return self.digest or ""
        name = self.repository if self.host is None else f"{self.host}/{self.repository}"
        return name + (f":{self.tag}" if self.tag else "") + (f"@{self.digest}" if self.digest else "")


def parse_image_reference(text: str) -> ImageReference:
    """The reference that `text` is. Pure; whether such an image exists is not asked.

    Raises:
        SpecError: an engine would not take it; says which part is at fault.

    """
    if _ID.fullmatch(text):
        return ImageReference(host=None, repository="", tag=None, digest=text)
    if _BARE_ID.fullmatch(text):
        raise _refuse(text, "64 hexadecimal digits alone are read as no name", f"write sha256:{text}")
    rest, at, digest = text.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise _refuse(text, f"{digest!r} is no digest: sha256: and 64 hexadecimal digits in lower case")
    host, path = _split_host(rest)
    if host is not None and not _HOST.fullmatch(host):
        raise _refuse(text, f"{host!r} is no registry's host")
    repository, colon, tag = path.partition(":")
    if colon and not _TAG.fullmatch(tag):
        raise _refuse(text, f"{tag!r} is no tag: letters, digits, '_', '.', '-'; 128 at most, the first no '.' or '-'")
    _check_repository(text, repository)
    if len(rest) - len(colon + tag) > _LONGEST_NAME:
        raise _refuse(text, f"its name is longer than {_LONGEST_NAME} characters")
    return ImageReference(host=host, repository=repository, tag=tag or None, digest=digest or None)


def name_registry(host: str) -> str:
    """The one way in which a registry is written, whatever an image calls it."""
    lowered = host.lower()
    return DOCKER_HUB if lowered in _HUB_NAMES else lowered


def _split_host(text: str) -> tuple[str | None, str]:
    """The part before the first slash is a host where no repository could be called so."""
    first, slash, path = text.partition("/")
    if slash and (first == "localhost" or first != first.lower() or any(sign in first for sign in ".:[")):
        return first, path
    return None, text


def _check_repository(text: str, repository: str) -> None:
    for part in repository.split("/"):
        if _PART.fullmatch(part):
            continue
        if part != part.lower() and _PART.fullmatch(part.lower()):
            raise _refuse(text, f"a repository is written in lower case, and this one holds {part!r}")
        what = f"{part!r} is no part of a repository's name" if part else "a part of the repository's name is empty"
        raise _refuse(text, f"{what}: lower-case letters and digits, with '.', '_' or '-' between them")


def _refuse(text: str, why: str, next_step: str = _FORM) -> SpecError:
    shown = text if len(text) <= _LONGEST_NAME else f"{text[:60]}…"
    return SpecError(f"{shown!r} is no image reference", why=why, next_step=next_step)

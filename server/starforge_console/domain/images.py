"""Images as registries are asked of them: who is asked about what, what answers mean, what attempts launch. Pure."""

from dataclasses import dataclass
from typing import Final, TypeAlias

from starforge.contract.ids import is_digest
from starforge.contract.images import DOCKER_HUB, ImageReference, name_registry, parse_image_reference
from starforge.errors import InputError, SpecError
from starforge.said.sentence import say

DEFAULT_TAG: Final = "latest"


@dataclass(frozen=True, slots=True)
class ImageQuestion:
    """What a registry is asked: whether `repository` has `reference`, a tag or a digest.

    `registry` is in lower case and as images name it: `docker.io`, or HOST[:PORT].
    """

    registry: str
    repository: str
    reference: str

    @property
    def digest(self) -> str | None:
        """The digest that was asked for; None for a tag."""
        return self.reference if ":" in self.reference else None

    def __str__(self) -> str:
        return f"{self.registry}/{self.repository}{'@' if self.digest else ':'}{self.reference}"


@dataclass(frozen=True, slots=True)
class Resolved:
    """The registry has it, and `digest` is its content now."""

    digest: str


@dataclass(frozen=True, slots=True)
class NoSuchTag:
    """The registry says that it has no such repository, tag or digest."""

    why: str


@dataclass(frozen=True, slots=True)
class Denied:
    """The registry lets the console not read it. `had_login`: the console signed in and was refused all the same."""

    why: str
    had_login: bool = False


@dataclass(frozen=True, slots=True)
class NotAnswered:
    """Nobody knows: the registry is out of reach, disturbed, or what answered is none.

    `is_general`: no other question would be answered now either.
    """

    why: str
    is_general: bool = False


ImageAnswer: TypeAlias = Resolved | NoSuchTag | Denied | NotAnswered


def find_question(image: str) -> ImageQuestion | None:
    """What a registry can be asked about `image`; None for an image's id and for what is no reference."""
    try:
        reference = parse_image_reference(image)
    except SpecError:
        return None
    return _build_question(reference) if reference.repository else None


def is_hub(registry: str) -> bool:
    """Whether the registry is the one that names without a registry mean."""
    return registry == DOCKER_HUB


def parse_registry(text: str) -> str:
    """The registry that `text` names, as `ImageQuestion.registry` writes it.

    Raises:
        InputError: no image could name such a registry.

    """
    try:
        reference = parse_image_reference(f"{text}/image")
    except SpecError:
        reference = None
    if reference is None or reference.host is None or reference.repository != "image":
        raise InputError(
            say("form.no_registry", text=f"{text!r:.80}"),
            why=say("form.no_registry_why"),
            next_step=say("form.no_registry_next"),
        )
    return name_registry(reference.host)


def find_pin(image: str, answer: ImageAnswer | None) -> str | None:
    """The digest that a job is pinned to for its registry's answer; None where the image names its content itself."""
    question = find_question(image)
    if question is None or question.digest is not None or not isinstance(answer, Resolved):
        return None
    return answer.digest


def choose_image(image: str, admitted: str | None, ran: str | None, *, is_asked: bool) -> str:
    """The reference that an attempt launches: the one place that pins an image to its content.

    What admission learnt of the registry (`admitted`) comes first; else what the job's first attempt ran (`ran`, its
    digest at the image's own registry). Where registries are not asked for such a name (`is_asked`), it belongs to the
    machines, and so does what it means there: then, and for what names its content itself, it stays as it was written.
    """
    question = find_question(image)
    if question is None or question.digest is not None:
        return image
    digest = admitted or (ran if is_asked else None)
    if digest is None or not is_digest(digest):
        return image
    reference = parse_image_reference(image)
    name = reference.repository if reference.host is None else f"{reference.host}/{reference.repository}"
    return f"{name}@{digest}"


def _build_question(reference: ImageReference) -> ImageQuestion:
    registry, repository = reference.home
    return ImageQuestion(registry, repository, reference.digest or reference.tag or DEFAULT_TAG)

"""What admission makes of a registry's answers."""

from dataclasses import replace

import pytest

from server.tests.admission.test_gates import ONE_NODE, RECIPE, decide, fleet, node, spec
from starforge.contract.jobspec import JobSpec
from starforge.said.sentence import say
from starforge_console.admission.images import parse_patterns
from starforge_console.domain.images import (
    Denied,
    ImageAnswer,
    NoSuchTag,
    NotAnswered,
    Resolved,
    choose_image,
    find_pin,
)

DIGEST, OTHER = ("sha256:" + one * 64 for one in "12")
IMAGE = "registry.test/train:v3"


def train(image: str = IMAGE) -> JobSpec:
    return spec(framework={"kind": RECIPE.framework, "image": image})


def test_an_image_that_its_registry_has_passes() -> None:
    assert decide(train(), image=Resolved(DIGEST), image_unanswered="refuse") == {}


def test_an_image_that_its_registry_does_not_have_is_refused() -> None:
    for policy in ("warn", "refuse"):
        said = decide(train(), image=NoSuchTag("404 MANIFEST_UNKNOWN"), image_unanswered=policy)
        assert said == {"image": ["image_not_found"]}


@pytest.mark.parametrize("answer", [Denied("403 DENIED"), Denied("403 DENIED", had_login=True)])
def test_an_image_that_the_console_may_not_read_is_refused(answer: Denied) -> None:
    for policy in ("warn", "refuse"):
        said = decide(train(), image=answer, image_unanswered=policy)
        assert said == {"image": ["image_denied"]}


def test_an_image_of_which_nobody_can_tell_is_refused_where_that_is_the_policy() -> None:
    said = decide(train(), image=NotAnswered("no answer within 3 s"), image_unanswered="refuse")
    assert said == {"image": ["image_unresolved"]}


def test_an_image_of_which_nobody_can_tell_is_admitted_with_a_warning() -> None:
    (warning,) = decide(train(), image=NotAnswered("no answer within 3 s"))["warned"]
    for words in (IMAGE, "registry.test could not be asked", "no answer within 3 s", "what the tag means by then"):
        assert words in warning


def test_an_image_that_a_fleet_does_not_use_is_warned_of() -> None:
    bare = fleet(node("n1"), name="slurm", capabilities=replace(ONE_NODE, containers=False))
    (warning,) = decide(train(), bare)["warned"]
    assert warning == say("admission.image_unused", fleet="slurm", image=IMAGE)
    assert len(decide(train(), bare, fleet(node("n2")))["warned"]) == 1
    elsewhere = spec(framework={"kind": RECIPE.framework, "image": IMAGE}, placement={"fleet": "local"})
    assert decide(elsewhere, bare, fleet(node("n2"))) == {}


def test_an_image_off_the_list_is_refused_whatever_its_registry_says() -> None:
    said = decide(train(), image=Resolved(DIGEST), images=parse_patterns("ubuntu:*"))
    assert said == {"image": ["image_not_allowed"]}


@pytest.mark.parametrize(
    ("image", "answer", "pin"),
    [
        (IMAGE, Resolved(DIGEST), DIGEST),
        (f"registry.test/train@{DIGEST}", Resolved(DIGEST), None),
        (IMAGE, NotAnswered("?"), None),
        (IMAGE, None, None),
    ],
)
def test_a_job_is_pinned_to_what_its_registry_told_of_a_tag(
    image: str, answer: ImageAnswer | None, pin: str | None
) -> None:
    assert find_pin(image, answer) == pin


@pytest.mark.parametrize(
    ("image", "admitted", "ran", "launched"),
    [
        (IMAGE, DIGEST, None, f"registry.test/train@{DIGEST}"),
        (IMAGE, DIGEST, OTHER, f"registry.test/train@{DIGEST}"),
        (IMAGE, None, OTHER, f"registry.test/train@{OTHER}"),
        (IMAGE, None, None, IMAGE),
        ("python", DIGEST, None, f"python@{DIGEST}"),
        (f"registry.test/train:v3@{OTHER}", DIGEST, DIGEST, f"registry.test/train:v3@{OTHER}"),
        (DIGEST, OTHER, OTHER, DIGEST),
        (IMAGE, "sha256:1", None, IMAGE),
    ],
)
def test_an_attempt_launches_what_the_job_is_pinned_to(
    image: str, admitted: str | None, ran: str | None, launched: str
) -> None:
    assert choose_image(image, admitted, ran, is_asked=True) == launched


def test_a_name_that_belongs_to_the_machines_is_launched_as_it_was_written_whatever_ran() -> None:
    assert choose_image("train:1", None, OTHER, is_asked=False) == "train:1"

"""Gate `image`: a name that engines take, on the list of what may run here, and known to its registry.

A registry that cannot be asked is an answer of its own: refused, or admitted with a warning, as FORGE_IMAGE_RESOLVE
says.
"""

from collections.abc import Iterator
from dataclasses import replace

from starforge.contract.api import RefusalView
from starforge.errors import SpecError
from starforge.said.sentence import say
from starforge_console.admission.gate import Snapshot, Submission, Verdict
from starforge_console.admission.images import find_match, parse_image, suggest_image
from starforge_console.domain.images import (
    Denied,
    ImageQuestion,
    NoSuchTag,
    NotAnswered,
    Resolved,
    find_question,
)


class ImageGate:
    """Asks for an image that FORGE_IMAGE_ALLOW allows and that its registry, where one is asked, lets be read."""

    name = "image"

    def check(self, submission: Submission, snapshot: Snapshot) -> Verdict:
        """Pure: whether the image is a reference at all, a pattern allows it, and its registry has it."""
        text = submission.spec.spec.framework.image
        if not text.strip():
            return Verdict()  # that there is no image is for another gate to say
        try:
            image = parse_image(text)
        except SpecError as error:
            return Verdict(refusals=(self._refuse_malformed(error),))
        pattern = find_match(image, snapshot.images)
        if pattern is None:
            return Verdict(refusals=(self._refuse_unlisted(text, snapshot),))
        verdict = self._check_registry(text, pattern.text, snapshot)
        return replace(verdict, warnings=(*verdict.warnings, *_warn_of_bare(submission, snapshot)))

    def _check_registry(self, text: str, pattern: str, snapshot: Snapshot) -> Verdict:
        question, answer = find_question(text), snapshot.image
        if question is None or answer is None:
            return Verdict(against=pattern, message=text)
        if isinstance(answer, Resolved):
            known = text if question.digest else f"{text} = {answer.digest}"
            return Verdict(against=f"{pattern}; {question.registry}", message=known)
        refusal = self._build_refusal(text, question, answer)
        if isinstance(answer, NotAnswered) and snapshot.image_unanswered == "warn":
            told = {"what": refusal.what, "why": refusal.why}
            warning = (
                say("admission.image_doubted", **told) if question.digest else say("admission.image_moves", **told)
            )
            return Verdict(against=pattern, message=text, warnings=(warning,))
        return Verdict(against=pattern, refusals=(refusal,))

    def _build_refusal(
        self, text: str, question: ImageQuestion, answer: NoSuchTag | Denied | NotAnswered
    ) -> RefusalView:
        registry = question.registry
        login = f"sf admin registry set {registry} --username NAME"
        match answer:
            case NoSuchTag():
                code, what = "image_not_found", say("refusal.image_none", registry=registry, image=text)
                next_step = say("refusal.image_none_next")
            case Denied(had_login=True):
                code, what = "image_denied", say("refusal.image_account", registry=registry, image=text)
                next_step = say("refusal.image_account_next", command=login)
            case Denied():
                code, what = "image_denied", say("refusal.image_denied", registry=registry, image=text)
                next_step = say("refusal.image_denied_next", command=login)
            case NotAnswered():
                code, what = "image_unresolved", say("admission.image_unasked", registry=registry, image=text)
                next_step = say("refusal.image_silent_next")
        return RefusalView(code=code, gate=self.name, what=what, why=answer.why, next_step=next_step)

    def _refuse_unlisted(self, text: str, snapshot: Snapshot) -> RefusalView:
        return RefusalView(
            code="image_not_allowed",
            gate=self.name,
            what=say("refusal.image_unlisted", image=text),
            why=say("refusal.image_unlisted_why"),
            next_step=suggest_image(text, snapshot.images),
        )

    def _refuse_malformed(self, error: SpecError) -> RefusalView:
        return RefusalView(
            code="image_malformed", gate=self.name, what=error.what, why=error.why, next_step=error.next_step
        )


def _warn_of_bare(submission: Submission, snapshot: Snapshot) -> Iterator[str]:
    """What is to be known of the fleets that may run the job and use no image."""
    spec = submission.spec.spec
    for state in snapshot.fleets:
        is_asked = spec.placement.fleet in {None, state.fleet.name}
        if is_asked and state.capabilities is not None and not state.capabilities.containers:
            yield say("admission.image_unused", fleet=state.fleet.name, image=spec.framework.image)

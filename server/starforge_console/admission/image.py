"""Gate `image`: the image has a name that engines take, and is on the list of what may run here."""

from starforge.contract.api import RefusalView
from starforge.errors import SpecError
from starforge_console.admission.gate import Snapshot, Submission, Verdict
from starforge_console.admission.images import find_match, parse_image, suggest_image


class ImageGate:
    """Asks for an image that FORGE_IMAGE_ALLOW allows."""

    name = "image"

    def check(self, submission: Submission, snapshot: Snapshot) -> Verdict:
        """Pure: whether the image is a reference at all, and whether a pattern allows it."""
        text = submission.spec.spec.framework.image
        if not text.strip():
            return Verdict()  # that there is no image is for another gate to say
        try:
            image = parse_image(text)
        except SpecError as error:
            return Verdict(refusals=(self._refuse_malformed(error),))
        pattern = find_match(image, snapshot.images)
        if pattern is not None:
            return Verdict(against=pattern.text, message=text)
        refusal = RefusalView(
            code="image_not_allowed",
            gate=self.name,
            what=f"the image {text} is not allowed here",
            why="no pattern of the allow-list matches it",
            next_step=suggest_image(text, snapshot.images),
        )
        return Verdict(refusals=(refusal,))

    def _refuse_malformed(self, error: SpecError) -> RefusalView:
        return RefusalView(
            code="image_malformed", gate=self.name, what=error.what, why=error.why, next_step=error.next_step
        )

"""Gate `image`: the image is on the list of what may run here."""

from starforge.contract.api import RefusalView
from starforge_console.admission.gate import Snapshot, Submission, Verdict
from starforge_console.admission.images import find_match, parse_image, suggest_image


class ImageGate:
    """Asks for an image that FORGE_IMAGE_ALLOW allows."""

    name = "image"

    def check(self, submission: Submission, snapshot: Snapshot) -> Verdict:
        """Pure: whether a pattern allows the image."""
        text = submission.spec.spec.framework.image
        pattern = find_match(parse_image(text), snapshot.images)
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

"""What admission says of a submission that it takes."""

from typing import Final

ADMISSION: Final = {
    "admission.no_limit": "no limit",
    "admission.limit_unasked": "no fleet requires one",
    "admission.limit": "at most {s} s",
    "admission.unlimited": "none is set: it is not placed in {fleets}",
    "admission.holds": "{holder} holds {gpus}",
    "admission.waits": "it waits in the queue: {why}",
    "admission.waits_closed": "it waits in the queue for its time windows ({windows}): it may start {at}",
    "admission.none_binds": "none binds it",
    "admission.open": "open",
    "admission.never_opens": (
        "it never starts: the windows of {windows} are not open together for longer than the {s} s that its end may"
        " take; ask an administrator for other hours"
    ),
    "admission.fits": "fits {fleets}",
    "admission.fleet": "fleet {fleet}: {why}",
    "admission.no_backend": "no backend of kind {kind} is served yet",
    "admission.secret": "1 secret: {names}",
    "admission.secrets": "{n} secrets: {names}",
    "admission.no_workspace": "the workspace {digest} is not here yet: it is to be uploaded before the job",
    "admission.no_commit": "the workspace has no commit: only its digest says what ran",
    "admission.credentials": "the address of the remote came with credentials, or with a query: they are not kept",
    "admission.dirty": "the tree has changes that no commit holds",
    "admission.dirty_again": "the tree has changes that no commit holds: allowed for {job}, and again",
    "admission.no_difference": (
        "the difference from the commit did not come along: the packed workspace alone shows the changes"
    ),
    "admission.image_unasked": "{registry} could not be asked for {image}",
    "admission.image_moves": "{what} ({why}): each attempt runs what the tag means by then",
    "admission.image_doubted": "{what} ({why}): it may not exist",
    "admission.image_unused": (
        "fleet {fleet} runs jobs without a container: {image} is not used there, and the job finds what its machines"
        " have"
    ),
    "admission.hub_later": "{what} ({why}): it is fetched once that can be asked",
}
"""By code."""

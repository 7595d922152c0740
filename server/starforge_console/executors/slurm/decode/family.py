"""What a family of API versions must be able to do, and what is read alike in all of them."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from starforge.said.sentence import say
from starforge_console.executors.slurm.native import (
    Complaint,
    NativeJob,
    NativeNode,
    NativePartition,
    Submitted,
)

Document = Mapping[str, Any]


class Unreadable(ValueError):
    """A reply that is not of its version's form; `why` says it as people read it."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Family(Protocol):
    """Reads the replies of some versions, and writes what they take."""

    def read_job(self, document: Document) -> NativeJob:
        """One entry of `jobs`."""

    def read_node(self, document: Document) -> NativeNode:
        """One entry of `nodes`."""

    def read_partition(self, document: Document) -> NativePartition:
        """One entry of `partitions`."""

    def write_submission(self, components: "Sequence[Document]", script: str) -> Document:
        """The body that submits `script` with these components, each in the terms of `submission.build_component`."""


def read_list(document: Any, name: str) -> list[Document]:  # noqa: ANN401 - parsed JSON may be anything
    """The list `name` of a reply. Raises Unreadable where there is none."""
    found = document.get(name) if isinstance(document, Mapping) else None
    if not isinstance(found, list) or not all(isinstance(one, Mapping) for one in found):
        raise Unreadable(say("slurm.no_list", name=repr(name)))
    return found


def read_complaints(document: Any) -> tuple[Complaint, ...]:  # noqa: ANN401 - the same
    """The errors of a reply, under either of the names that versions have for them."""
    listed = document.get("errors") if isinstance(document, Mapping) else None
    complaints = listed if isinstance(listed, list) else [listed or None]
    return tuple(_read_complaint(one) for one in complaints if one is not None)


def read_submitted(document: Any) -> Submitted:  # noqa: ANN401 - the same
    """What a submission's reply says."""
    job = document.get("job_id") if isinstance(document, Mapping) else None
    return Submitted(job_id=job if isinstance(job, int) and job > 0 else None, complaints=read_complaints(document))


def read_text(document: Document, name: str) -> str:
    """A text; empty where it is null or left out."""
    value = document.get(name)
    return value if isinstance(value, str) else ""


def read_reason(document: Document) -> str:
    """Slurm's word for why; it says "None" for none."""
    reason = read_text(document, "state_reason")
    return "" if reason == "None" else reason


def read_words(document: Document, name: str) -> tuple[str, ...]:
    """A list of words, or one alone; none where it is null or left out."""
    value = document.get(name)
    words = value if isinstance(value, list) else [value]
    return tuple(str(word) for word in words if word)


def _read_complaint(error: Any) -> Complaint:  # noqa: ANN401 - the same
    if not isinstance(error, Mapping):
        return Complaint(number=0, text=str(error))
    return Complaint(number=_read_number(error), text=str(error.get("error") or error.get("description") or ""))


def _read_number(error: Document) -> int:
    for name in ("error_number", "error_code"):
        number = error.get(name)
        if isinstance(number, int) and number:
            return number
    return 0

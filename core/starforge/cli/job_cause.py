"""The part of `sf job show` that says why the newest attempt failed."""

from collections.abc import Iterator

from starforge.client.console import Console
from starforge.contract.api import JobView
from starforge.contract.diagnosis import DiagnosisView
from starforge.contract.states import JobState
from starforge.errors import NotFound

_TOLD_OF = frozenset({JobState.FAILED.value, JobState.SUCCEEDED.value})
_OPEN = frozenset({"unknown", "stopped"})


def find_cause(console: Console, job: JobView) -> DiagnosisView | None:
    """Why the job's newest attempt failed; None while that is not known, and from a console that does not tell."""
    if job.state not in _TOLD_OF:
        return None
    try:
        return console.diagnosis(job.id)
    except NotFound:
        return None


def list_cause(console: Console, job: JobView) -> Iterator[tuple[str, str]]:
    """The same as label and text; nothing where no cause is named."""
    found = find_cause(console, job)
    if found is None or found.category in _OPEN:
        return
    yield "diagnosis", f"{found.summary} ({found.category}, {found.confidence})"
    if found.line is not None:
        yield "", f"line {found.line}: {found.root_cause_line}"
    yield "", found.advice

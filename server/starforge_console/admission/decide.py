"""The decision on a submission: every gate is asked, and all that stands against it is said at once. Pure."""

from collections.abc import Sequence

from starforge.contract.api import AdmissionRecord, CheckView
from starforge.contract.canonical import digest_json
from starforge.contract.ids import Digest, JobId
from starforge.said.sentence import say_list
from starforge_console.admission.gate import Gate, Snapshot, Submission, Verdict
from starforge_console.admission.gates import GATES


def decide_admission(
    submission: Submission, snapshot: Snapshot, spec_digest: Digest, now: float, gates: Sequence[Gate] = GATES
) -> AdmissionRecord:
    """What every gate says; admitted when `refusals` is empty. No job and no digest yet: `seal_record` adds both."""
    verdicts = [(gate.name, gate.check(submission, snapshot)) for gate in gates]
    return AdmissionRecord(
        job=None,
        spec_digest=spec_digest,
        decided_at=now,
        checks=tuple(_build_check(name, verdict) for name, verdict in verdicts),
        warnings=tuple(warning for _, verdict in verdicts for warning in verdict.warnings),
        refusals=tuple(refusal for _, verdict in verdicts for refusal in verdict.refusals),
    )


def seal_record(record: AdmissionRecord, job: JobId | None) -> AdmissionRecord:
    """The record with the job it admitted and its own digest."""
    named = record.model_copy(update={"job": job, "digest": None})
    digest = digest_json(named.model_dump(mode="json", exclude={"digest"}))
    return named.model_copy(update={"digest": digest})


def _build_check(name: str, verdict: Verdict) -> CheckView:
    if verdict.refusals:
        outcome, said = "refused", [refusal.what for refusal in verdict.refusals]
    elif verdict.warnings:
        outcome, said = "warned", list(verdict.warnings)
    else:
        outcome, said = "passed", [verdict.message] if verdict.message else []
    return CheckView.model_validate(
        {"gate": name, "outcome": outcome, "against": verdict.against, "message": _join(said)}
    )


def _join(said: Sequence[str]) -> str:
    return said[0] if len(said) == 1 else say_list("list.semicolon", said)

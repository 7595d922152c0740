"""Why attempts failed: what is known of an attempt's end, and what was found out of it."""

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from starforge.contract.ids import AttemptId, JobId
from starforge.contract.states import JobState
from starforge.said.sentence import read_said, say
from starforge_console.ledger.kept_tables import diagnoses
from starforge_console.ledger.notes import write_note
from starforge_console.ledger.tables import attempts, jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnding:
    """An attempt as a diagnosis needs it. `reason` is None while it has not ended."""

    id: AttemptId
    job: JobId
    number: int
    reason: str | None
    exit_code: int | None
    evidence: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptDiagnosis:
    """A diagnosis as it was found at `at` (Unix seconds) by rules of that version. `answer` is its JSON."""

    rules_version: int
    at: float
    answer: dict[str, Any]


def find_ending(connection: Connection, attempt: AttemptId) -> AttemptEnding | None:
    """How the attempt ended; None where there is no such attempt."""
    row = connection.execute(select(attempts).where(attempts.c.id == attempt)).first()
    if row is None:
        return None
    return AttemptEnding(
        id=AttemptId(row.id),
        job=JobId(row.job_id),
        number=row.number,
        reason=row.reason,
        exit_code=row.exit_code,
        evidence=json.loads(row.evidence) if row.evidence else {},
    )


def find_diagnosis(connection: Connection, attempt: str) -> KeptDiagnosis | None:
    """What was found out of why the attempt failed; None where nobody has looked."""
    row = connection.execute(select(diagnoses).where(diagnoses.c.attempt == attempt)).first()
    if row is None:
        return None
    return KeptDiagnosis(rules_version=row.rules_version, at=row.at, answer=json.loads(row.answer))


def keep_diagnosis(connection: Connection, attempt: AttemptId, found: KeptDiagnosis) -> None:
    """Keep what was found, in the place of what was found before. An attempt that was deleted meanwhile stays so."""
    if connection.execute(select(attempts.c.id).where(attempts.c.id == attempt)).first() is None:
        return
    values = {"rules_version": found.rules_version, "at": found.at, "answer": json.dumps(found.answer)}
    connection.execute(delete(diagnoses).where(diagnoses.c.attempt == attempt))
    connection.execute(insert(diagnoses).values(attempt=attempt, **values))


def note_diagnosis(connection: Connection, ending: AttemptEnding, summary: str) -> None:
    """Let the note of a job that failed by this attempt say why. Repeated, it says it once."""
    failed = (jobs.c.id == ending.job) & (jobs.c.attempt_id == ending.id) & (jobs.c.state == JobState.FAILED.value)
    row = connection.execute(select(jobs.c.note, jobs.c.note_said).where(failed)).first()
    if row is None or summary in row.note:
        return
    said = read_said(row.note, row.note_said) if not row.note.endswith(".") else row.note.removesuffix(".")
    note = say("exit.diagnosed", note=said, cause=summary) if said else summary
    connection.execute(update(jobs).where(failed).values(write_note(note)))

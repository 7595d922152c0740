"""Identifiers: what a job, an attempt and an install are called, and how the names of one follow from another."""

import re
import secrets
from typing import Final, NewType

from starforge.errors import SpecError

JobId = NewType("JobId", str)
"""`j` and nine lower-case base32 characters (RFC 4648), for instance `j2k7abcdef`. A run is a job."""

AttemptId = NewType("AttemptId", str)
"""`<job>-<n>-<6 hex>`: attempt n of the job; the random part keeps an id that was never stored from coming again."""

SweepId = NewType("SweepId", str)
"""`sw` and nine characters as those of a job's id."""

Digest = NewType("Digest", str)
"""`sha256:` and 64 lower-case hexadecimal digits."""

_BASE32: Final = "abcdefghijklmnopqrstuvwxyz234567"
_JOB: Final = re.compile(r"j[a-z2-7]{9}")
_SWEEP: Final = re.compile(r"sw[a-z2-7]{9}")
_ATTEMPT: Final = re.compile(r"(j[a-z2-7]{9})-([1-9][0-9]{0,5})-([0-9a-f]{6})")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


def new_job_id() -> JobId:
    """A job id that nobody has seen before (45 random bits; the ledger refuses a repeat)."""
    return JobId("j" + _draw_characters())


def new_job_ids(count: int) -> list[JobId]:
    """Ids of `count` jobs submitted at one moment, ascending: whoever goes by moment and id keeps their order."""
    return sorted(new_job_id() for _ in range(count))


def new_sweep_id() -> SweepId:
    """A sweep's id that nobody has seen before, as that of a job."""
    return SweepId("sw" + _draw_characters())


def new_attempt_id(job: JobId, number: int) -> AttemptId:
    """The id of attempt `number` (counted from 1) of `job`."""
    return AttemptId(f"{job}-{number}-{secrets.token_hex(3)}")


def is_job_id(text: str) -> bool:
    """Whether `text` has the form of a job's id."""
    return _JOB.fullmatch(text) is not None


def parse_attempt_id(text: str) -> AttemptId:
    """`text` as an attempt id, or SpecError."""
    if not _ATTEMPT.fullmatch(text):
        raise SpecError(
            f"{text!r} is no attempt id",
            why="an attempt id is <job>-<number>-<six hexadecimal digits>",
            next_step="name a job and its attempt's number instead",
        )
    return AttemptId(text)


def is_sweep_id(text: str) -> bool:
    """Whether `text` has the form of a sweep's id."""
    return _SWEEP.fullmatch(text) is not None


def is_digest(text: str) -> bool:
    """Whether `text` has the form of a digest."""
    return _DIGEST.fullmatch(text) is not None


def parse_digest(text: str) -> Digest:
    """`text` as a digest, or SpecError."""
    if not is_digest(text):
        raise SpecError(
            f"{text!r} is no digest",
            why="a digest is 'sha256:' and 64 lower-case hexadecimal digits",
            next_step="copy the whole digest",
        )
    return Digest(text)


def job_of(attempt: AttemptId) -> JobId:
    """The job that `attempt` belongs to."""
    return JobId(attempt.split("-", 1)[0])


def number_of(attempt: AttemptId) -> int:
    """Which attempt of its job this is, counted from 1."""
    return int(attempt.split("-")[1])


def _draw_characters() -> str:
    bits = secrets.randbits(45)  # asked of the kernel once, not once a character
    return "".join(_BASE32[bits >> shift & 31] for shift in range(0, 45, 5))

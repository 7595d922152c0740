"""What may go of what ended jobs left, and why. Pure: facts and the time come in, what may go comes out.

Nothing goes of a job that runs or may go on by itself, nor of one whose checkpoints another job starts from. Of any
other ended job stays whatever a later attempt would read: its newest committed checkpoints, its outputs, its workspace.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from starforge.contract.states import JobState, Reason, has_ended_for_good
from starforge.wording import count_of, describe_duration


class Kind(StrEnum):
    """What can go."""

    CONTAINER = "container"
    WORK = "work"
    LOG = "log"
    CHECKPOINT = "checkpoint"
    BLOB = "blob"
    UPLOAD = "upload"
    MODEL = "model"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How long things stay (seconds), and how many committed checkpoints of a job."""

    container_s: float = 3600.0
    work_s: float = 7 * 86_400.0
    log_s: float = 90 * 86_400.0
    checkpoint_s: float = 7 * 86_400.0
    checkpoints_kept: int = 3
    blob_s: float = 14 * 86_400.0
    upload_s: float = 86_400.0

    @property
    def shortest_s(self) -> float:
        """Of a job that ended later than this nothing can go yet."""
        return min(self.container_s, self.work_s, self.log_s, self.checkpoint_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFacts:
    """A checkpoint on the storage.

    `path` is relative to the attempt's folder of checkpoints, "" for that folder itself; `value` is the primary metric
    at its step, None where that is not known.
    """

    path: str
    step: int
    committed: bool
    value: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFacts:
    """An attempt and what of it is still here. `is_read`: its spool was read to the end; `is_clean`: no container."""

    id: str
    number: int
    is_read: bool
    is_clean: bool
    has_work: bool = False
    has_log: bool = False
    checkpoints: tuple[CheckpointFacts, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """A job as retention sees it. `is_parent`: another job starts from one of its checkpoints."""

    id: str
    state: JobState
    reason: str
    retry_at: float | None
    ended_at: float | None
    is_parent: bool
    attempts: tuple[AttemptFacts, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """A file that nothing but its name describes: a blob or what is left of an upload. `used_at` is its newest use."""

    name: str
    bytes: int
    used_at: float
    is_referenced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """One thing that may go. `name` says which of its kind: a checkpoint's path, a file's name; `bytes` where known."""

    kind: Kind
    why: str
    job: str = ""
    attempt: str = ""
    number: int = 0
    name: str = ""
    bytes: int | None = None


Better = Literal["lower", "higher"]
_GOES_ON: Final = frozenset({Reason.WINDOW_CLOSED.value})
"""Reasons of an end after which a job goes on by itself."""


def find_hold(job: JobFacts) -> str:
    """Why nothing at all of the job may go now; empty when something may."""
    if not has_ended_for_good(job.state, job.retry_at) or job.ended_at is None:
        goes_on = "goes on by itself" if job.reason in _GOES_ON else "will be retried"
        return f"it is {job.state}" + (f" and {goes_on}" if job.retry_at is not None else "")
    if job.state is JobState.STOPPED and job.reason in _GOES_ON:
        return "it goes on by itself"
    if job.is_parent:
        return "another job starts from one of its checkpoints"
    return ""


def decide_job(job: JobFacts, terms: Terms, now: float, better: Better | None = None) -> tuple[Removal, ...]:
    """What may go of the job. `better` says which values of its primary metric are; None where that is not known."""
    if find_hold(job) or job.ended_at is None:
        return ()
    ago_s = now - job.ended_at
    found: list[Removal] = []
    for attempt in job.attempts:
        found += _decide_attempt(job, attempt, terms, ago_s)
    if ago_s >= terms.checkpoint_s:
        found += _decide_checkpoints(job, terms, better)
    return tuple(found)


def decide_files(kind: Kind, files: Iterable[FileFacts], kept_s: float, now: float) -> Sequence[Removal]:
    """Which blobs, or leavings of uploads, may go: those that nothing refers to and nobody has used for `kept_s`."""
    what = "no job refers to it" if kind is Kind.BLOB else "its upload was cut"
    return [
        Removal(
            kind=kind,
            name=file.name,
            bytes=file.bytes,
            why=f"{what}, and it was last used {describe_duration(now - file.used_at)} ago",
        )
        for file in files
        if not file.is_referenced and now - file.used_at >= kept_s
    ]


def find_best(checkpoints: Iterable[CheckpointFacts], better: Better | None) -> CheckpointFacts | None:
    """The committed checkpoint with the best value; None where no value is known, or which one is better."""
    known = [one for one in checkpoints if one.committed and one.value is not None]
    if not known or better is None:
        return None
    sign = 1 if better == "higher" else -1
    return max(known, key=lambda one: (sign * (one.value or 0.0), one.step))


def find_values(steps: Iterable[int], curve: Sequence[int], values: Sequence[float | str]) -> Mapping[int, float]:
    """The curve's value at each of `steps`: that of its last point at or before the step.

    Steps before the first point, or at which that point is no finite number, are left out: the training had diverged.
    """
    found: dict[int, float] = {}
    for wanted in steps:
        place = bisect_right(curve, wanted) - 1
        value = values[place] if place >= 0 else None
        if isinstance(value, float | int) and math.isfinite(value):
            found[wanted] = float(value)
    return found


def _decide_attempt(job: JobFacts, attempt: AttemptFacts, terms: Terms, ago_s: float) -> Sequence[Removal]:
    """What may go of one attempt but its checkpoints. Nothing does before its spool was read to the end."""
    if not attempt.is_read:
        return ()
    found: list[Removal] = []

    def add(kind: Kind, why: str) -> None:
        found.append(Removal(kind=kind, job=job.id, attempt=attempt.id, number=attempt.number, why=why))

    ended = f"its job ended {describe_duration(ago_s)} ago"
    if not attempt.is_clean:
        if ago_s >= terms.container_s:
            add(Kind.CONTAINER, f"{ended}, and its log was read to the end")
        return found  # a container may still have the folders mounted
    if attempt.has_work and ago_s >= terms.work_s:
        add(Kind.WORK, ended)
    if attempt.has_log and ago_s >= terms.log_s:
        add(Kind.LOG, ended)
    return found


def _decide_checkpoints(job: JobFacts, terms: Terms, better: Better | None) -> Sequence[Removal]:
    """All but the committed ones that the next attempt would look at first, the best one, and what holds one of these.

    What is not committed goes only where as many newer committed ones are here: a job that never commits loses nothing.
    """
    if not all(attempt.is_read and attempt.is_clean for attempt in job.attempts):
        return ()
    # As a resume looks for one: the newest attempt first, its highest step first.
    ordered = sorted(
        ((attempt, one) for attempt in job.attempts for one in attempt.checkpoints),
        key=lambda pair: (-pair[0].number, -pair[1].step, pair[1].path),
    )
    committed = [pair for pair in ordered if pair[1].committed]
    kept = committed[: max(1, terms.checkpoints_kept)]
    if len(committed) < max(1, terms.checkpoints_kept):
        return ()
    best = find_best((one for _, one in committed), better)
    kept_paths = {(attempt.number, one.path) for attempt, one in kept}
    kept_paths |= {(attempt.number, one.path) for attempt, one in committed if one is best}
    found = []
    for attempt, one in ordered:
        is_newer = not one.committed and (attempt.number, one.step) > (kept[-1][0].number, kept[-1][1].step)
        if is_newer or not one.path or _holds_kept(attempt.number, one.path, kept_paths):
            continue
        why = (
            f"{count_of(len(kept), 'newer one')} of the job stay" if len(kept) != 1 else "a newer one of the job stays"
        )
        why = why if one.committed else f"it is not committed, and {why}"
        found.append(
            Removal(kind=Kind.CHECKPOINT, job=job.id, attempt=attempt.id, number=attempt.number, name=one.path, why=why)
        )
    return found


def _holds_kept(number: int, path: str, kept: Iterable[tuple[int, str]]) -> bool:
    """Whether the folder is a kept one, holds one, or lies in one."""
    return any(
        own == number and (held == path or held.startswith(f"{path}/") or path.startswith(f"{held}/") or not held)
        for own, held in kept
    )

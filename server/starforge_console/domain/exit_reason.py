"""Why an attempt ended: a pure rule over what engine, runner and console know of it.

Each rule was seen on a real engine (Docker 20.10 and 26.1): a restarted engine TERMs its containers, and a job that
traps TERM exits 0; an exit that the engine lost is 255 with a finish not before the engine's own start; the OOM flag is
also set when only a child died.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from starforge.contract.capsule import (
    EXIT_CAPSULE_CHANGED,
    EXIT_NO_PYTHON,
    EXIT_REQUIREMENTS,
    EXIT_UNRECORDED,
    ExitRecord,
)
from starforge.contract.observation import EndCause, Exit
from starforge.contract.states import FREE_OF_CHARGE, DesiredState, Reason
from starforge.said.sentence import say
from starforge_console.domain.wishes import confirmed_end

SIGKILL_CODE: Final = 137
SIGTERM_CODE: Final = 143
LOST_CODE: Final = 255

_SIGNALS: Final = {SIGKILL_CODE: say("exit.killed"), SIGTERM_CODE: say("exit.ended")}
_BEFORE_START: Final = {
    EXIT_CAPSULE_CHANGED: say("exit.capsule_changed"),
    EXIT_NO_PYTHON: say("exit.no_python"),
    EXIT_REQUIREMENTS: say("exit.requirements"),
}


class Category(StrEnum):
    """On whose side the reason lies."""

    NONE = "none"
    USER_ERROR = "user_error"
    OUT_OF_MEMORY = "out_of_memory"
    INFRASTRUCTURE = "infrastructure"
    STOPPED = "stopped"
    UNKNOWN = "unknown"


class Confidence(StrEnum):
    """How sure the rule is."""

    SURE = "sure"
    LIKELY = "likely"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitEvidence:
    """What is known of an ended attempt. `engine` is None when only the runner's record is left.

    `wished_for` is the reason for which the platform wished its end; None where a user did.
    """

    engine: Exit | None
    record: ExitRecord | None
    desired: DesiredState
    stop_sent: bool
    wished_for: Reason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitReason:
    """The answer: what the ledger keeps, the page explains and retry decides on."""

    reason: Reason
    category: Category
    summary: str
    confidence: Confidence = Confidence.SURE
    code: int | None = None
    facts: dict[str, str | int | float | bool | None] = field(default_factory=dict)

    @property
    def costs_retry(self) -> bool:
        """Whether running the job again for this reason is charged to its retries."""
        return self.reason not in FREE_OF_CHARGE


def explain_exit(evidence: ExitEvidence) -> ExitReason:
    """The exit reason of an attempt that has ended."""
    return (
        _after_our_wish(evidence)
        or _ended_at_the_limit(evidence)
        or _by_the_backend(evidence)
        or _lost_exit(evidence)
        or _zero(evidence)
        or _port_taken(evidence)
        or _before_the_start(evidence)
        or _by_the_limit(evidence)
        or _out_of_memory(evidence)
        or _unwished_end(evidence)
        or _nonzero(evidence)
    )


def _after_our_wish(evidence: ExitEvidence) -> ExitReason | None:
    if evidence.desired is DesiredState.RUN:
        return None
    if evidence.record is None and not evidence.stop_sent:
        return None
    if evidence.record is not None and _ended_by_itself(evidence, evidence.record):
        return None
    reason = confirmed_end(evidence.desired, evidence.wished_for)
    return _reason(evidence, reason, Category.STOPPED, say("exit.as_asked"))


def _ended_by_itself(evidence: ExitEvidence, record: ExitRecord) -> bool:
    """Whether the wish came too late. One that a user wished to stop for good has only succeeded or is stopped."""
    came_unasked = record.desired == "run" and record.term_received_at is None
    if evidence.desired is DesiredState.STOP and evidence.wished_for is None:
        return came_unasked and record.code == 0
    return came_unasked or (record.code == 0 and record.complete is True)


def _ended_at_the_limit(evidence: ExitEvidence) -> ExitReason | None:
    """A stop that nobody wished was sent because the time limit was over and the runner did not keep it."""
    if evidence.desired is not DesiredState.RUN or not evidence.stop_sent:
        return None
    record = evidence.record
    if record is not None and record.code == 0 and (record.complete or record.term_received_at is None):
        return None
    return _reason(evidence, Reason.MAX_RUNTIME, Category.STOPPED, say("exit.limit_by_backend"))


def _by_the_backend(evidence: ExitEvidence) -> ExitReason | None:
    """What the backend ended it for says more than any code: a job may trap its TERM and exit with 0."""
    match evidence.engine.cause if evidence.engine is not None else None:
        case EndCause.TIME_LIMIT:
            return _reason(evidence, Reason.MAX_RUNTIME, Category.STOPPED, say("exit.limit_by_backend"))
        case EndCause.PREEMPTED:
            return _reason(evidence, Reason.PREEMPTED, Category.INFRASTRUCTURE, say("exit.preempted"))
        case EndCause.NODE_FAILED:
            return _reason(evidence, Reason.INTERRUPTED, Category.INFRASTRUCTURE, say("exit.node_failed"))
        case None:
            return None


def _lost_exit(evidence: ExitEvidence) -> ExitReason | None:
    if not _is_lost(evidence.engine):
        return None
    record = evidence.record
    if record is None:
        return _reason(evidence, Reason.INTERRUPTED, Category.INFRASTRUCTURE, say("exit.lost"))
    if record.code != 0 and record.term_received_at is None:
        return _port_taken(evidence) or _before_the_start(evidence) or _by_the_limit(evidence) or _nonzero(evidence)
    if record.code == 0 and record.complete:
        return _reason(evidence, Reason.EXITED_ZERO, Category.NONE, say("exit.lost_complete"))
    return _reason(evidence, Reason.INTERRUPTED, Category.INFRASTRUCTURE, say("exit.lost_incomplete"))


def _zero(evidence: ExitEvidence) -> ExitReason | None:
    if _engine_code(evidence) != 0:
        return None
    record = evidence.record
    if record is None:
        return _reason(evidence, Reason.INTERRUPTED, Category.INFRASTRUCTURE, say("exit.zero_unrecorded"))
    if record.code != 0:
        return None  # the record may worsen what the engine says, and does
    if record.term_received_at is not None and not record.complete:
        return _reason(evidence, Reason.INTERRUPTED, Category.INFRASTRUCTURE, say("exit.term_incomplete"))
    return _reason(evidence, Reason.EXITED_ZERO, Category.NONE, say("exit.zero"))


def _port_taken(evidence: ExitEvidence) -> ExitReason | None:
    """The machine's fault and not the job's: it is run again, where its ports are free."""
    record = evidence.record
    if record is None or record.reason != "port_taken" or record.started_at is not None:
        return None
    told = record.message or say("exit.port_taken")
    return _reason(evidence, Reason.INTERRUPTED, Category.INFRASTRUCTURE, told)


def _before_the_start(evidence: ExitEvidence) -> ExitReason | None:
    code = _code(evidence)
    if code not in _BEFORE_START or (evidence.record is not None and evidence.record.started_at is not None):
        return None
    told = evidence.record.message if evidence.record is not None else None
    return _reason(evidence, Reason.START_FAILED, Category.USER_ERROR, told or _BEFORE_START[code])


def _by_the_limit(evidence: ExitEvidence) -> ExitReason | None:
    if evidence.record is None or evidence.record.reason != "max_runtime":
        return None
    return _reason(evidence, Reason.MAX_RUNTIME, Category.STOPPED, say("exit.limit"))


def _out_of_memory(evidence: ExitEvidence) -> ExitReason | None:
    killed = _code(evidence) == SIGKILL_CODE
    flag = evidence.engine is not None and evidence.engine.out_of_memory
    counted = bool(evidence.record is not None and evidence.record.memory.get("oom_kill"))
    if not flag and not (counted and killed):
        return None
    return _reason(
        evidence,
        Reason.OUT_OF_MEMORY,
        Category.OUT_OF_MEMORY,
        say("exit.memory") if killed else say("exit.memory_part"),
        Confidence.SURE if killed else Confidence.LIKELY,
    )


def _unwished_end(evidence: ExitEvidence) -> ExitReason | None:
    record, engine = evidence.record, evidence.engine
    if record is not None and record.term_received_at is not None:
        return _reason(evidence, Reason.INTERRUPTED, Category.INFRASTRUCTURE, say("exit.term"))
    if record is None and _code(evidence) in {SIGKILL_CODE, SIGTERM_CODE} and _engine_restarted(engine):
        return _reason(evidence, Reason.INTERRUPTED, Category.INFRASTRUCTURE, say("exit.engine_restarted"))
    return None


def _nonzero(evidence: ExitEvidence) -> ExitReason:
    code = _code(evidence)
    untold = _find_untold(evidence, code)
    if untold:
        return _reason(evidence, Reason.EXITED_NONZERO, Category.UNKNOWN, untold, Confidence.UNKNOWN)
    if evidence.record is None and code == EXIT_UNRECORDED:
        text = say("exit.record_unwritten")
        return _reason(evidence, Reason.EXITED_NONZERO, Category.USER_ERROR, text)
    return _reason(evidence, Reason.EXITED_NONZERO, Category.USER_ERROR, _tell_end(evidence.record, code))


def _tell_end(record: ExitRecord | None, code: int | None) -> str:
    """What the runner says of the end; else the exit code, and the line of the output that tells most."""
    if record is None or record.last_line is None:
        return (record.message if record is not None else None) or say("exit.code", code=str(code))
    return record.message or say("exit.code_line", code=str(code), line=record.last_line)


def _find_untold(evidence: ExitEvidence, code: int | None) -> str:
    """What an exit code leaves open where no record tells more; empty for one that speaks for itself."""
    if evidence.record is not None:
        return ""
    if code in _SIGNALS:
        return _SIGNALS[code]
    if code == LOST_CODE and evidence.engine is not None and evidence.engine.engine_started_at is None:
        return say("exit.untold_255")
    return ""


def _code(evidence: ExitEvidence) -> int | None:
    if evidence.record is not None and (_is_lost(evidence.engine) or evidence.record.code != 0):
        return evidence.record.code
    return _engine_code(evidence)


def _engine_code(evidence: ExitEvidence) -> int | None:
    if evidence.engine is not None:
        return evidence.engine.code
    return evidence.record.code if evidence.record is not None else None  # gone, and it ends as recorded


def _is_lost(engine: Exit | None) -> bool:
    if engine is None:
        return False
    if engine.code is None:
        return True
    if engine.code != LOST_CODE or engine.engine_started_at is None:
        return False
    return engine.finished_at is None or engine.finished_at >= engine.engine_started_at


def _engine_restarted(engine: Exit | None) -> bool:
    if engine is None or engine.engine_started_at is None or engine.started_at is None:
        return False
    return engine.engine_started_at > engine.started_at


def _reason(
    evidence: ExitEvidence,
    reason: Reason,
    category: Category,
    summary: str,
    confidence: Confidence = Confidence.SURE,
) -> ExitReason:
    engine, record = evidence.engine, evidence.record
    facts: dict[str, str | int | float | bool | None] = {
        "engine_code": engine.code if engine else None,
        "engine_oom_flag": engine.out_of_memory if engine else None,
        "engine_error": (engine.error or None) if engine else None,
        "record_code": record.code if record else None,
        "record_signal": record.signal if record else None,
        "record_oom_kills": record.memory.get("oom_kill") if record else None,
        "term_received_at": record.term_received_at if record else None,
        "complete": record.complete if record else None,
        "last_line": record.last_line if record else None,
        "desired": evidence.desired.value,
    }
    return ExitReason(
        reason=reason,
        category=category,
        summary=summary,
        confidence=confidence,
        code=_code(evidence),
        facts={name: value for name, value in facts.items() if value is not None},
    )

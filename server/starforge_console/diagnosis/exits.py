"""Why an attempt ended, or never began, from evidence alone: what the scheduler would decide, told to a person. Pure.

Exits are explained by `domain.exit_reason`, replies of engines and registries by `containers.failures`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from starforge.containers.failures import explain_reply, tells_of_pull
from starforge.containers.replies import Fault, Reply
from starforge.contract.states import FREE_OF_CHARGE, DesiredState, Reason
from starforge_console.diagnosis.evidence import Evidence
from starforge_console.domain.exit_reason import Category, Confidence, ExitEvidence, ExitReason, explain_exit
from starforge_console.domain.retry import RetryBudget, decide_retry

_REPLIES: Final[Mapping[Fault, tuple[Category, Reason | None]]] = {
    Fault.USER_ERROR: (Category.USER_ERROR, Reason.START_FAILED),
    Fault.USER_ERROR_OR_PLACEMENT: (Category.USER_ERROR, Reason.START_FAILED),
    Fault.NODE_FAULT: (Category.INFRASTRUCTURE, Reason.NODE_FAULT),
    Fault.RETRYABLE: (Category.INFRASTRUCTURE, Reason.NODE_FAULT),
    # It says nothing of how the attempt fares: that is still to be seen.
    Fault.DUPLICATE: (Category.INFRASTRUCTURE, None),
    Fault.UNKNOWN: (Category.UNKNOWN, None),
}
_FAULTS: Final[Mapping[Category, str]] = {
    Category.NONE: "none",
    Category.USER_ERROR: Fault.USER_ERROR.value,
    Category.OUT_OF_MEMORY: Fault.USER_ERROR.value,
    Category.INFRASTRUCTURE: Fault.RETRYABLE.value,
    Category.STOPPED: "stopped",
    Category.UNKNOWN: Fault.UNKNOWN.value,
}
_ADVICE: Final[Mapping[Category, str]] = {
    Category.USER_ERROR: "read the end of the job's log",
    Category.OUT_OF_MEMORY: "ask for more memory, or let the job use less of it",
    Category.INFRASTRUCTURE: "nothing is wrong with the job: it runs again, from its last checkpoint",
    Category.UNKNOWN: "see the machine's kernel log, and whether somebody stopped it, before calling it memory",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedExit:
    """The answer. `retryable` and `costs_retry` are None where nothing is decided; `cause` refines the category."""

    category: Category
    reason: Reason | None
    fault: str
    summary: str
    advice: str
    confidence: Confidence
    cause: str | None = None
    retryable: bool | None = None
    costs_retry: bool | None = None
    evidence: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The answer as JSON with a stable schema."""
        return {
            "category": self.category.value,
            "reason": self.reason.value if self.reason else None,
            "fault": self.fault,
            "cause": self.cause,
            "summary": self.summary,
            "advice": self.advice,
            "evidence": self.evidence,
            "retryable": self.retryable,
            "costs_retry": self.costs_retry,
            "confidence": self.confidence.value,
        }


def explain(evidence: Evidence) -> ExplainedExit:
    """What `evidence` says; that it says too little is an answer as well."""
    if evidence.engine is None and evidence.record is None and evidence.words:
        return _explain_words(evidence)
    if evidence.state:
        return ExplainedExit(
            category=Category.NONE,
            reason=None,
            fault="none",
            summary=f"it has not ended: the engine calls it {evidence.state}",
            advice="",
            confidence=Confidence.SURE,
            evidence={"state": evidence.state},
        )
    if _is_zero_alone(evidence):
        return ExplainedExit(
            category=Category.NONE,
            reason=None,
            fault="none",
            summary="exit code 0; whether the job was complete only its exit record tells",
            advice="give the runner's exit.json too, as the member record",
            confidence=Confidence.LIKELY,
            evidence={"engine_code": 0, "engine_oom_flag": bool(evidence.engine and evidence.engine.out_of_memory)},
        )
    return _explain_exit(evidence)


def _is_zero_alone(evidence: Evidence) -> bool:
    """Exit code 0 while nobody looked for a record: a success needs one, and its absence would mean an interruption."""
    if evidence.record_given or evidence.stop_sent or evidence.desired is not DesiredState.RUN:
        return False
    return evidence.engine is not None and evidence.engine.code == 0


def _explain_words(evidence: Evidence) -> ExplainedExit:
    reply = explain_reply(evidence.words)
    category, reason = _REPLIES[reply.fault]
    if reason is Reason.START_FAILED and tells_of_pull(evidence.words):
        reason = Reason.PULL_DENIED
    facts: dict[str, Any] = {"message": evidence.words[:2000]}
    if evidence.exit_code is not None:
        facts["exit_code"] = evidence.exit_code
    return ExplainedExit(
        category=category,
        reason=reason,
        fault=reply.fault.value,
        summary=reply.meaning,
        advice=reply.advice,
        confidence=Confidence.UNKNOWN if reply.fault is Fault.UNKNOWN else Confidence.SURE,
        retryable=_is_retryable(reason, reply),
        costs_retry=None if reason is None else reason not in FREE_OF_CHARGE,
        evidence=facts,
    )


def _explain_exit(evidence: Evidence) -> ExplainedExit:
    told = explain_exit(
        ExitEvidence(
            engine=evidence.engine, record=evidence.record, desired=evidence.desired, stop_sent=evidence.stop_sent
        )
    )
    return ExplainedExit(
        category=told.category,
        reason=told.reason,
        fault=_FAULTS[told.category],
        cause="host_oom" if told.category is Category.OUT_OF_MEMORY else None,
        summary=told.summary,
        advice=_ADVICE.get(told.category, ""),
        confidence=told.confidence,
        retryable=_may_run_again(told.reason),
        costs_retry=told.costs_retry,
        evidence=_list_facts(told),
    )


def _list_facts(told: ExitReason) -> dict[str, Any]:
    return {**({} if told.code is None else {"code": told.code}), **told.facts}


def _is_retryable(reason: Reason | None, reply: Reply) -> bool | None:
    if reply.fault is Fault.DUPLICATE:
        return False
    return None if reason is None else _may_run_again(reason)


def _may_run_again(reason: Reason) -> bool:
    """Whether a job that failed so is queued again while its budget lasts."""
    if reason is Reason.EXITED_ZERO:
        return False
    budget = RetryBudget(retries_left=1, free_used=0, attempts=1)
    stopped = {Reason.STOP_CONFIRMED, Reason.PAUSE_CONFIRMED}
    return reason not in stopped and decide_retry(reason, DesiredState.RUN, budget, now=0.0) is not None

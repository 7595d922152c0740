"""What KubeRay's, Ray's and the kubelet's words for an attempt mean here: tables, and a pure rule over all sources.

What the script wrote at its end is believed first: it is there also where the submitter or the head is gone. Ray's own
success alone is none, and a failure is the job's own only where an exit code of it is told.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

from starforge.containers.pull_replies import PULL, UNDECIDED
from starforge.containers.replies import Fault, find_reply
from starforge.contract.observation import EndCause, Exit, Failure, NoSignal, Observation, Phase, Seen
from starforge.said.sentence import say, say_list
from starforge_console.executors.kuberay.folder import Ended, StartMark
from starforge_console.executors.kuberay.manifest import HEAD, SUBMITTER
from starforge_console.executors.kuberay.native import NativePod, NativeRayJob
from starforge_console.executors.kuberay.script import NOT_STARTED_CODE
from starforge_console.executors.kuberay.spread import LOST_NODE_CODE

KILLED_CODE: Final = 137
TERM_CODE: Final = 143


class Means(Enum):
    """What a word says of an attempt."""

    NEW = auto()
    QUEUED = auto()
    STARTS = auto()
    RUNS = auto()
    DONE = auto()
    OWN_FAILURE = auto()
    LOST = auto()
    OVER_TIME = auto()
    NEVER_READY = auto()
    REFUSED = auto()
    FAILED = auto()
    """The reason says of what kind."""


DEPLOYMENTS: Final[Mapping[str, Means]] = {
    "": Means.NEW,
    "Initializing": Means.STARTS,
    "Waiting": Means.STARTS,
    "Suspending": Means.QUEUED,
    "Suspended": Means.QUEUED,
    "Running": Means.RUNS,
    "Retrying": Means.STARTS,
    "Complete": Means.DONE,
    "Failed": Means.FAILED,
    "ValidationFailed": Means.REFUSED,
}
"""By `jobDeploymentStatus`. A word that is not here is shown and changes nothing."""

REASONS: Final[Mapping[str, Means]] = {
    "": Means.LOST,
    "AppFailed": Means.OWN_FAILURE,
    "DeadlineExceeded": Means.OVER_TIME,
    "JobDeploymentStatusTransitionGracePeriodExceeded": Means.LOST,
    "JobStatusCheckTimeoutExceeded": Means.LOST,
    "PreRunningDeadlineExceeded": Means.NEVER_READY,
    "SubmissionFailed": Means.LOST,
    "ValidationFailed": Means.REFUSED,
}
"""By `reason` of one that is Failed."""

RAY_STATES: Final[Mapping[str, bool]] = {
    "": False,
    "PENDING": False,
    "RUNNING": False,
    "STOPPED": True,
    "SUCCEEDED": True,
    "FAILED": True,
}
"""By `jobStatus`: whether it is one of the end."""

_DENIED: Final = frozenset({"ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"})
"""The kubelet's words for an image that it has tried for in vain and does not get by itself."""
_BROKEN: Final = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_CODE: Final = re.compile(r"exit code:? (\d{1,3})\b")
_OWN_CODES: Final = frozenset({LOST_NODE_CODE, NOT_STARTED_CODE})
_CAUSES: Final[Mapping[Means, EndCause]] = {
    Means.OVER_TIME: EndCause.TIME_LIMIT,
    Means.QUEUED: EndCause.PREEMPTED,
    Means.LOST: EndCause.NODE_FAILED,
}
_MAY_RUN: Final = frozenset({Means.NEW, Means.STARTS, Means.RUNS, Means.QUEUED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that is known of one attempt at one moment.

    Attributes:
        job: None where the API server says that there is none of that name.
        pods: Of the attempt, also those that have ended.
        mark: What began it. It was read after the pods were listed, unless `is_mark_old`.
        is_overdue: It ended so long ago that KubeRay should have seen it.
        denial: The kubelet's words for the image, where it has said more than that it waits.

    """

    job: NativeRayJob | None
    pods: Sequence[NativePod] = ()
    mark: StartMark | None = None
    is_mark_old: bool = True
    ended: Ended | None = None
    is_overdue: bool = False
    denial: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is observed, and whether what is left of it must be taken away for that to become or to stay true."""

    observation: Observation
    deletes: bool = False


def judge(job: NativeRayJob, evidence: Evidence, gpus: tuple[str, ...], at: float) -> Verdict:
    """What `job`, and the rest of the evidence, says of the attempt.

    An end does not say yet that its pods hold nothing any more.
    """
    means, is_over = DEPLOYMENTS.get(job.deployment), RAY_STATES.get(job.status)
    if means is Means.FAILED:
        means = REASONS.get(job.reason)
    if (means is None or is_over is None) and evidence.ended is None:
        words = " ".join(word for word in (job.deployment, job.status, job.reason) if word)
        return Verdict(NoSignal(reason=say("kuberay.other_state", state=words)))
    seen = _see(evidence, gpus, at)
    if evidence.mark is None and evidence.ended is None:
        return _judge_unbegun(job, evidence, means, seen)
    return _judge_begun(job, evidence, means, seen)


def end_missing(evidence: Evidence, at: float) -> Seen | None:
    """The end of an attempt whose RayJob is gone; None where nothing tells of one."""
    if evidence.ended is None:
        return None
    return _end(_see(evidence, (), at), _build_exit(evidence, None))


def end_killed(job: NativeRayJob, at: float) -> Seen:
    """The end of an attempt that was killed since it had not ended in its time."""
    found = Exit(
        code=KILLED_CODE,
        out_of_memory=False,
        started_at=job.began_at,
        finished_at=None,
        engine_started_at=None,
        error=say("kuberay.killed"),
    )
    return Seen(phase=Phase.EXITED, at=at, exit=found, note=found.error)


def end_unbegun(note: str, at: float) -> Seen:
    """The end of an attempt that was taken back before it began."""
    return Seen(phase=Phase.EXITED, at=at, failure=Failure.START_FAILED, note=note)


def list_holding(pods: Sequence[NativePod]) -> list[NativePod]:
    """Those of an attempt's pods that hold, or may come to hold, what it asked for."""
    return [pod for pod in pods if pod.is_living and pod.part != SUBMITTER]


def see_ending(end: Seen, pods: Sequence[NativePod]) -> Seen:
    """What is told of an attempt that has ended as long as pods of it hold what it had."""
    nodes = say_list("list.comma", sorted({pod.node for pod in pods if pod.node}))
    note = say("kuberay.ends", nodes=nodes) if nodes else say("kuberay.ends_nowhere")
    phase = Phase.RUNNING if end.exit is not None else Phase.PREPARING
    return replace(end, phase=phase, exit=None, failure=None, note=note)


def find_denied(pods: Sequence[NativePod]) -> NativePod | None:
    """A pod whose image the kubelet has tried for in vain."""
    return next((pod for pod in list_holding(pods) if pod.waits[0] in _DENIED), None)


def has_begun_anew(evidence: Evidence) -> bool:
    """Whether the script that began the attempt is gone for good: its pod is, or that pod's container ran anew."""
    job, mark = evidence.job, evidence.mark
    heads = [pod for pod in evidence.pods if pod.part == HEAD]
    if mark is None or not mark.pod:
        since = None if job is None else job.began_at
        return since is not None and any(_ran_anew(pod, since) for pod in heads if pod.is_living)
    own = next((pod for pod in heads if pod.uid == mark.pod), None)
    if own is None:
        return evidence.is_mark_old
    return not own.is_living or _ran_anew(own, mark.at)


def _ran_anew(pod: NativePod, since: float) -> bool:
    # Its first run was over before the script could begin, or it would not be the one that runs now.
    return pod.restarts > 0 and (pod.running_since is None or int(pod.running_since) >= int(since))


def _judge_unbegun(job: NativeRayJob, evidence: Evidence, means: Means | None, seen: Seen) -> Verdict:
    """An attempt whose script has not begun, as far as the storage tells."""
    match means:
        case Means.NEW:
            return Verdict(replace(seen, note=say("kuberay.no_operator")))
        case Means.QUEUED:
            return Verdict(replace(seen, is_queued=True, note=say("kuberay.suspended")))
        case Means.STARTS:
            return _judge_pods(evidence, seen)
        case Means.RUNS:
            return _judge_submitted(job, evidence, seen)
        case _:
            return _judge_failed_start(job, evidence, means, seen)


def _judge_submitted(job: NativeRayJob, evidence: Evidence, seen: Seen) -> Verdict:
    if has_begun_anew(evidence):
        return _fail(seen, Failure.NODE_FAULT, say("kuberay.head_restarted"))
    if job.status == "RUNNING":
        return Verdict(replace(seen, phase=Phase.RUNNING, note=_note_running(evidence)))
    return Verdict(replace(seen, note=say("kuberay.submits")))


def _judge_failed_start(job: NativeRayJob, evidence: Evidence, means: Means | None, seen: Seen) -> Verdict:
    if means in {Means.NEVER_READY, Means.OVER_TIME}:
        blamed = _judge_pods(evidence, seen)
        is_image = isinstance(blamed.observation, Seen) and blamed.observation.failure is not None
        return blamed if is_image else _fail(seen, Failure.NO_CAPACITY, _note(job))
    if means is Means.REFUSED:
        return _fail(seen, Failure.START_FAILED, _note(job))
    # The script makes its mark before it does anything: with a code and without one it could not.
    told = say("kuberay.no_folder", why=_note(job)) if _find_code(job) is not None else _note(job)
    return _fail(seen, Failure.NODE_FAULT, told)


def _judge_pods(evidence: Evidence, seen: Seen) -> Verdict:
    """One whose cluster is being made: its pods say how far that is."""
    pods = list_holding(evidence.pods)
    denied = find_denied(pods)
    if denied is not None:
        return _judge_image(denied, evidence.denial or _say_waits(denied), seen)
    unscheduled = next((pod for pod in pods if pod.unscheduled and not pod.node), None)
    if unscheduled is not None:
        note = say("kuberay.unscheduled", pod=unscheduled.name, why=unscheduled.unscheduled)
        return Verdict(replace(seen, is_queued=True, note=note))
    broken = next((pod for pod in pods if pod.waits[0] in _BROKEN), None) or next(
        (pod for pod in pods if pod.waits[0] not in {"", "ContainerCreating", "PodInitializing"}), None
    )
    if broken is not None:
        return Verdict(replace(seen, note=say("kuberay.pod_waits", pod=broken.name, why=_say_waits(broken))))
    return Verdict(replace(seen, note=say("kuberay.starts") if pods else say("kuberay.no_pods")))


def _judge_image(pod: NativePod, words: str, seen: Seen) -> Verdict:
    """One whose image the kubelet has tried for in vain: what may pass by itself is tried again, and only shown."""
    reply = find_reply((*PULL, *UNDECIDED), words)
    match reply.fault if reply is not None else Fault.UNKNOWN:
        case Fault.RETRYABLE:
            return Verdict(replace(seen, note=say("kuberay.pod_waits", pod=pod.name, why=words)))
        case Fault.NODE_FAULT:
            return _fail(seen, Failure.NODE_FAULT, words)
        case _:
            return _fail(seen, Failure.PULL_DENIED, words)


def _judge_begun(job: NativeRayJob, evidence: Evidence, means: Means | None, seen: Seen) -> Verdict:
    if means not in _MAY_RUN:
        return Verdict(_end(seen, _build_exit(evidence, means)), deletes=means is not Means.DONE)
    is_lost = has_begun_anew(evidence)
    if evidence.ended is not None and (means is not Means.RUNS or evidence.is_overdue or is_lost):
        return Verdict(_end(seen, _build_exit(evidence, None)), deletes=True)
    if means is Means.QUEUED:
        return Verdict(_end(seen, _build_exit(evidence, means, say("kuberay.taken_back"))), deletes=True)
    if is_lost:
        return Verdict(_end(seen, _build_exit(evidence, Means.LOST, say("kuberay.head_restarted"))), deletes=True)
    note = say("kuberay.ends_nowhere") if RAY_STATES.get(job.status) else _note_running(evidence)
    return Verdict(replace(seen, phase=Phase.RUNNING, note=note))


def _build_exit(evidence: Evidence, means: Means | None, error: str = "") -> Exit:
    """How it ended: as its script wrote, else as Ray says of its exit code, else it is not known and the platform's."""
    job = evidence.job
    code, cause = _explain_end(evidence, means)
    killed = evidence.ended is not None and evidence.ended.out_of_memory
    return Exit(
        code=code,
        out_of_memory=killed or _is_out_of_memory(evidence),
        started_at=job.began_at if job is not None else None,
        finished_at=job.ended_at if job is not None else None,
        engine_started_at=None,
        error=error or (_note(job) if job is not None else say("kuberay.deleted")),
        cause=cause,
    )


def _explain_end(evidence: Evidence, means: Means | None) -> tuple[int | None, EndCause | None]:
    """The exit code, where one can be told, and what the attempt was ended for, where that was not its own doing."""
    job, ended = evidence.job, evidence.ended
    if ended is not None:
        if ended.code == LOST_NODE_CODE:
            return None, EndCause.NODE_FAILED
        over_time = means is Means.OVER_TIME and ended.code != 0
        return ended.code, EndCause.PREEMPTED if ended.left else EndCause.TIME_LIMIT if over_time else None
    if _is_out_of_memory(evidence):
        return KILLED_CODE, None
    code = _find_code(job) if job is not None else None
    if means is Means.OWN_FAILURE and code and code not in _OWN_CODES:
        return code, None
    if job is not None and job.status == "STOPPED" and means is Means.DONE:
        return TERM_CODE, None
    return None, _CAUSES.get(means or Means.LOST, EndCause.NODE_FAILED)


def _is_out_of_memory(evidence: Evidence) -> bool:
    return any(pod.is_out_of_memory for pod in evidence.pods if pod.part != SUBMITTER)


def _end(seen: Seen, found: Exit) -> Seen:
    return replace(seen, phase=Phase.EXITED, exit=found, note=found.error)


def _fail(seen: Seen, failure: Failure, note: str) -> Verdict:
    return Verdict(replace(seen, phase=Phase.EXITED, failure=failure, note=note), deletes=True)


def _see(evidence: Evidence, gpus: tuple[str, ...], at: float) -> Seen:
    """The frame of what is seen; still preparing, and nothing more is said."""
    heads = [pod for pod in evidence.pods if pod.part == HEAD and pod.node]
    return Seen(phase=Phase.PREPARING, at=at, node=heads[0].node if heads else None, gpus=gpus)


def _find_code(job: NativeRayJob) -> int | None:
    match = _CODE.search(job.message)
    return int(match[1]) if match else None


def _note(job: NativeRayJob) -> str:
    """KubeRay's own words."""
    words = say_list("list.comma", [word for word in (job.deployment, job.status, job.reason) if word])
    if not job.message:
        return say("kuberay.ended", job=job.name, words=words)
    return say("kuberay.ended_why", job=job.name, words=words, why=job.message)


def _note_running(evidence: Evidence) -> str:
    nodes = sorted({pod.node for pod in list_holding(evidence.pods) if pod.node})
    leaving = [pod.name for pod in list_holding(evidence.pods) if pod.is_deleting]
    if leaving:
        return say("kuberay.pod_leaves", pods=say_list("list.comma", leaving))
    job = evidence.job
    return say("kuberay.runs", job=job.name if job is not None else "", nodes=say_list("list.comma", nodes))


def _say_waits(pod: NativePod) -> str:
    reason, words = pod.waits
    return f"{reason}: {words}" if words else reason

"""What Slurm's own words for a job mean here: one table, and a pure rule over a job's components.

A state is believed before an exit code: jobs that ran into their limit, or whose node failed, are told with 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

from starforge.contract.observation import EndCause, Exit, Failure, NoSignal, Observation, Phase, Seen
from starforge.said.sentence import say, say_list
from starforge_console.executors.slurm.decode.notations import parse_gres
from starforge_console.executors.slurm.native import NativeJob
from starforge_console.executors.slurm.script import LIMIT_CODE, NO_FOLDER_CODE, NOT_STARTED_CODE

TERM_CODE: Final = 143


class Means(Enum):
    """What a state says of a job; those further down explain an end better than those above them."""

    WAITS = auto()
    STARTS = auto()
    RUNS = auto()
    ENDS = auto()
    DONE = auto()
    CANCELLED = auto()
    FAILED = auto()
    OVER_TIME = auto()
    PREEMPTED = auto()
    OUT_OF_MEMORY = auto()
    NODE_FAILED = auto()


NATIVE_STATES: Final[Mapping[str, Means]] = {
    "PENDING": Means.WAITS,
    "REQUEUED": Means.WAITS,
    "REQUEUE_FED": Means.WAITS,
    "REQUEUE_HOLD": Means.WAITS,
    "RESV_DEL_HOLD": Means.WAITS,
    "SPECIAL_EXIT": Means.WAITS,
    "CONFIGURING": Means.STARTS,
    "POWER_UP_NODE": Means.STARTS,
    "RUNNING": Means.RUNS,
    "RESIZING": Means.RUNS,
    "SIGNALING": Means.RUNS,
    "STOPPED": Means.RUNS,
    "SUSPENDED": Means.RUNS,
    "COMPLETING": Means.ENDS,
    "STAGE_OUT": Means.ENDS,
    "COMPLETED": Means.DONE,
    "CANCELLED": Means.CANCELLED,
    "REVOKED": Means.CANCELLED,
    "FAILED": Means.FAILED,
    "DEADLINE": Means.OVER_TIME,
    "TIMEOUT": Means.OVER_TIME,
    "PREEMPTED": Means.PREEMPTED,
    "OUT_OF_MEMORY": Means.OUT_OF_MEMORY,
    "BOOT_FAIL": Means.NODE_FAILED,
    "LAUNCH_FAILED": Means.NODE_FAILED,
    "NODE_FAIL": Means.NODE_FAILED,
    "RECONFIG_FAIL": Means.NODE_FAILED,
}
"""Every state and flag that is known, by Slurm's word. A word that is not here is shown and changes nothing."""

_REQUEUED: Final = frozenset({"REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"})
_LIVES: Final = frozenset({Means.WAITS, Means.STARTS, Means.RUNS, Means.ENDS})
_CAUSES: Final[Mapping[Means, EndCause]] = {
    Means.OVER_TIME: EndCause.TIME_LIMIT,
    Means.PREEMPTED: EndCause.PREEMPTED,
    Means.NODE_FAILED: EndCause.NODE_FAILED,
}


_OWN_CODES: Final[Mapping[int, Means]] = {LIMIT_CODE: Means.OVER_TIME, NOT_STARTED_CODE: Means.NODE_FAILED}
"""What the script's own codes say of an attempt that had begun; the second: a controller that crashed forgot that."""


@dataclass(frozen=True, slots=True)
class StartMark:
    """Which job began the attempt, and how often that had been queued again by then."""

    job_id: int
    restarts: int


def observe_job(components: Sequence[NativeJob], mark: StartMark | None, at: float) -> Observation:
    """What a job says of its attempt; `components` are all of one job, the leader first, and `mark` says if it began.

    A job that Slurm queued again after it had begun has ended: its script begins nothing twice.
    """
    leader = components[0]
    if mark is not None and leader.restarts > mark.restarts:
        return replace(_see(components, Phase.EXITED, at, _note(leader)), exit=_build_exit(leader, Means.NODE_FAILED))
    meanings = [_find(component) for component in components]
    known = [meaning for meaning in meanings if meaning is not None]
    if len(known) < len(components):
        return NoSignal(reason=say("slurm.other_state", state=components[meanings.index(None)].state))
    if not _LIVES.isdisjoint(known):
        return _observe_living(components, known, at)
    means, cause = max(zip(known, components, strict=True), key=lambda one: one[0].value)
    if mark is None and means is not Means.DONE:  # the script ends well only if it began, whoever removed its mark
        failure = Failure.START_FAILED if means in {Means.CANCELLED, Means.OVER_TIME} else Failure.NODE_FAULT
        return replace(_see(components, Phase.EXITED, at, _note_unbegun(cause)), failure=failure)
    if means is Means.FAILED:
        means = _OWN_CODES.get(cause.exit_code or 0, means)
    return replace(_see(components, Phase.EXITED, at, _note(cause)), exit=_build_exit(cause, means))


def is_living(components: Sequence[NativeJob]) -> bool:
    """Whether any component may still hold or start something; so may one whose state is not known."""
    return any(_find(component) in {*_LIVES, None} for component in components)


def has_started(components: Sequence[NativeJob]) -> bool:
    """Whether Slurm has given the job its nodes: from then on its script may run."""
    return not all(_find(component) is Means.WAITS for component in components)


def name_gpus(job: NativeJob) -> tuple[tuple[str, int], ...]:
    """The GPUs that a component holds: node, and place among that node's GPUs."""
    return tuple(
        (node, index)
        for node, text in zip(job.nodes, job.gres, strict=False)
        for gres in parse_gres(text)
        if gres.name == "gpu"
        for index in gres.indices or ()
    )


def name_gpu(node: str, index: int) -> str:
    """What stands for a GPU's UUID: Slurm tells none."""
    return f"{node}/gpu/{index}"


def _observe_living(components: Sequence[NativeJob], meanings: Sequence[Means], at: float) -> Seen:
    leader = components[0]
    if all(meaning is Means.WAITS for meaning in meanings):
        return replace(_see(components, Phase.PREPARING, at, _note_waiting(leader)), is_queued=True)
    if any(meaning in {Means.WAITS, Means.STARTS} for meaning in meanings):
        return _see(components, Phase.PREPARING, at, say("slurm.starts"))
    if leader.state in {"SUSPENDED", "STOPPED"}:
        return _see(components, Phase.RUNNING, at, say("slurm.suspended"))
    if all(meaning is not Means.RUNS for meaning in meanings):
        return _see(components, Phase.RUNNING, at, say("slurm.ends"))
    nodes = say_list("list.comma", [node for component in components for node in component.nodes])
    return _see(components, Phase.RUNNING, at, say("slurm.runs", job=leader.job_id, nodes=nodes))


def _note_waiting(job: NativeJob) -> str:
    if job.restarts or not _REQUEUED.isdisjoint(job.states):
        return say("slurm.requeued")
    return say("slurm.waits_why", reason=job.reason) if job.reason else say("slurm.waits")


def _see(components: Sequence[NativeJob], phase: Phase, at: float, note: str) -> Seen:
    nodes = [node for component in components for node in component.nodes]
    gpus = tuple(name_gpu(*gpu) for component in components for gpu in name_gpus(component))
    return Seen(phase=phase, at=at, node=nodes[0] if nodes else None, gpus=gpus, note=note)


def _build_exit(job: NativeJob, means: Means) -> Exit:
    return Exit(
        code=_tell_code(job, means),
        out_of_memory=means is Means.OUT_OF_MEMORY,
        started_at=job.started_at,
        finished_at=job.ended_at,
        engine_started_at=None,
        error=_note(job),
        cause=_CAUSES.get(means),
    )


def _tell_code(job: NativeJob, means: Means) -> int | None:
    """The exit code, which is 0 for nothing but a job that completed; None where none can be told."""
    match means:
        case Means.DONE:
            return job.exit_code
        case Means.NODE_FAILED:
            return None
        case Means.CANCELLED | Means.OVER_TIME | Means.PREEMPTED:
            return job.exit_code or TERM_CODE
        case _:
            return job.exit_code or None


def _note_unbegun(job: NativeJob) -> str:
    """Why a job ended before it began: most often its node cannot use the folder where its log and the mark go."""
    own = job.exit_code in {NO_FOLDER_CODE, NOT_STARTED_CODE} or job.reason == "JobLaunchFailure"
    return say("slurm.no_folder", nodes=say_list("list.comma", job.nodes)) if own else _note(job)


def _note(job: NativeJob) -> str:
    """Slurm's own words for an end."""
    node = say("slurm.ended_node", node=job.failed_node) if job.failed_node else ""
    again = say("slurm.ended_again") if job.restarts else ""
    words = [word for word in (job.state, job.reason, node, again) if word]
    return say("slurm.ended", job=job.job_id, words=say_list("list.comma", words))


def _find(job: NativeJob) -> Means | None:
    """What the state says, unless a flag says that the nodes are still held or that it waits again."""
    flags = {NATIVE_STATES.get(flag) for flag in job.states[1:]}
    for means in (Means.WAITS, Means.ENDS):
        if means in flags:
            return means
    if flags and job.state == "RUNNING" and Means.STARTS in flags:
        return Means.STARTS
    return NATIVE_STATES.get(job.state)

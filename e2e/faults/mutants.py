"""Ways in which a sound picture of a fleet can be falsified: the invariants must find every one."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from e2e.support.invariants import JobLine, Picture, find_faults
from starforge.containers.labels import Claim, State
from starforge.contract.ids import AttemptId

_ATTEMPT: Final = AttemptId("jaaaaaaaaa-1-abcdef")
_OTHER: Final = AttemptId("jbbbbbbbbb-1-abcdef")


def _claim(picture: Picture, attempt: AttemptId, state: State = State.RUNNING) -> Claim:
    return Claim(
        container="c",
        state=state,
        attempt=attempt,
        install=picture.install,
        boot="",
        gpus=("GPU-0",),
        cpus=1.0,
        memory_bytes=1,
        port=None,
        image_id="",
    )


def _with_jobs(picture: Picture, **states: str) -> Picture:
    lines = {job_of: JobLine(state=state, note="", attempt=f"{job_of}-1-abcdef") for job_of, state in states.items()}
    known = picture.attempts | {line.attempt for line in lines.values() if line.attempt}
    return replace(picture, jobs={**picture.jobs, **lines}, attempts=known)


def _share_a_gpu(picture: Picture) -> Picture:
    both = _with_jobs(picture, jaaaaaaaaa="RUNNING", jbbbbbbbbb="RUNNING")
    return replace(both, containers={"m": [_claim(picture, _ATTEMPT), _claim(picture, _OTHER)]})


def _start_twice(picture: Picture) -> Picture:
    return replace(picture, starts={**picture.starts, _ATTEMPT: 2})


def _lose_a_job(picture: Picture) -> Picture:
    return replace(picture, submitted=(*picture.submitted, "jccccccccc"))


def _leave_a_container(picture: Picture) -> Picture:
    return replace(picture, containers={"m": [_claim(picture, _ATTEMPT, State.EXITED)]})


def _lose_a_container(picture: Picture) -> Picture:
    return _with_jobs(picture, jaaaaaaaaa="RUNNING")


def _forget_a_container(picture: Picture) -> Picture:
    ended = _with_jobs(picture, jaaaaaaaaa="SUCCEEDED")
    return replace(ended, containers={"m": [_claim(picture, _ATTEMPT)]})


def _wait_in_silence(picture: Picture) -> Picture:
    return _with_jobs(picture, jaaaaaaaaa="QUEUED")


MUTANTS: Final[dict[str, Callable[[Picture], Picture]]] = {
    "two containers on one GPU": _share_a_gpu,
    "an attempt that ran twice": _start_twice,
    "a job that is lost": _lose_a_job,
    "a container that nobody knows": _leave_a_container,
    "a running job without a container": _lose_a_container,
    "a container of a job that has ended": _forget_a_container,
    "a job that waits in silence": _wait_in_silence,
}


def find_alive(picture: Picture) -> list[str]:
    """The falsifications of a sound picture that nobody notices. Pure."""
    return [f"mutant alive: {name}" for name, falsify in MUTANTS.items() if not find_faults(falsify(picture))]

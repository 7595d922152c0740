"""What operators said of RayJobs, one state after the other, and what each sequence means here."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from e2e.support.engines import PrivateEngine
from e2e.support.kube.real import RealApi
from e2e.support.kube.status import Document
from e2e.support.ready import ready_engine
from server.tests.executors.conformance import run
from server.tests.executors.kuberay.on_kube import KubeHarness, kube_harness
from starforge.containers.labels import name_container
from starforge.contract.observation import EndCause, Failure, Phase, Seen


class Sequence(NamedTuple):
    """States as the operator said them; `begins`: the first is that of a job which really runs."""

    states: tuple[Document, ...]
    expected: tuple[Phase, object]
    begins: bool = False
    is_queued: bool = False


STARTS: Document = {"jobDeploymentStatus": "Initializing", "jobStatus": ""}
WAITS: Document = {"jobDeploymentStatus": "Suspended", "jobStatus": ""}
LOST_SUBMITTER: Document = {
    "jobDeploymentStatus": "Failed",
    "jobStatus": "RUNNING",
    "reason": "SubmissionFailed",
    "failed": 1,
    "succeeded": 0,
    "message": "Job submission has failed. Reason: BackoffLimitExceeded. Message: it has reached its limit",
}
NEVER_READY: Document = {
    "jobDeploymentStatus": "Failed",
    "jobStatus": "",
    "reason": "PreRunningDeadlineExceeded",
    "message": "The RayJob has passed the preRunningDeadlineSeconds. PreRunningDeadlineSeconds: 600",
}
UNREACHABLE: tuple[Document, ...] = (
    {
        "jobDeploymentStatus": "Running",
        "jobStatus": "RUNNING",
        "jobStatusCheckFailureStartTime": "2026-03-02T10:00:00Z",
    },
    {
        "jobDeploymentStatus": "Failed",
        "jobStatus": "RUNNING",
        "reason": "JobStatusCheckTimeoutExceeded",
        "message": "Job status checks have been failing; exceeded timeout of 300s",
    },
)
SUBMITTED_TWICE: Document = {
    "jobDeploymentStatus": "Failed",
    "jobStatus": "FAILED",
    "reason": "AppFailed",
    "message": "Failed to start Job Supervisor actor: The name _ray_internal_job_actor_one is already taken.",
}
SUSPENDED_AT_BIRTH: tuple[Document, ...] = (
    STARTS | {"rayClusterName": "one-ccccc"},
    {"jobDeploymentStatus": "Suspending", "jobStatus": "", "rayClusterName": "one-ccccc"},
    WAITS | {"rayClusterName": ""},
)
OVER_TIME: Document = {
    "jobDeploymentStatus": "Failed",
    "jobStatus": "RUNNING",
    "reason": "DeadlineExceeded",
    "message": "The RayJob has passed the activeDeadlineSeconds. ActiveDeadlineSeconds: 60",
}
SEQUENCES = {
    "failed, though the job still runs": Sequence((LOST_SUBMITTER,), (Phase.EXITED, EndCause.NODE_FAILED), begins=True),
    "never ready in time": Sequence((STARTS, NEVER_READY), (Phase.EXITED, Failure.NO_CAPACITY)),
    "initializing for ever": Sequence((STARTS,) * 5, (Phase.PREPARING, None)),
    "suspended at birth": Sequence(SUSPENDED_AT_BIRTH, (Phase.PREPARING, None), is_queued=True),
    "suspended again and again": Sequence((WAITS,) * 20, (Phase.PREPARING, None), is_queued=True),
    "the head does not answer": Sequence(UNREACHABLE, (Phase.EXITED, EndCause.NODE_FAILED), begins=True),
    "no status at all": Sequence(({},) * 3, (Phase.PREPARING, None)),
    "submitted a second time": Sequence((SUBMITTED_TWICE,), (Phase.EXITED, EndCause.NODE_FAILED), begins=True),
    "past its deadline": Sequence((OVER_TIME,), (Phase.EXITED, EndCause.TIME_LIMIT), begins=True),
}


@pytest.fixture(scope="module")
def machine() -> Iterator[PrivateEngine]:
    with ready_engine() as machine:
        yield machine


@pytest.fixture
def harness(real: RealApi | None, machine: PrivateEngine, tmp_path: Path) -> Iterator[KubeHarness]:
    with kube_harness(machine, tmp_path, real) as harness:
        yield harness


@pytest.mark.parametrize("title", SEQUENCES)
def test_what_a_sequence_comes_to(harness: KubeHarness, title: str) -> None:
    sequence = SEQUENCES[title]

    async def scenario() -> None:
        request = harness.make_request()
        name = name_container(request.attempt)
        if not sequence.begins:
            harness.lab.operator.take_over(name)
        await harness.launch(request)
        if sequence.begins:
            await harness.settle(request.attempt, Phase.RUNNING)
        told: list[Any] = []
        for state in sequence.states:
            harness.lab.operator.say(name, **state)
            told.append((await harness.executor.observe([request.attempt]))[request.attempt])
        phase, means = sequence.expected
        seen = await harness.settle(request.attempt, phase)
        assert (seen.exit.cause if seen.exit is not None else seen.failure) == means
        assert seen.is_queued == sequence.is_queued
        assert all(isinstance(one, Seen) for one in told)
        if len(set(map(str, sequence.states))) == 1:  # the same state is no news
            assert len({(one.phase, one.is_queued, one.note) for one in told}) == 1
        assert harness.count_starts(request.attempt) == int(sequence.begins)

    run(harness, scenario())

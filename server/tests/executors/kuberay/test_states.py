"""What the words of KubeRay, Ray and the kubelet mean, and what they do not: sequences as clusters have told them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from server.tests.executors.kuberay.documents import AT, job, pod
from starforge.contract.observation import EndCause, Exit, Failure, NoSignal, Observation, Phase, Seen
from starforge.contract.states import DesiredState, Reason
from starforge_console.domain.exit_reason import ExitEvidence, explain_exit
from starforge_console.executors.kuberay.folder import Ended, StartMark
from starforge_console.executors.kuberay.native import NativePod
from starforge_console.executors.kuberay.states import Evidence, Verdict, end_missing, judge, list_holding, see_ending

BEGAN = StartMark(pod="uid-head", at=100)
RUNS = {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}
STARTS = {"jobDeploymentStatus": "Initializing"}
DONE = {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}
LOST_SUBMITTER = {
    "jobDeploymentStatus": "Failed",
    "jobStatus": "RUNNING",
    "reason": "SubmissionFailed",
    "message": "Job submission has failed. Reason: BackoffLimitExceeded.",
}
LOST_CONTACT = {
    "jobDeploymentStatus": "Failed",
    "jobStatus": "RUNNING",
    "reason": "JobStatusCheckTimeoutExceeded",
    "message": "Job status checks have been failing; exceeded timeout of 300s",
}
TWICE_SUBMITTED = {
    "jobDeploymentStatus": "Failed",
    "jobStatus": "FAILED",
    "reason": "AppFailed",
    "message": "Failed to start Job Supervisor actor: The name _ray_internal_job_actor_x is already taken.",
}
NEVER_READY = {
    "jobDeploymentStatus": "Failed",
    "reason": "PreRunningDeadlineExceeded",
    "message": "The RayJob has passed the preRunningDeadlineSeconds.",
}
CASES = Path(__file__).parents[5] / "shared" / "cases" / "G_slurm_kuberay"


def failed(code: int, **more: Any) -> dict[str, Any]:
    message = f"Job entrypoint command failed with exit code {code}, last available logs (truncated to 20,000 chars):"
    return {"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "reason": "AppFailed", "message": message, **more}


def find_verdict(status: dict[str, Any], **evidence: Any) -> Verdict:
    found = job(**status)
    given: dict[str, Any] = {"pods": [pod()], "mark": BEGAN, **evidence}
    return judge(found, Evidence(job=found, **given), (), AT)


def see(status: dict[str, Any], **evidence: Any) -> Seen:
    seen = find_verdict(status, **evidence).observation
    assert isinstance(seen, Seen), seen
    return seen


def see_exit(status: dict[str, Any], **evidence: Any) -> Exit:
    seen = see(status, **evidence)
    assert seen.phase is Phase.EXITED
    assert seen.exit is not None
    return seen.exit


def explain(found: Exit) -> Reason:
    evidence = ExitEvidence(engine=found, record=None, desired=DesiredState.RUN, stop_sent=False)
    return explain_exit(evidence).reason


class TestRecordedSequences:
    """As clusters have told them; the last word of each sequence decides."""

    def test_a_submitter_that_is_lost_leaves_nothing_running_and_is_the_platforms_fault(self) -> None:
        verdict = find_verdict(LOST_SUBMITTER)
        assert verdict.deletes
        found = see_exit(LOST_SUBMITTER)
        assert (found.code, found.cause) == (None, EndCause.NODE_FAILED)
        assert explain(found) is Reason.INTERRUPTED
        assert "SubmissionFailed" in found.error

    def test_a_job_that_had_ended_before_its_submitter_was_lost_ended_as_it_did(self) -> None:
        for code in (0, 3):
            found = see_exit(LOST_SUBMITTER, ended=Ended(code=code))
            assert (found.code, found.cause) == (code, None)

    def test_a_cluster_that_never_became_ready_had_no_room(self) -> None:
        seen = see(NEVER_READY, mark=None, pods=[])
        assert seen.failure is Failure.NO_CAPACITY
        assert "preRunningDeadlineSeconds" in seen.note

    def test_a_cluster_that_never_became_ready_for_its_image_is_told_by_the_image(self) -> None:
        waits = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}}
        seen = see(NEVER_READY, mark=None, pods=[pod(phase="Pending", container=waits)])
        assert seen.failure is Failure.PULL_DENIED

    def test_a_head_that_restarts_again_and_again_before_it_is_ready_tells_why(self) -> None:
        waits = {"restartCount": 7, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}}}
        seen = see(STARTS, mark=None, pods=[pod(phase="Running", container=waits)])
        assert (seen.phase, seen.is_queued) == (Phase.PREPARING, False)
        assert seen.note == "pod head waits: CrashLoopBackOff: back-off 5m0s"

    @pytest.mark.parametrize("word", ["Suspending", "Suspended"])
    def test_one_that_the_clusters_queue_holds_back_waits_and_says_the_same_each_time(self, word: str) -> None:
        seen = [see({"jobDeploymentStatus": word}, mark=None, pods=[]) for _ in range(20)]
        assert seen[0].is_queued
        assert seen[0].phase is Phase.PREPARING
        assert len({one.note for one in seen}) == 1

    def test_a_head_that_answers_no_more_is_the_platforms_fault(self) -> None:
        assert see({**RUNS, "jobStatusCheckFailureStartTime": "2026-03-02T10:00:00Z"}).phase is Phase.RUNNING
        found = see_exit(LOST_CONTACT)
        assert (found.code, explain(found)) == (None, Reason.INTERRUPTED)

    def test_without_a_status_the_operator_has_done_nothing(self) -> None:
        seen = see({}, mark=None, pods=[])
        assert (seen.phase, seen.is_queued) == (Phase.PREPARING, False)
        assert "operator" in seen.note

    def test_one_that_was_submitted_twice_is_no_fault_of_the_job(self) -> None:
        found = see_exit(TWICE_SUBMITTED)
        assert (found.code, explain(found)) == (None, Reason.INTERRUPTED)


class TestEnds:
    """Which source is believed of an end."""

    def test_success_needs_the_scripts_own_word(self) -> None:
        assert see_exit(DONE, ended=Ended(code=0)).code == 0
        assert see_exit(DONE, ended=Ended(code=6)).code == 6
        found = see_exit(DONE)
        assert (found.code, found.cause) == (None, EndCause.NODE_FAILED)

    def test_a_failure_is_the_jobs_own_where_its_code_is_told(self) -> None:
        found = see_exit(failed(3, rayJobInfo={"startTime": "1970-01-01T00:01:00Z"}, endTime="1970-01-01T00:02:00Z"))
        assert (found.code, found.cause) == (3, None)
        assert (found.started_at, found.finished_at) == (60.0, 120.0)
        assert see_exit(failed(3), ended=Ended(code=4)).code == 4

    @pytest.mark.parametrize("code", [195, 199])
    def test_the_scripts_own_codes_are_no_codes_of_the_job(self, code: int) -> None:
        assert see_exit(failed(code)).cause is EndCause.NODE_FAILED

    def test_a_node_that_was_lost_of_several_is_the_platforms_fault(self) -> None:
        found = see_exit(failed(195), ended=Ended(code=195))
        assert (found.code, found.cause) == (None, EndCause.NODE_FAILED)

    def test_its_time_limit(self) -> None:
        over = {"jobDeploymentStatus": "Failed", "jobStatus": "RUNNING", "reason": "DeadlineExceeded"}
        assert explain(see_exit(over)) is Reason.MAX_RUNTIME
        assert see_exit(over, ended=Ended(code=0)).cause is None

    def test_a_node_that_was_taken_away(self) -> None:
        assert explain(see_exit(failed(143), ended=Ended(code=143, left=True))) is Reason.PREEMPTED

    def test_a_kill_for_memory_whoever_tells_it(self) -> None:
        told = {"lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}, "restartCount": 1}
        killed = pod(container={**told, "state": {"running": {"startedAt": "1970-01-01T00:05:00Z"}}})
        for found in (
            see_exit(failed(137), ended=Ended(code=137, out_of_memory=True)),
            see_exit(failed(137), pods=[killed]),
            see_exit(RUNS, pods=[killed]),
        ):
            assert (found.code, found.out_of_memory) == (137, True)
            assert explain(found) is Reason.OUT_OF_MEMORY

    def test_one_that_somebody_stopped_through_ray(self) -> None:
        assert see_exit({**DONE, "jobStatus": "STOPPED"}).code == 143

    def test_one_whose_rayjob_is_gone_ended_as_its_script_says(self) -> None:
        assert end_missing(Evidence(job=None, mark=BEGAN), AT) is None
        end = end_missing(Evidence(job=None, mark=BEGAN, ended=Ended(code=143, left=True)), AT)
        assert end is not None
        assert end.exit is not None
        assert (end.exit.code, end.exit.cause) == (143, EndCause.PREEMPTED)

    def test_an_end_is_none_yet_as_long_as_a_pod_holds_anything(self) -> None:
        pods = [pod(), pod("submitter", part="submitter"), pod("worker", part="worker", phase="Failed")]
        assert [one.name for one in list_holding(pods)] == ["head"]
        ending = see_ending(see(DONE, ended=Ended(code=0)), list_holding(pods))
        assert (ending.phase, ending.exit) == (Phase.RUNNING, None)
        assert ending.note == "its pods end on n1"


def run_since(second: int, **more: Any) -> dict[str, Any]:
    """A container's status whose present run began that many seconds after the epoch."""
    return {"restartCount": 1, "state": {"running": {"startedAt": f"1970-01-01T00:0{second // 60}:00Z"}}, **more}


class TestHeads:
    """A RayJob that stays Running though the process that it stands for is gone."""

    @pytest.mark.parametrize(
        "pods",
        [
            pytest.param([pod(container=run_since(120))], id="its container ran anew"),
            pytest.param([pod("other")], id="another pod"),
            pytest.param([pod("other", phase="Pending", node="")], id="another pod that waits"),
            pytest.param([], id="no pod"),
            pytest.param([pod(phase="Failed")], id="its pod failed"),
        ],
    )
    def test_it_is_ended_as_the_platforms_fault(self, pods: Sequence[NativePod]) -> None:
        verdict = find_verdict(RUNS, pods=pods)
        assert verdict.deletes
        found = see_exit(RUNS, pods=pods)
        assert (found.code, found.cause) == (None, EndCause.NODE_FAILED)
        assert "restarted" in found.error
        assert see_exit(RUNS, pods=pods, ended=Ended(code=2)).code == 2

    @pytest.mark.parametrize(
        "pods",
        [
            pytest.param([pod()], id="never restarted"),
            pytest.param([pod(container=run_since(60))], id="restarted before it began"),
            pytest.param([pod(deleting=True)], id="on its way out"),
        ],
    )
    def test_one_whose_script_runs_is_left_alone(self, pods: Sequence[NativePod]) -> None:
        assert see(RUNS, pods=pods).phase is Phase.RUNNING
        assert not find_verdict(RUNS, pods=pods).deletes

    def test_pods_that_were_listed_before_the_mark_was_read_say_nothing_against_it(self) -> None:
        assert see(RUNS, pods=[], is_mark_old=False).phase is Phase.RUNNING

    def test_a_head_that_was_restarted_before_the_script_could_begin_loses_it_too(self) -> None:
        status = {**RUNS, "rayJobInfo": {"startTime": "1970-01-01T00:01:30Z"}}
        assert see(status, mark=None, pods=[pod(container=run_since(120))]).failure is Failure.NODE_FAULT
        assert see(status, mark=None, pods=[pod(container=run_since(60))]).phase is Phase.RUNNING

    def test_what_ended_long_ago_does_not_wait_for_kuberay_for_ever(self) -> None:
        ends = {**RUNS, "jobStatus": "SUCCEEDED"}
        assert see(ends, ended=Ended(code=0)).phase is Phase.RUNNING
        assert see_exit(ends, ended=Ended(code=0), is_overdue=True).code == 0

    def test_what_had_begun_and_is_suspended_was_preempted(self) -> None:
        verdict = find_verdict({"jobDeploymentStatus": "Suspended"}, pods=[])
        assert verdict.deletes
        assert explain(see_exit({"jobDeploymentStatus": "Suspended"}, pods=[])) is Reason.PREEMPTED


class TestStarts:
    """What is said of an attempt before its script has begun."""

    def test_an_image_that_is_denied_is_told_with_the_kubelets_words(self) -> None:
        waits = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "x"'}}}
        verdict = find_verdict(STARTS, mark=None, pods=[pod(container=waits)], denial="ErrImagePull: denied")
        assert verdict.deletes
        assert isinstance(verdict.observation, Seen)
        assert (verdict.observation.failure, verdict.observation.note) == (Failure.PULL_DENIED, "ErrImagePull: denied")

    @pytest.mark.parametrize(
        ("words", "failure"),
        [
            ("ErrImagePull: pull access denied, repository does not exist", Failure.PULL_DENIED),
            ("ErrImagePull: failed to resolve reference: not found", Failure.PULL_DENIED),
            ("ErrImagePull: failed to do request: dial tcp 10.0.0.1:443: i/o timeout", None),
            ("ErrImagePull: unexpected status code 503 Service Unavailable", None),
            ("ErrImagePull: toomanyrequests: rate limit exceeded", None),
            ("ErrImagePull: failed to register layer: no space left on device", Failure.NODE_FAULT),
        ],
    )
    def test_an_image_that_may_come_yet_is_waited_for(self, words: str, failure: Failure | None) -> None:
        waits = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "x"'}}}
        seen = see(STARTS, mark=None, pods=[pod(container=waits)], denial=words)
        assert (seen.failure, seen.phase is Phase.PREPARING) == (failure, failure is None)
        assert words in seen.note

    def test_a_first_try_in_vain_is_only_shown(self) -> None:
        waits = {"state": {"waiting": {"reason": "ErrImagePull", "message": "dial tcp: i/o timeout"}}}
        seen = see(STARTS, mark=None, pods=[pod(container=waits)])
        assert (seen.phase, seen.note) == (Phase.PREPARING, "pod head waits: ErrImagePull: dial tcp: i/o timeout")

    def test_a_pod_without_a_node_waits_with_the_schedulers_words(self) -> None:
        told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/4 nodes available"}
        seen = see(STARTS, mark=None, pods=[pod(node="", phase="Pending", conditions=[told])])
        assert seen.is_queued
        assert seen.note == "pod head has no node yet: 0/4 nodes available"

    def test_a_spec_that_the_operator_refuses(self) -> None:
        refused = {"jobDeploymentStatus": "ValidationFailed", "reason": "ValidationFailed", "message": "too long"}
        assert see(refused, mark=None, pods=[]).failure is Failure.START_FAILED

    def test_a_script_that_could_not_even_make_its_mark_points_at_the_storage(self) -> None:
        seen = see(failed(197), mark=None)
        assert seen.failure is Failure.NODE_FAULT
        assert "the volume claim" in seen.note

    def test_submitted_and_not_begun_is_preparing(self) -> None:
        assert see({"jobDeploymentStatus": "Running"}, mark=None).phase is Phase.PREPARING
        assert see({**RUNS, "jobStatus": "PENDING"}, mark=None).phase is Phase.PREPARING


@pytest.mark.parametrize(
    "status",
    [
        {"jobDeploymentStatus": "Hibernating"},
        {"jobDeploymentStatus": "Running", "jobStatus": "DREAMING"},
        {"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "reason": "MoonPhase"},
    ],
)
def test_a_word_that_no_table_knows_is_shown_and_changes_nothing(status: dict[str, Any]) -> None:
    verdict = find_verdict(status)
    assert isinstance(verdict.observation, NoSignal)
    assert not verdict.deletes
    for word in status.values():
        assert word in verdict.observation.reason


def expect(name: str, seen: Observation) -> None:
    """What the recorded sequence of that name means in the end."""
    assert isinstance(seen, Seen), name
    if seen.phase is Phase.PREPARING:
        assert name in {"G44", "G46", "G48", "G53"}
        assert seen.is_queued == (name in {"G46", "G48"})
    elif seen.failure is not None:
        assert (name, seen.failure) == ("G43", Failure.NO_CAPACITY)
    else:
        assert name in {"G40", "G49", "G55"}
        assert seen.exit is not None
        assert explain(seen.exit) is Reason.INTERRUPTED


@pytest.mark.skipif(not CASES.exists(), reason="the recorded cases are not there")
@pytest.mark.parametrize("path", sorted(CASES.glob("G*-ray-*.json")), ids=lambda path: path.name.split("-")[0])
def test_each_recorded_sequence_ends_as_it_should(path: Path) -> None:
    began = False
    seen: Observation = NoSignal(reason="nothing yet")
    for status in json.loads(path.read_text())["sequence"]:
        began = began or status.get("jobStatus") == "RUNNING"
        seen = find_verdict(status, mark=BEGAN if began else None, pods=[pod()] if began else []).observation
    expect(path.name.split("-")[0], seen)

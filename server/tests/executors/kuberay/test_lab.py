"""The made-up cluster does with a RayJob what KubeRay, scheduler and kubelet do."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.support.engines import PrivateEngine
from e2e.support.kube.kinds import PODS, RAYCLUSTERS, SECRETS
from e2e.support.kube.lab import NAMESPACE, KubeLab, kube_lab
from e2e.support.owned import owned_folder
from e2e.support.ready import ready_engine
from server.tests.executors.kuberay.jobs import HandJob

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def machine() -> Iterator[PrivateEngine]:
    with ready_engine() as machine:
        yield machine


@pytest.fixture
def storage() -> Iterator[Path]:
    with owned_folder() as folder:
        folder.chmod(0o755)
        yield folder


@pytest.fixture
def lab(machine: PrivateEngine, storage: Path) -> Iterator[KubeLab]:
    with kube_lab(machine, storage) as lab:
        lab.add_node("n1", gpus=4)
        yield lab


@pytest.fixture
def job(lab: KubeLab, storage: Path) -> HandJob:
    return HandJob(lab, storage, "one")


def test_the_entrypoint_runs_in_the_heads_container_as_the_pod_says(lab: KubeLab, storage: Path) -> None:
    job = HandJob(lab, storage, "one", "echo $POD_UID $WORD $(id -u):$(id -g) >/held/said; exit 0")
    job.create()
    job.wait(jobDeploymentStatus="Complete", jobStatus="SUCCEEDED")
    pods = {event.after["metadata"]["uid"] for event in lab.api.store.history if event.kind is PODS and event.after}
    uid, word, user = (job.folder / "said").read_text().split()
    assert uid in pods
    assert (word, user) == ("said", "1000:1000")


def test_a_program_that_fails_is_told_in_rays_words(job: HandJob) -> None:
    job.create()
    job.wait(jobDeploymentStatus="Running", jobStatus="RUNNING")
    job.finish(7)
    job.wait(jobDeploymentStatus="Failed", jobStatus="FAILED", reason="AppFailed")
    assert job.status["message"].startswith("Job entrypoint command failed with exit code 7, last available logs")


def test_the_cluster_goes_when_its_job_has_ended_and_the_rest_with_the_job(job: HandJob) -> None:
    job.create()
    job.finish(0)
    job.wait(jobDeploymentStatus="Complete")
    job.wait_until(lambda: not job.count(RAYCLUSTERS), "no cluster")
    job.delete()
    job.wait_until(job.is_gone, "nothing left")


def test_a_deletion_ends_what_runs(job: HandJob, lab: KubeLab) -> None:
    job.create()
    job.wait(jobStatus="RUNNING")
    assert lab.kubelet.describe(lab.operator.find_head("one"))
    job.delete()
    job.wait_until(job.is_gone, "nothing left")


def test_a_pod_waits_for_room_and_says_so(job: HandJob, lab: KubeLab) -> None:
    job.create(gpus=5)
    said = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."

    def is_said() -> bool:
        conditions = [one for pod in lab.inside.list(PODS) for one in pod["status"].get("conditions") or ()]
        return any((one.get("reason"), one.get("message")) == ("Unschedulable", said) for one in conditions)

    job.wait_until(is_said, "no room")
    lab.add_node("n2", gpus=8)
    job.wait(jobStatus="RUNNING")
    assert lab.operator.find_head("one")["spec"]["nodeName"] == "n2"


def test_an_image_that_is_denied_keeps_the_job_from_starting(job: HandJob, lab: KubeLab) -> None:
    lab.kubelet.denied["nowhere/image:1"] = "pull access denied"
    job.create(image="nowhere/image:1")

    def reasons() -> list[str]:
        states = [pod["status"].get("containerStatuses") or [{}] for pod in lab.inside.list(PODS)]
        return [state[0].get("state", {}).get("waiting", {}).get("reason", "") for state in states]

    job.wait_until(lambda: reasons() == ["ImagePullBackOff"], "backing off")
    assert job.status["jobDeploymentStatus"] == "Initializing"


def test_a_pod_waits_for_its_secret(lab: KubeLab, storage: Path) -> None:
    job = HandJob(lab, storage, "one", "cat /run/secrets/TOKEN >/held/read; exit 0")
    job.create(needs="one")
    job.wait_until(lambda: bool(lab.inside.list(PODS)), "a pod")
    secret = {"metadata": {"name": "one", "namespace": NAMESPACE}, "stringData": {"TOKEN": "abc"}}
    lab.inside.create(SECRETS, secret)
    job.wait(jobStatus="SUCCEEDED")
    assert (job.folder / "read").read_text() == "abc"


def test_a_head_that_restarts_leaves_the_job_running_for_ever(job: HandJob, lab: KubeLab) -> None:
    job.create()
    job.wait(jobStatus="RUNNING")
    lab.kubelet.restart(lab.operator.find_head("one"))
    job.finish(0)
    head = lab.operator.find_head("one")
    assert head["status"]["containerStatuses"][0]["restartCount"] == 1
    assert (job.status["jobDeploymentStatus"], job.status["jobStatus"]) == ("Running", "RUNNING")


def test_a_head_that_is_lost_comes_anew_and_runs_nothing(job: HandJob, lab: KubeLab) -> None:
    job.create()
    job.wait(jobStatus="RUNNING")
    first = lab.operator.find_head("one")
    lab.kubelet.lose(first)

    def is_new() -> bool:
        heads = [pod["metadata"]["uid"] for pod in lab.operator.list_pods("one")]
        return bool(heads) and heads != [first["metadata"]["uid"]]

    job.wait_until(is_new, "another head")
    assert job.status["jobStatus"] == "RUNNING"


def test_a_silent_operator_says_nothing(job: HandJob, lab: KubeLab) -> None:
    lab.operator.is_silent = True
    job.create()
    assert job.status == {}
    lab.operator.is_silent = False
    job.wait(jobStatus="RUNNING")


def test_a_job_that_was_taken_over_has_the_status_that_it_is_given(job: HandJob, lab: KubeLab) -> None:
    lab.operator.take_over("one")
    job.create()
    lab.operator.say("one", jobDeploymentStatus="Suspended", jobStatus="")
    assert job.status["jobDeploymentStatus"] == "Suspended"
    assert job.count(PODS) == 0


def test_a_suspended_job_starts_when_it_is_let_go(job: HandJob, lab: KubeLab) -> None:
    job.create(suspend=True)
    job.wait(jobDeploymentStatus="Suspended")
    job.lab.api.client.merge(f"/apis/ray.io/v1/namespaces/{NAMESPACE}/rayjobs/one", {"spec": {"suspend": False}})
    job.wait(jobStatus="RUNNING")
    assert lab.errors == []


def test_a_job_past_its_deadline_fails(job: HandJob) -> None:
    job.create(activeDeadlineSeconds=1)
    job.wait(jobDeploymentStatus="Failed", reason="DeadlineExceeded")
    assert job.status["message"].startswith("The RayJob has passed the activeDeadlineSeconds. StartTime: ")

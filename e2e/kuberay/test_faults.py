"""What goes wrong on a cluster: nothing starts twice or trains on unseen, and what is not known is not guessed."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.support.engines import PrivateEngine
from e2e.support.kube.kinds import RAYJOBS
from e2e.support.kube.lab import NAMESPACE
from e2e.support.kube.real import RealApi
from e2e.support.kube.status import Json
from e2e.support.ready import ready_engine
from server.tests.executors.conformance import SECRET, run
from server.tests.executors.kuberay.on_kube import KubeHarness, kube_harness
from server.tests.executors.on_engine import COUNTS
from starforge.containers.labels import name_container
from starforge.contract.executor import FleetView, GpuState
from starforge.contract.launch import LaunchRequest, PoolRequest
from starforge.contract.observation import EndCause, Exit, Failure, Gone, NoSignal, Observation, Phase, Seen
from starforge.errors import BackendUnreachable, LaunchRefused

MIB = 1024**2
TRAPS = "echo x >>starts; trap 'echo saved >saved; exit 9' TERM; while :; do sleep 0.05; done"
IGNORES = "echo x >>starts; trap '' TERM; while :; do sleep 0.05; done"


@pytest.fixture(scope="module")
def machine() -> Iterator[PrivateEngine]:
    with ready_engine() as machine:
        yield machine


@pytest.fixture
def harness(real: RealApi | None, machine: PrivateEngine, tmp_path: Path) -> Iterator[KubeHarness]:
    with kube_harness(machine, tmp_path, real) as harness:
        yield harness


def play(harness: KubeHarness, scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run(harness, scenario())


async def look(harness: KubeHarness, request: LaunchRequest) -> Observation:
    return (await harness.executor.observe([request.attempt]))[request.attempt]


async def begin(harness: KubeHarness, script: str = COUNTS, **changes: Json) -> LaunchRequest:
    """An attempt that runs."""
    request = harness.make_request(script=script, **changes)
    await harness.launch(request)
    await harness.settle(request.attempt, Phase.RUNNING)
    return request


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    while not await holds():
        await asyncio.to_thread(time.sleep, 0.05)


async def settle_exit(harness: KubeHarness, request: LaunchRequest) -> Exit:
    """How it ended; nothing of it may hold anything any more."""
    ended = await harness.settle(request.attempt, Phase.EXITED)
    assert ended.exit is not None, ended
    view = await harness.executor.capacity()
    assert isinstance(view, FleetView)
    assert all(gpu.attempt != request.attempt for node in view.nodes for gpu in node.gpus)
    return ended.exit


async def clean(harness: KubeHarness, request: LaunchRequest) -> None:
    """After the cleanup the cluster holds nothing of it: no RayJob, cluster, pod or Secret."""
    await harness.executor.cleanup(request.attempt)
    name = name_container(request.attempt)

    async def is_gone() -> bool:
        return not any(left.startswith(name) for left in harness.list_left())

    await until(is_gone)
    assert isinstance(await look(harness, request), Gone)


def read(request: LaunchRequest, name: str) -> str:
    """A file of the attempt's directory; empty where there is none."""
    path = Path(request.workdir, name)
    return path.read_text() if path.exists() else ""


def name(request: LaunchRequest) -> str:
    return name_container(request.attempt)


def test_a_head_that_restarts_under_a_job_that_stays_running_is_found_out(harness: KubeHarness) -> None:
    async def scenario() -> None:
        request = await begin(harness)
        await asyncio.to_thread(harness.lab.kubelet.restart, harness.find_head(request.attempt))
        job = harness.find_job(request.attempt)
        assert job is not None
        assert job["status"]["jobStatus"] == "RUNNING"
        ended = await settle_exit(harness, request)
        assert (ended.code, ended.cause) == (None, EndCause.NODE_FAILED)
        assert harness.count_starts(request.attempt) == 1
        await clean(harness, request)

    play(harness, scenario)


def test_a_head_that_comes_anew_on_another_node_begins_nothing(harness: KubeHarness) -> None:
    async def scenario() -> None:
        request = await begin(harness)
        await asyncio.to_thread(harness.lab.kubelet.lose, harness.find_head(request.attempt))
        ended = await settle_exit(harness, request)
        assert (ended.code, ended.cause) == (None, EndCause.NODE_FAILED)
        assert harness.count_starts(request.attempt) == 1
        await clean(harness, request)

    play(harness, scenario)


def test_a_head_that_was_killed_for_memory_is_told_so(harness: KubeHarness) -> None:
    async def scenario() -> None:
        request = await begin(harness)
        harness.lab.operator.is_silent = True  # as long as it has not seen that the pod failed
        await asyncio.to_thread(harness.lab.kubelet.kill, harness.find_head(request.attempt))
        ended = await settle_exit(harness, request)
        assert ended.out_of_memory

    play(harness, scenario)


def test_a_submitter_that_is_gone_costs_a_job_that_ended_nothing(harness: KubeHarness) -> None:
    async def scenario() -> None:
        request = await begin(harness)
        harness.lab.operator.take_over(name(request))
        await harness.finish(request, 0)
        harness.lab.operator.say(
            name(request),
            jobDeploymentStatus="Failed",
            jobStatus="RUNNING",
            reason="SubmissionFailed",
            message="Job submission has failed. Reason: BackoffLimitExceeded. Message: Job has reached the limit",
        )

        async def is_written() -> bool:
            return bool(read(request, ".kuberay/ended"))

        await until(is_written)
        ended = await settle_exit(harness, request)
        assert ended.code == 0
        await clean(harness, request)

    play(harness, scenario)


def test_a_submitter_that_is_gone_leaves_nothing_training_unseen(harness: KubeHarness) -> None:
    async def scenario() -> None:
        request = await begin(harness)
        harness.lab.operator.say(
            name(request),
            jobDeploymentStatus="Failed",
            jobStatus="RUNNING",
            reason="SubmissionFailed",
            message="Job submission has failed. Reason: BackoffLimitExceeded. Message: Job has reached the limit",
        )
        ended = await settle_exit(harness, request)
        assert ended.cause is EndCause.NODE_FAILED
        assert harness.lab.operator.list_pods(name(request)) == []
        await clean(harness, request)

    play(harness, scenario)


def test_a_submitter_that_never_reaches_the_head_started_nothing(harness: KubeHarness) -> None:
    async def scenario() -> None:
        request = harness.make_request()
        harness.lab.operator.take_over(name(request))
        await harness.launch(request)
        harness.lab.operator.say(name(request), jobDeploymentStatus="Initializing", jobStatus="")
        seen = await look(harness, request)
        assert isinstance(seen, Seen)
        assert seen.phase is Phase.PREPARING
        harness.lab.operator.say(
            name(request),
            jobDeploymentStatus="Failed",
            jobStatus="",
            reason="SubmissionFailed",
            message="Job submission has failed. Reason: BackoffLimitExceeded. Message: Job has reached the limit",
        )
        ended = await harness.settle(request.attempt, Phase.EXITED)
        assert (ended.failure, ended.exit) == (Failure.NODE_FAULT, None)
        assert harness.count_starts(request.attempt) == 0
        await clean(harness, request)

    play(harness, scenario)


def test_an_image_that_is_denied_is_told_in_the_kubelets_words(harness: KubeHarness) -> None:
    async def scenario() -> None:
        image = "registry.example/team/image:1"
        harness.lab.kubelet.denied[image] = "pull access denied, repository does not exist or may require authorization"
        request = harness.make_request(image=image)
        await harness.launch(request)
        ended = await harness.settle(request.attempt, Phase.EXITED)
        assert ended.failure is Failure.PULL_DENIED
        assert "pull access denied" in ended.note
        assert image in ended.note
        await clean(harness, request)

    play(harness, scenario)


def test_what_the_scheduler_has_no_node_for_waits_and_says_why(harness: KubeHarness) -> None:
    async def scenario() -> None:
        request = harness.make_request(gpus=4)
        held = await harness.hold_next_launch(lambda: harness.launch(request))
        pod = {
            "metadata": {"name": "strangers", "namespace": NAMESPACE, "labels": {}},
            "spec": {
                "nodeName": "n1",
                "containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "2"}}}],
            },
        }
        harness.lab.api.client.create(f"/api/v1/namespaces/{NAMESPACE}/pods", pod)
        await held.let_pass()

        async def waits() -> bool:
            seen = await look(harness, request)
            return isinstance(seen, Seen) and "Insufficient nvidia.com/gpu" in seen.note and seen.is_queued

        await until(waits)
        view = await harness.executor.capacity()
        assert isinstance(view, FleetView)
        assert sum(gpu.state is GpuState.FOREIGN for node in view.nodes for gpu in node.gpus) == 2
        harness.lab.api.client.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/strangers", {"gracePeriodSeconds": 0})
        await harness.settle(request.attempt, Phase.RUNNING)

    play(harness, scenario)


@pytest.mark.parametrize("code", [429, 500, 503])
def test_an_api_server_that_refuses_for_now_changes_nothing(harness: KubeHarness, code: int) -> None:
    async def scenario() -> None:
        request, late = await begin(harness), harness.make_request()
        harness.lab.api.server.faults.refuse(code, retry_after_s=1)
        assert isinstance(await look(harness, request), NoSignal)
        assert isinstance(await harness.executor.capacity(), NoSignal)
        assert isinstance(await harness.executor.inventory(), NoSignal)
        with pytest.raises(BackendUnreachable):
            await harness.executor.stop(request.attempt, 1)
        harness.lab.api.server.faults.clear()
        harness.lab.api.server.faults.refuse(code, "PATCH")
        with pytest.raises(BackendUnreachable):
            await harness.launch(late)
        harness.lab.api.server.faults.clear()
        await harness.launch(late)
        await harness.settle(late.attempt, Phase.RUNNING)
        assert [harness.count_starts(one.attempt) for one in (request, late)] == [1, 1]

    play(harness, scenario)


def test_a_token_that_is_no_good_any_more_is_no_word_of_the_attempt(harness: KubeHarness) -> None:
    async def scenario() -> None:
        request = await begin(harness)
        tokens = dict(harness.lab.api.server.tokens)
        harness.lab.api.server.tokens.clear()
        assert isinstance(await look(harness, request), NoSignal)
        harness.lab.api.server.tokens.update(tokens)
        await harness.finish(request, 4)
        assert (await settle_exit(harness, request)).code == 4

    play(harness, scenario)


def test_a_server_that_was_away_is_asked_again_and_all_is_known(harness: KubeHarness) -> None:
    async def scenario() -> None:
        request = await begin(harness)
        harness.make_unreachable()
        await harness.finish(request, 3)
        assert isinstance(await look(harness, request), NoSignal)
        harness.make_reachable()
        assert (await settle_exit(harness, request)).code == 3

    play(harness, scenario)


@pytest.mark.parametrize("bad_moment", ["closes", "expires", "away"])
def test_a_watch_that_breaks_is_taken_up_again(harness: KubeHarness, bad_moment: str) -> None:
    async def scenario() -> None:
        woken = asyncio.Event()
        loop = asyncio.get_running_loop()
        request = await begin(harness)

        def wake() -> None:
            loop.call_soon_threadsafe(woken.set)

        await harness.executor.start(wake)
        for _ in range(3):
            if bad_moment == "closes":
                harness.lab.api.server.faults.close_watches()
            elif bad_moment == "expires":
                harness.lab.api.server.faults.expire("watch=1")
                harness.lab.api.server.faults.close_watches()
            else:
                await asyncio.to_thread(harness.make_unreachable)
                harness.make_reachable()
        woken.clear()
        await harness.finish(request, 0)

        async def has_ended() -> bool:
            await asyncio.wait_for(woken.wait(), 30)
            woken.clear()
            seen = await look(harness, request)
            return isinstance(seen, Seen) and seen.phase is Phase.EXITED

        await until(has_ended)

    play(harness, scenario)


def test_a_name_that_a_stranger_has_is_left_to_them(harness: KubeHarness) -> None:
    async def scenario() -> None:
        request = harness.make_request()
        strangers = {
            "apiVersion": "ray.io/v1",
            "kind": "RayJob",
            "metadata": {"name": name(request), "namespace": NAMESPACE, "labels": {"owner": "somebody"}},
            "spec": {
                "entrypoint": "true",
                "suspend": True,
                "rayClusterSpec": {
                    "headGroupSpec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
                },
            },
        }
        made = harness.lab.inside.create(RAYJOBS, strangers)
        with pytest.raises(LaunchRefused, match=name(request)):
            await harness.launch(request)
        assert isinstance(await look(harness, request), Gone)
        await harness.executor.cleanup(request.attempt)
        await harness.executor.fence(request.attempt)
        left = harness.find_job(request.attempt)
        assert left is not None
        assert left["metadata"]["uid"] == made["metadata"]["uid"]
        assert "deletionTimestamp" not in left["metadata"]

    play(harness, scenario)


def test_a_job_that_somebody_deletes_ends_and_leaves_nothing(harness: KubeHarness) -> None:
    async def scenario() -> None:
        request = await begin(harness, TRAPS)
        job = harness.find_job(request.attempt)
        assert job is not None
        harness.lab.inside.delete(RAYJOBS, job)

        async def has_ended() -> bool:
            seen = await look(harness, request)
            assert not isinstance(seen, NoSignal), seen
            return isinstance(seen, Gone) or seen.phase is Phase.EXITED

        await until(has_ended)
        assert read(request, "saved") == "saved\n"
        assert harness.count_starts(request.attempt) == 1
        await clean(harness, request)

    play(harness, scenario)


def test_a_stop_gives_the_whole_grace_and_takes_the_code_of_the_end(harness: KubeHarness) -> None:
    async def scenario() -> None:
        request = await begin(harness, TRAPS, grace_s=30)
        await harness.executor.stop(request.attempt, 30)
        assert (await settle_exit(harness, request)).code == 9
        assert read(request, "saved") == "saved\n"
        await clean(harness, request)

    play(harness, scenario)


def test_who_does_not_listen_is_killed_without_the_console(harness: KubeHarness) -> None:
    async def scenario() -> None:
        request = await begin(harness, IGNORES)
        await harness.executor.stop(request.attempt, 0)
        await harness.restart()  # whoever asked for the end is gone
        ended = await settle_exit(harness, request)
        assert ended.code == 137

    play(harness, scenario)


def test_what_has_not_begun_is_stopped_by_taking_it_back(harness: KubeHarness) -> None:
    async def scenario() -> None:
        request = harness.make_request()
        harness.lab.operator.is_silent = True
        await harness.launch(request)
        await harness.executor.stop(request.attempt, 30)
        harness.lab.operator.is_silent = False
        await harness.settle(request.attempt, Phase.EXITED)
        assert harness.count_starts(request.attempt) == 0
        await clean(harness, request)

    play(harness, scenario)


def test_a_word_that_nobody_knows_is_shown_and_changes_nothing(harness: KubeHarness) -> None:
    async def scenario() -> None:
        request = await begin(harness)
        harness.lab.operator.say(name(request), jobDeploymentStatus="Levitating", jobStatus="RUNNING")
        seen = await look(harness, request)
        assert isinstance(seen, NoSignal)
        assert "Levitating" in seen.reason
        harness.lab.operator.say(name(request), jobDeploymentStatus="Running", jobStatus="RUNNING")
        harness.lab.operator.taken_over.clear()
        await harness.finish(request, 0)
        assert (await settle_exit(harness, request)).code == 0

    play(harness, scenario)


def test_secrets_are_files_that_the_job_reads_and_go_with_it(harness: KubeHarness) -> None:
    async def scenario() -> None:
        script = f'cat "$FORGE_SECRETS_DIR/TOKEN" >given; {COUNTS}'
        request = await begin(harness, script, secret=SECRET)
        assert read(request, "given") == SECRET
        await harness.finish(request, 0)
        await settle_exit(harness, request)
        await clean(harness, request)

    play(harness, scenario)


def test_two_pools_are_two_groups_and_the_command_runs_on_the_first_node(harness: KubeHarness) -> None:
    async def scenario() -> None:
        harness.lab.add_node("n2", gpus=2)
        harness.lab.add_node("n3", gpus=2)
        pools = (
            PoolRequest(name="actor", nodes=1, gpus_per_node=4, cpus=0.05, memory_bytes=64 * MIB),
            PoolRequest(name="rollout", nodes=2, gpus_per_node=2, cpus=0.05, memory_bytes=64 * MIB),
        )
        request = await begin(
            harness, f"echo $FORGE_NODE_RANK $RAY_ADDRESS >rank; {COUNTS}", pools=pools, spans_ray=True
        )
        pods = harness.lab.operator.list_pods(name(request))
        placed = sorted((pod["metadata"]["labels"]["forge.pool"], pod["spec"]["nodeName"]) for pod in pods)
        assert placed == [("actor", "n1"), ("rollout", "n2"), ("rollout", "n3")]
        assert read(request, "rank") == "0 127.0.0.1:6379\n"
        seen = await look(harness, request)
        assert isinstance(seen, Seen)
        assert len(seen.gpus) == 8
        await harness.finish(request, 0)
        assert (await settle_exit(harness, request)).code == 0
        await clean(harness, request)

    play(harness, scenario)


def test_without_the_right_to_see_all_pods_what_is_offered_is_said_to_be_a_part(harness: KubeHarness) -> None:
    async def scenario() -> None:
        harness.lab.api.server.faults.forbid("list", "pods")
        view = await harness.executor.capacity()
        assert isinstance(view, FleetView)
        assert not view.complete
        assert view.why_not

    play(harness, scenario)


def test_nodes_that_take_nothing_say_why(harness: KubeHarness) -> None:
    async def scenario() -> None:
        harness.lab.add_node("cordoned", unschedulable=True)
        harness.lab.add_node("tainted", taints=[{"key": "team", "value": "vision", "effect": "NoSchedule"}])
        view = await harness.executor.capacity()
        assert isinstance(view, FleetView)
        assert {node.name: node.accepts for node in view.nodes} == {"n1": True, "cordoned": False, "tainted": False}
        assert all(node.why_not for node in view.nodes if not node.accepts)
        assert {gpu.series for node in view.nodes for gpu in node.gpus} == {"h200-sxm"}

    play(harness, scenario)

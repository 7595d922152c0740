"""Launch, observe, stop, fence and clean up on a real engine."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from core.tests.containers.builders import (
    finish,
    make_host,
    make_request,
    make_settings,
    new_attempt,
    see,
    wait_for,
    wait_until,
)
from e2e.support.engines import PrivateEngine
from e2e.support.images import image_without_bash
from e2e.support.proxy import EngineProxy, engine_proxy
from starforge.containers.engine import Engine
from starforge.containers.gpus import MadeUpGpus, NotKnown, NvidiaSmi
from starforge.containers.host import ContainerHost
from starforge.containers.labels import name_container
from starforge.containers.lock import name_attempt_lock
from starforge.containers.settings import StorageMark
from starforge.contract.executor import GpuState, NodeView
from starforge.contract.launch import LaunchRequest, Mount, PoolRequest, Secret
from starforge.contract.observation import Failure, Gone, NoSignal, Phase, Seen
from starforge.errors import BackendUnreachable, Conflict, LaunchRefused, NoCapacity, NodeFault

pytestmark = pytest.mark.engine

OpenHost = Callable[..., ContainerHost]
TRAPS_TERM = "trap 'sleep 0.3; exit 9' TERM; echo ready; while true; do sleep 0.05; done"
IGNORES_TERM = "trap '' TERM; echo ready; while true; do sleep 0.05; done"


@pytest.fixture
def proxy(machine: PrivateEngine, tmp_path: Path) -> Iterator[EngineProxy]:
    with engine_proxy(tmp_path / "p.sock", machine.socket_path) as proxy:
        yield proxy


@pytest.fixture
def far_host(host: ContainerHost, proxy: EngineProxy, tmp_path: Path, secrets_root: Path) -> ContainerHost:
    """A host that reaches its engine through the proxy; what it starts is removed with `host`'s."""
    del host
    return make_host(Engine(proxy.socket_path), make_settings(tmp_path, secrets_root))


def count_containers(machine: PrivateEngine) -> int:
    return len(machine.engine.list_containers())


def read_runs(request: LaunchRequest) -> str:
    """What the job has written to its file `runs` so far: a line each time it started."""
    file = Path(request.workdir) / "runs"
    return file.read_text() if file.exists() else ""


def wait_for_line(host: ContainerHost, attempt: str, line: bytes) -> None:
    wait_until(lambda: any(line in chunk.content for chunk in host.logs(attempt)), f"{line!r} in the log")  # type: ignore[arg-type]  # an attempt


def test_an_attempt_runs_and_its_exit_is_kept_until_cleanup(host: ContainerHost, tmp_path: Path) -> None:
    request = make_request(tmp_path)
    host.launch(request)
    running = wait_for(host, request.attempt, Phase.RUNNING)
    assert len(running.gpus) == 1
    assert running.image_id is not None
    finish(request, 7)
    seen = wait_for(host, request.attempt, Phase.EXITED)
    assert seen.exit is not None
    assert (seen.exit.code, seen.exit.out_of_memory) == (7, False)
    assert seen.exit.engine_started_at is not None
    assert seen.exit.finished_at is not None
    assert seen.exit.finished_at > seen.exit.engine_started_at
    host.cleanup(request.attempt)
    host.cleanup(request.attempt)
    assert isinstance(see(host, request.attempt), Gone)


def test_the_job_is_its_user_and_limits_are_clipped_to_what_the_engine_may_give(
    host: ContainerHost, tmp_path: Path
) -> None:
    request = make_request(tmp_path, "id -u; ulimit -Hn; pwd; exit 0")
    host.launch(request)
    wait_for(host, request.attempt, Phase.EXITED)
    user, files, folder = b"".join(chunk.content for chunk in host.logs(request.attempt)).split()
    assert user == b"1000"
    assert 0 < int(files) <= 1048576
    assert folder.decode() == request.workdir


def test_limits_that_the_engine_refuses_are_left_out_when_its_process_is_not_known(
    far_host: ContainerHost, tmp_path: Path
) -> None:
    request = make_request(tmp_path, "exit 0")
    far_host.launch(request)
    seen = wait_for(far_host, request.attempt, Phase.EXITED)
    assert seen.failure is None
    assert seen.exit is not None
    assert seen.exit.engine_started_at is None


def test_launch_twice_gives_one_container_even_after_it_ended(
    host: ContainerHost, machine: PrivateEngine, tmp_path: Path
) -> None:
    request = make_request(tmp_path, "echo x >>runs; exit 3")
    host.launch(request)
    host.launch(request)
    wait_for(host, request.attempt, Phase.EXITED)
    host.launch(request)
    assert count_containers(machine) == 1
    assert read_runs(request) == "x\n"
    seen = see(host, request.attempt)
    assert isinstance(seen, Seen)
    assert seen.exit is not None
    assert seen.exit.code == 3


def test_an_attempt_that_was_cleaned_up_never_starts_again(host: ContainerHost, tmp_path: Path) -> None:
    request = make_request(tmp_path, "exit 0")
    host.launch(request)
    wait_for(host, request.attempt, Phase.EXITED)
    host.cleanup(request.attempt)
    with pytest.raises(LaunchRefused, match="fenced"):
        host.launch(request)


def test_gpus_are_given_lowest_first_and_are_free_at_the_exit(host: ContainerHost, tmp_path: Path) -> None:
    gpus = [gpu.uuid for gpu in MadeUpGpus(4, "Test GPU", "n1").survey().gpus]  # type: ignore[union-attr]  # always known
    first, second = make_request(tmp_path, gpus=2), make_request(tmp_path, gpus=2)
    host.launch(first)
    host.launch(second)
    assert list(wait_for(host, first.attempt, Phase.RUNNING).gpus) == gpus[:2]
    assert list(wait_for(host, second.attempt, Phase.RUNNING).gpus) == gpus[2:]
    third = make_request(tmp_path, gpus=1)
    with pytest.raises(NoCapacity, match="asks for 1 GPUs and 0 are free"):
        host.launch(third)
    assert isinstance(see(host, third.attempt), Gone)
    finish(first, 0)
    wait_for(host, first.attempt, Phase.EXITED)
    host.launch(third)
    assert list(wait_for(host, third.attempt, Phase.RUNNING).gpus) == gpus[:1]


def test_cpus_and_memory_are_counted_too(host: ContainerHost, tmp_path: Path) -> None:
    view = host.view()
    assert isinstance(view, NodeView)
    pool = PoolRequest(name="main", nodes=1, gpus_per_node=0, cpus=view.cpus - 0.5, memory_bytes=64 * 1024**2)
    host.launch(make_request(tmp_path, pools=(pool,)))
    with pytest.raises(NoCapacity, match=r"CPUs and 0\.5 are free"):
        host.launch(make_request(tmp_path, pools=(pool,)))
    greedy = PoolRequest(name="main", nodes=1, gpus_per_node=0, cpus=0.1, memory_bytes=view.memory_bytes)
    with pytest.raises(NoCapacity, match="bytes of memory"):
        host.launch(make_request(tmp_path, pools=(greedy,)))


def test_the_view_names_who_holds_what_and_what_is_foreign(
    host: ContainerHost, open_host: OpenHost, tmp_path: Path
) -> None:
    other = open_host(install="other", state_dir=tmp_path / "other-state")
    theirs = make_request(tmp_path, install="other")
    other.launch(theirs)
    ours = make_request(tmp_path)
    host.launch(ours)
    view = host.view()
    assert isinstance(view, NodeView)
    assert [gpu.state for gpu in view.gpus] == [GpuState.FOREIGN, GpuState.HELD, GpuState.FREE, GpuState.FREE]
    assert view.gpus[1].attempt == ours.attempt
    assert set(view.held) == {ours.attempt, theirs.attempt}
    inventory = host.inventory()
    assert not isinstance(inventory, NoSignal)
    assert set(inventory) == {ours.attempt}


def test_unknown_gpus_are_neither_none_nor_all_free(
    host: ContainerHost, machine: PrivateEngine, tmp_path: Path, secrets_root: Path
) -> None:
    class Hung:
        def survey(self) -> NotKnown:
            return NotKnown("nvidia-smi gave no answer in 20 s")

    blind = make_host(machine.engine, make_settings(tmp_path, secrets_root), Hung())
    view = blind.view()
    assert not isinstance(view, NoSignal)
    assert view.gpus_unknown.startswith("the GPUs of n1 are not known: nvidia-smi gave no answer in 20 s; ")
    assert "FORGE_GPU_RUNTIME=none" in view.gpus_unknown
    request = make_request(tmp_path)
    with pytest.raises(NodeFault, match="nvidia-smi gave no answer") as raised:
        blind.launch(request)
    assert "FORGE_GPU_RUNTIME=none" in raised.value.next_step
    assert isinstance(see(host, request.attempt), Gone)


def test_a_job_without_gpus_runs_where_gpus_are_not_known(
    machine: PrivateEngine, tmp_path: Path, secrets_root: Path, open_host: OpenHost
) -> None:
    missing = NvidiaSmi(program=str(tmp_path / "nvidia-smi"))
    open_host()  # removes what was started
    host = make_host(machine.engine, make_settings(tmp_path, secrets_root), missing)
    view = host.view()
    assert not isinstance(view, NoSignal)
    assert (view.accepts, view.gpus) == (True, ())
    assert view.cpus > 0
    request = make_request(tmp_path, gpus=0)
    host.launch(request)
    wait_for(host, request.attempt, Phase.RUNNING)
    finish(request, 0)
    assert wait_for(host, request.attempt, Phase.EXITED).failure is None


def test_a_share_that_is_not_mounted_is_a_node_fault(open_host: OpenHost, tmp_path: Path) -> None:
    share = tmp_path / "share"
    share.mkdir()
    host = open_host(storage=StorageMark(share, "share-1"))
    request = make_request(tmp_path)
    with pytest.raises(NodeFault, match="storage not mounted"):
        host.launch(request)
    (share / ".starforge-storage").write_text("share-2\n")
    with pytest.raises(NodeFault, match="another share's"):
        host.launch(request)
    view = host.view()
    assert isinstance(view, NodeView)
    assert (view.accepts, "another share's" in view.why_not) == (False, True)
    (share / ".starforge-storage").write_text("share-1\n")
    host.launch(request)
    wait_for(host, request.attempt, Phase.RUNNING)


def test_secrets_are_files_for_the_jobs_user_and_nowhere_else(
    host: ContainerHost, machine: PrivateEngine, tmp_path: Path, secrets_root: Path
) -> None:
    request = make_request(
        tmp_path,
        "stat -c '%a %u' /run/starforge /run/starforge/TOKEN; sha256sum </run/starforge/TOKEN; env; exit 0",
        secrets={"TOKEN": Secret("s3cr3t-value")},
    )
    host.launch(request)
    seen = wait_for(host, request.attempt, Phase.EXITED)
    log = b"".join(chunk.content for chunk in host.logs(request.attempt)).decode()
    assert log.splitlines()[:2] == ["500 1000", "400 1000"]
    inspected = json.dumps(machine.engine.inspect(name_container(request.attempt)))
    listed = json.dumps(machine.engine.list_containers())
    kept = "".join(path.read_text() for path in (tmp_path / "state").rglob("*") if path.is_file())
    for place in (log, inspected, listed, kept, repr(request), repr(seen)):
        assert "s3cr3t-value" not in place
    host.cleanup(request.attempt)
    assert [path.name for path in secrets_root.iterdir()] == [".pending"]


def test_a_stop_ends_what_traps_it_by_itself(host: ContainerHost, tmp_path: Path) -> None:
    request = make_request(tmp_path, TRAPS_TERM)
    host.launch(request)
    wait_for_line(host, request.attempt, b"ready")
    host.stop(request.attempt, 10)
    host.stop(request.attempt, 9.9)
    seen = wait_for(host, request.attempt, Phase.EXITED)
    assert seen.exit is not None
    assert seen.exit.code == 9
    host.stop(request.attempt, 0)


def test_a_stop_kills_at_its_deadline_and_a_shorter_one_overtakes(host: ContainerHost, tmp_path: Path) -> None:
    request = make_request(tmp_path, IGNORES_TERM)
    host.launch(request)
    wait_for_line(host, request.attempt, b"ready")
    host.stop(request.attempt, 600)
    assert isinstance(see(host, request.attempt), Seen)
    host.stop(request.attempt, -19)
    seen = wait_for(host, request.attempt, Phase.EXITED, timeout_s=15)
    assert seen.exit is not None
    assert seen.exit.code == 137


def test_a_repeated_stop_neither_cuts_the_first_short_nor_signals_again(
    host: ContainerHost, open_host: OpenHost, tmp_path: Path
) -> None:
    script = "trap 'echo t >>terms' TERM; echo ready; until [ -s code ]; do sleep 0.02; done; exit 9"
    request = make_request(tmp_path, script)
    host.launch(request)
    wait_for_line(host, request.attempt, b"ready")
    terms = Path(request.workdir) / "terms"
    for remaining_s in (10, 9.9, 9.5, 9.0):
        host.stop(request.attempt, remaining_s)
        wait_until(terms.exists, "the first signal")
    restarted = open_host()
    restarted.stop(request.attempt, 9.5)
    wait_until(lambda: len(terms.read_text().split()) == 2, "the restarted process's own signal")
    finish(request, 9)
    seen = wait_for(host, request.attempt, Phase.EXITED)
    assert seen.exit is not None
    assert seen.exit.code == 9
    assert terms.read_text().split() == ["t", "t"]


def test_cleanup_of_what_runs_is_refused_and_leaves_it_alone(host: ContainerHost, tmp_path: Path) -> None:
    request = make_request(tmp_path)
    host.launch(request)
    with pytest.raises(Conflict, match="still runs"):
        host.cleanup(request.attempt)
    wait_for(host, request.attempt, Phase.RUNNING)
    host.launch(request)


def test_a_fence_before_the_launch_closes_it_for_ever_over_a_restart(
    host: ContainerHost, open_host: OpenHost, machine: PrivateEngine, tmp_path: Path
) -> None:
    request = make_request(tmp_path)
    fenced = host.fence(request.attempt)
    assert isinstance(fenced, Gone)
    assert fenced.fenced
    for one in (host, open_host()):
        with pytest.raises(LaunchRefused, match="fenced"):
            one.launch(request)
    assert count_containers(machine) == 0


def test_a_fence_of_what_runs_says_that_it_runs(host: ContainerHost, tmp_path: Path) -> None:
    request = make_request(tmp_path)
    host.launch(request)
    seen = host.fence(request.attempt)
    assert isinstance(seen, Seen)
    assert seen.phase is Phase.RUNNING
    host.launch(request)


@pytest.mark.parametrize("route", ["POST /v1.41/containers/create", "/start"])
def test_a_fence_during_a_launch_answers_with_what_came_of_it(
    far_host: ContainerHost, proxy: EngineProxy, machine: PrivateEngine, tmp_path: Path, route: str
) -> None:
    far_host.launch(make_request(tmp_path))  # the first one learns the engine's limits
    request = make_request(tmp_path)
    there, let_pass = proxy.hold(route)
    answers: list[object] = []
    launching = threading.Thread(target=far_host.launch, args=(request,))
    launching.start()
    assert there.wait(10)
    fencing = threading.Thread(target=lambda: answers.append(far_host.fence(request.attempt)))
    fencing.start()
    wait_until((tmp_path / "state/fences" / request.attempt).exists, "the fence on disk")
    assert not answers
    let_pass.set()
    launching.join()
    fencing.join()
    answer = answers[0]
    assert isinstance(answer, Seen)
    assert answer.phase is Phase.RUNNING
    assert count_containers(machine) == 2


def test_a_fence_does_not_wait_for_the_start_of_another_attempt(
    far_host: ContainerHost, host: ContainerHost, proxy: EngineProxy, tmp_path: Path
) -> None:
    slow = make_request(tmp_path)
    other = next(one for one in iter(new_attempt, None) if name_attempt_lock(tmp_path, one) != _lock_of(slow, tmp_path))
    there, let_pass = proxy.hold("POST /v1.41/containers/create")
    launching = threading.Thread(target=far_host.launch, args=(slow,))
    launching.start()
    try:
        assert there.wait(10)
        answer = host.fence(other)
    finally:
        let_pass.set()
        launching.join()
    assert isinstance(answer, Gone)
    assert answer.fenced


def _lock_of(request: LaunchRequest, folder: Path) -> Path:
    return name_attempt_lock(folder, request.attempt)


@pytest.mark.parametrize("route", ["/start", "POST /v1.41/containers/create"])
def test_after_a_lost_answer_inventory_tells_and_a_repeat_is_safe(
    far_host: ContainerHost, proxy: EngineProxy, machine: PrivateEngine, tmp_path: Path, route: str
) -> None:
    request = make_request(tmp_path, "echo x >>runs; until [ -s code ]; do sleep 0.02; done; exit 0")
    lost = proxy.lose_reply(route)
    with pytest.raises(BackendUnreachable):
        far_host.launch(request)
    assert lost.is_set()
    inventory = far_host.inventory()
    assert not isinstance(inventory, NoSignal)
    assert request.attempt in inventory
    far_host.launch(request)
    wait_for(far_host, request.attempt, Phase.RUNNING)
    assert count_containers(machine) == 1
    wait_until(lambda: read_runs(request) != "", "the job's first line")
    assert read_runs(request) == "x\n"


def test_an_engine_that_is_away_is_no_signal_and_unreachable(
    far_host: ContainerHost, proxy: EngineProxy, tmp_path: Path
) -> None:
    request = make_request(tmp_path)
    far_host.launch(request)
    proxy.go_away()
    assert isinstance(see(far_host, request.attempt), NoSignal)
    assert isinstance(far_host.inventory(), NoSignal)
    assert isinstance(far_host.view(), NoSignal)
    assert isinstance(far_host.fence(make_request(tmp_path).attempt), NoSignal)
    for call in (
        lambda: far_host.stop(request.attempt, 1),
        lambda: far_host.cleanup(request.attempt),
        lambda: far_host.launch(make_request(tmp_path)),
        lambda: far_host.sweep([]),
    ):
        with pytest.raises(BackendUnreachable):
            call()
    proxy.come_back()
    wait_for(far_host, request.attempt, Phase.RUNNING)


def test_a_failed_start_leaves_nothing_and_says_why(
    host: ContainerHost, machine: PrivateEngine, tmp_path: Path
) -> None:
    bashless = make_request(tmp_path, image=image_without_bash(machine))
    host.launch(bashless)
    seen = wait_for(host, bashless.attempt, Phase.EXITED)
    impostor = make_request(tmp_path, "exit 127")
    host.launch(impostor)
    assert wait_for(host, impostor.attempt, Phase.EXITED).failure is None
    host.cleanup(impostor.attempt)
    assert (seen.failure, seen.exit) == (Failure.START_FAILED, None)
    assert "the image has no bash" in seen.note
    host.launch(bashless)
    host.cleanup(bashless.attempt)
    assert isinstance(see(host, bashless.attempt), Gone)
    unmounted = make_request(tmp_path, mounts=(Mount(str(tmp_path / "missing"), "/data", read_only=True),))
    with pytest.raises(NodeFault, match="missing on this machine"):
        host.launch(unmounted)
    tiny = PoolRequest(name="main", nodes=1, gpus_per_node=0, cpus=0.1, memory_bytes=1024)
    with pytest.raises(LaunchRefused, match="Minimum memory"):
        host.launch(make_request(tmp_path, pools=(tiny,)))
    assert count_containers(machine) == 0


@pytest.mark.parametrize("image", ["Train:1", "train:a:b", "train@sha256:12", "train:1 ", "http://registry/train"])
def test_an_image_whose_name_no_engine_takes_is_refused(host: ContainerHost, tmp_path: Path, image: str) -> None:
    request = make_request(tmp_path, image=image)
    with pytest.raises(LaunchRefused, match="is no image reference"):
        host.launch(request)
    assert isinstance(see(host, request.attempt), Gone)


def test_a_wish_for_several_nodes_or_another_install_is_refused(host: ContainerHost, tmp_path: Path) -> None:
    with pytest.raises(LaunchRefused, match="2 nodes"):
        host.launch(make_request(tmp_path, pools=(PoolRequest(name="main", nodes=2, gpus_per_node=1),)))
    with pytest.raises(LaunchRefused, match="install other"):
        host.launch(make_request(tmp_path, install="other"))


def test_a_leftover_of_a_dead_launcher_is_removed_and_the_launch_begins_anew(
    host: ContainerHost, machine: PrivateEngine, tmp_path: Path
) -> None:
    gpu = host.view().gpus[0].uuid  # type: ignore[union-attr]  # a view
    request, other = make_request(tmp_path), make_request(tmp_path)
    for attempt in (request.attempt, other.attempt):
        labels = {"forge.install": "lab", "forge.attempt": attempt, "forge.gpu.0": gpu}
        machine.engine.create(name_container(attempt), {"Image": request.image, "Cmd": ["true"], "Labels": labels})
    host.launch(request)
    assert wait_for(host, request.attempt, Phase.RUNNING).gpus == (gpu,)
    assert isinstance(see(host, other.attempt), Gone)


def test_sweep_removes_only_what_is_idle_and_unknown(
    host: ContainerHost, open_host: OpenHost, machine: PrivateEngine, tmp_path: Path
) -> None:
    foreign = open_host(install="other", state_dir=tmp_path / "other-state")
    theirs = make_request(tmp_path, "exit 0", install="other")
    foreign.launch(theirs)
    wait_for(foreign, theirs.attempt, Phase.EXITED)
    ended, kept, running = make_request(tmp_path, "exit 0"), make_request(tmp_path, "exit 0"), make_request(tmp_path)
    for request in (ended, kept, running):
        host.launch(request)
    wait_for(host, ended.attempt, Phase.EXITED)
    wait_for(host, kept.attempt, Phase.EXITED)
    created = make_request(tmp_path)
    labels = {"forge.install": "lab", "forge.attempt": created.attempt}
    machine.engine.create(name_container(created.attempt), {"Image": created.image, "Cmd": ["true"], "Labels": labels})
    swept = host.sweep([kept.attempt])
    assert set(swept.removed) == {ended.attempt, created.attempt}
    assert swept.running == (running.attempt,)
    assert isinstance(see(host, kept.attempt), Seen)
    assert isinstance(see(host, running.attempt), Seen)
    assert isinstance(see(foreign, theirs.attempt), Seen)


def test_events_wake_when_an_attempt_ends(host: ContainerHost, tmp_path: Path) -> None:
    woken = threading.Event()
    host.start(woken.set)
    assert woken.wait(10)
    request = make_request(tmp_path)
    host.launch(request)
    wait_for(host, request.attempt, Phase.RUNNING)
    woken.clear()
    finish(request, 0)
    assert woken.wait(10)


def test_logs_continue_behind_a_cursor(host: ContainerHost, tmp_path: Path) -> None:
    request = make_request(tmp_path, "echo one; until [ -s code ]; do sleep 0.02; done; echo two >&2; exit 0")
    host.launch(request)
    wait_for_line(host, request.attempt, b"one")
    first = list(host.logs(request.attempt))
    finish(request, 0)
    wait_for(host, request.attempt, Phase.EXITED)
    rest = list(host.logs(request.attempt, first[-1].cursor))
    assert [chunk.content for chunk in (*first, *rest)] == [b"one\n", b"two\n"]
    assert list(host.logs(request.attempt, rest[-1].cursor)) == []


def test_out_of_memory_is_told(host: ContainerHost, tmp_path: Path) -> None:
    request = make_request(tmp_path, "python3 -c 'bytearray(300 << 20)'")
    host.launch(request)
    seen = wait_for(host, request.attempt, Phase.EXITED)
    assert seen.exit is not None
    assert (seen.exit.code, seen.exit.out_of_memory) == (137, True)


def test_observe_answers_for_each_that_was_asked(host: ContainerHost, tmp_path: Path) -> None:
    request = make_request(tmp_path)
    host.launch(request)
    unknown = make_request(tmp_path).attempt
    began = time.time()
    answers = host.observe([request.attempt, unknown])
    assert isinstance(answers[request.attempt], Seen)
    gone = answers[unknown]
    assert isinstance(gone, Gone)
    assert not gone.fenced
    assert gone.at >= began


@pytest.mark.parametrize(("user", "expected"), [("0", b"0:0"), ("1234", b"1234:0"), ("1234:77", b"1234:77")])
def test_the_images_own_user_can_read_the_secrets(
    host: ContainerHost, machine: PrivateEngine, tmp_path: Path, user: str, expected: bytes
) -> None:
    image = build_image_with_user(machine, user)
    script = "echo $(id -u):$(id -g) $(cat /run/starforge/A); exit 0"
    request = make_request(tmp_path, script, image=image, user=None, secrets={"A": Secret("read")})
    host.launch(request)
    wait_for(host, request.attempt, Phase.EXITED)
    assert b"".join(chunk.content for chunk in host.logs(request.attempt)) == expected + b" read\n"


def test_an_image_whose_user_is_a_name_is_refused(host: ContainerHost, machine: PrivateEngine, tmp_path: Path) -> None:
    image = build_image_with_user(machine, "somebody")
    with pytest.raises(LaunchRefused, match="FORGE_JOB_UID"):
        host.launch(make_request(tmp_path, image=image, user=None, secrets={"A": Secret("b")}))
    assert count_containers(machine) == 0


def test_a_start_that_the_engine_refuses_is_told_until_cleanup(
    host: ContainerHost, open_host: OpenHost, machine: PrivateEngine, tmp_path: Path
) -> None:
    request = make_request(tmp_path, image=build_image_with_user(machine, "somebody"), user=None)
    host.launch(request)
    for one in (host, open_host()):
        one.launch(request)
        seen = see(one, request.attempt)
        assert isinstance(seen, Seen)
        assert (seen.phase, seen.failure) == (Phase.EXITED, Failure.START_FAILED)
        assert "does not know the user" in seen.note
        inventory = one.inventory()
        assert not isinstance(inventory, NoSignal)
        assert set(inventory) == {request.attempt}
    assert count_containers(machine) == 0
    host.cleanup(request.attempt)
    assert isinstance(see(host, request.attempt), Gone)


def build_image_with_user(machine: PrivateEngine, user: str) -> str:
    container = machine.engine.create("author", {"Image": "starforge-test/host:1", "Cmd": ["true"]})["Id"]
    tag = "user" + user.replace(":", "-")
    change = quote(f"USER {user}")
    machine.ask("POST", f"/commit?container={container}&repo=starforge-test/author&tag={tag}&changes={change}")
    machine.engine.remove(container)
    return f"starforge-test/author:{tag}"

"""Pulls from a registry on this host, as launches meet them."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.tests.containers.builders import finish, make_request, new_attempt, see, wait_for, wait_until
from e2e.support.engines import PrivateEngine
from e2e.support.registry import StubRegistry, stub_registry
from starforge.containers.engine import EngineError
from starforge.containers.host import ContainerHost
from starforge.containers.pulls import PullEnd, PullLeft, Pulls
from starforge.contract.executor import NodeView
from starforge.contract.launch import RegistryLogin, Secret
from starforge.contract.observation import Failure, Gone, NoSignal, Phase, Seen
from starforge.errors import BackendUnreachable, LaunchRefused, NodeFault
from tools.host_image import Contents, find_or_build_tar

pytestmark = pytest.mark.engine

OpenHost = Callable[..., ContainerHost]


@pytest.fixture
def registry(machine: PrivateEngine) -> Iterator[StubRegistry]:
    with stub_registry(machine.gateway, find_or_build_tar(Contents(python=False))) as registry:
        yield registry
        for name in registry.manifests:
            forget(machine, registry.image(name))


def forget(machine: PrivateEngine, image: str) -> None:
    for listed in machine.engine.list_containers():
        machine.engine.remove(listed["Id"], force=True)
    try:
        machine.engine.inspect_image(image)
    except EngineError:
        return
    machine.ask("DELETE", f"/images/{image}?force=1")


def test_an_absent_image_is_fetched_and_the_attempt_starts_with_its_digest(
    host: ContainerHost, registry: StubRegistry, tmp_path: Path
) -> None:
    request = make_request(tmp_path, image=registry.image("ok"))
    host.launch(request)
    seen = wait_for(host, request.attempt, Phase.RUNNING)
    assert seen.image_digest is not None
    assert seen.image_digest.startswith("sha256:")
    finish(request, 4)
    ended = wait_for(host, request.attempt, Phase.EXITED)
    assert ended.exit is not None
    assert ended.exit.code == 4


def test_one_pull_serves_all_who_wait_and_its_bytes_are_shown(
    host: ContainerHost, registry: StubRegistry, tmp_path: Path
) -> None:
    requests = [make_request(tmp_path, image=registry.image("slow")) for _ in range(3)]
    for request in requests:
        host.launch(request)
        host.launch(request)

    def is_half_way() -> bool:
        seen = see(host, requests[2].attempt)
        return isinstance(seen, Seen) and seen.pull is not None and (seen.pull.total_bytes or 0) > 4 << 20

    wait_until(is_half_way, "the pull to show its bytes")
    seen = see(host, requests[0].attempt)
    assert isinstance(seen, Seen)
    assert seen.phase is Phase.PREPARING
    assert seen.pull is not None
    assert seen.pull.total_bytes is not None
    assert 0 <= seen.pull.done_bytes < seen.pull.total_bytes
    inventory = host.inventory()
    assert not isinstance(inventory, NoSignal)
    assert set(inventory) == {request.attempt for request in requests}
    registry.go_on.set()
    for request in requests:
        wait_for(host, request.attempt, Phase.RUNNING)
    assert registry.asked["slow", "manifests"] <= 2  # one pull asks by HEAD, then by GET


@pytest.mark.parametrize(
    ("name", "words"),
    [("denied", "denied"), ("missing", "name unknown"), ("secret", "unauthorized"), ("arm", "arm64")],
)
def test_what_cannot_be_fetched_fails_fast_with_the_engines_words(
    host: ContainerHost, registry: StubRegistry, tmp_path: Path, name: str, words: str
) -> None:
    request = make_request(tmp_path, image=registry.image(name))
    host.launch(request)
    seen = wait_for(host, request.attempt, Phase.EXITED)
    assert seen.failure is Failure.PULL_DENIED
    assert words in seen.note
    host.launch(request)
    assert isinstance(see(host, request.attempt), Seen)
    host.cleanup(request.attempt)
    assert isinstance(see(host, request.attempt), Gone)


def test_a_present_image_for_another_processor_is_refused(
    host: ContainerHost, registry: StubRegistry, tmp_path: Path
) -> None:
    first = make_request(tmp_path, image=registry.image("arm"))
    host.launch(first)
    wait_for(host, first.attempt, Phase.EXITED)
    with pytest.raises(LaunchRefused, match="arm64"):
        host.launch(make_request(tmp_path, image=registry.image("arm")))


def test_a_login_reaches_the_registry_and_nothing_else(
    host: ContainerHost, registry: StubRegistry, machine: PrivateEngine, tmp_path: Path, secrets_root: Path
) -> None:
    login = RegistryLogin(username="user", password=Secret("pw"))
    request = make_request(tmp_path, image=registry.image("secret"), registry_login=login)
    host.launch(request)
    wait_for(host, request.attempt, Phase.RUNNING)
    assert '"pw"' not in json.dumps(machine.engine.inspect(f"starforge-{request.attempt}"))
    assert list((secrets_root / ".pending").iterdir()) == []


def test_a_busy_registry_is_asked_again(machine: PrivateEngine, registry: StubRegistry) -> None:
    pulls = Pulls(machine.engine, stall_s=60, first_pause_s=0.05)
    assert pulls.join(registry.image("busy"), None, new_attempt()).result(30) == PullEnd()
    assert registry.asked["busy", "manifests"] >= 3


@pytest.mark.parametrize("name", ["broken", "stall"])
def test_a_pull_ends_only_for_lack_of_progress(machine: PrivateEngine, registry: StubRegistry, name: str) -> None:
    pulls = Pulls(machine.engine, stall_s=1, first_pause_s=0.1)
    end = pulls.join(registry.image(name), None, new_attempt()).result(30)
    assert end.failure is Failure.NODE_FAULT
    assert "no progress" in end.note


def test_a_download_that_breaks_off_again_and_again_is_given_up(machine: PrivateEngine, registry: StubRegistry) -> None:
    pulls = Pulls(machine.engine, stall_s=2, first_pause_s=0.1)
    end = pulls.join(registry.image("cut"), None, new_attempt()).result(60)
    assert end.failure is Failure.NODE_FAULT


def test_a_pull_that_nobody_waits_for_is_cancelled(machine: PrivateEngine, registry: StubRegistry) -> None:
    pulls = Pulls(machine.engine, stall_s=60)
    first, second = new_attempt(), new_attempt()
    futures = [pulls.join(registry.image("slow"), None, attempt) for attempt in (first, second)]
    pulls.leave(first)
    with pytest.raises(PullLeft):
        futures[0].result(5)
    assert not futures[1].done()
    pulls.leave(second)
    with pytest.raises(PullLeft):
        futures[1].result(5)
    wait_until(lambda: not any(t.name.startswith("pull") for t in threading.enumerate()), "the pull's thread to end")


def test_a_stop_or_a_fence_during_the_pull_means_that_it_never_starts(
    host: ContainerHost, registry: StubRegistry, machine: PrivateEngine, tmp_path: Path
) -> None:
    stopped, fenced = (make_request(tmp_path, image=registry.image("slow")) for _ in range(2))
    for request in (stopped, fenced):
        host.launch(request)
    host.stop(stopped.attempt, 5)
    answer = host.fence(fenced.attempt)
    assert isinstance(answer, Gone)
    assert answer.fenced
    seen = see(host, stopped.attempt)
    assert isinstance(seen, Seen)
    assert (seen.phase, seen.note) == (Phase.EXITED, "stopped before it had started")
    registry.go_on.set()
    with pytest.raises(LaunchRefused, match="fenced"):
        host.launch(fenced)
    host.launch(stopped)
    assert isinstance(see(host, stopped.attempt), Seen)
    assert machine.engine.list_containers() == []


def test_a_restarted_process_goes_on_with_the_pull_and_the_launch(
    host: ContainerHost, open_host: OpenHost, registry: StubRegistry, tmp_path: Path, secrets_root: Path
) -> None:
    request = make_request(
        tmp_path, "cat /run/starforge/A >seen; exit 0", image=registry.image("slow"), secrets={"A": Secret("b")}
    )
    host.launch(request)
    host.close()
    assert isinstance(see(host, request.attempt), Seen)
    restarted = open_host()
    seen = see(restarted, request.attempt)
    assert isinstance(seen, Seen)
    assert seen.phase is Phase.PREPARING
    registry.go_on.set()
    restarted.resume()
    wait_for(restarted, request.attempt, Phase.EXITED)
    assert (Path(request.workdir) / "seen").read_text() == "b"
    assert list((secrets_root / ".pending").iterdir()) == []


def test_no_room_after_the_pull_is_told_as_such(host: ContainerHost, registry: StubRegistry, tmp_path: Path) -> None:
    waiting = make_request(tmp_path, image=registry.image("slow"))
    host.launch(waiting)
    quick = make_request(tmp_path, gpus=4)
    host.launch(quick)
    registry.go_on.set()
    seen = wait_for(host, waiting.attempt, Phase.EXITED)
    assert seen.failure is Failure.NO_CAPACITY
    view = host.view()
    assert isinstance(view, NodeView)
    assert set(view.held) == {quick.attempt}


def test_an_image_that_only_an_id_names_cannot_be_fetched(host: ContainerHost, tmp_path: Path) -> None:
    with pytest.raises(NodeFault, match="cannot be fetched by its id"):
        host.launch(make_request(tmp_path, image="sha256:" + "0" * 64))


def test_a_pull_outlives_an_engine_that_goes_away(machine: PrivateEngine, registry: StubRegistry) -> None:
    pulls = Pulls(machine.engine, stall_s=60, first_pause_s=0.1)
    attempt = new_attempt()
    future = pulls.join(registry.image("slow"), None, attempt)
    wait_until(lambda: registry.asked["slow", "blobs"] > 0, "the download to begin")
    machine.kill()
    with pytest.raises(BackendUnreachable):
        machine.engine.ping()
    machine.start()
    registry.go_on.set()
    assert future.result(60) == PullEnd()

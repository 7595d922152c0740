"""Engines that crash, stop and reboot under running and ended attempts."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.tests.containers.builders import finish, make_host, make_request, make_settings, see, wait_for, wait_until
from e2e.support.engines import PrivateEngine, find_obstacle, private_engine, write_nvidia_hook
from e2e.support.images import host_image
from e2e.support.owned import owned_folder
from starforge.containers.engine import Engine
from starforge.containers.gpus import Gpu, GpuSurvey
from starforge.containers.host import ContainerHost
from starforge.containers.settings import GpuRuntime
from starforge.contract.executor import GpuState, NodeView
from starforge.contract.observation import NoSignal, Phase, Seen
from starforge.errors import BackendUnreachable, NodeFault

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180)]

ENDS_ON_TERM = "trap 'exit 0' TERM; echo ready; until [ -s code ]; do sleep 0.02; done; exit $(cat code)"


class OneGpu:
    """A source that names one GPU of the stub runtime."""

    def __init__(self, uuid: str) -> None:
        self._uuid = uuid

    def survey(self) -> GpuSurvey:
        return GpuSurvey((Gpu(uuid=self._uuid, index=0, name="Stub", memory_bytes=None),))


@pytest.fixture(scope="module")
def plain() -> Iterator[PrivateEngine]:
    """An engine without live-restore, with the stub GPU runtime; tests may kill and restart it."""
    obstacle = find_obstacle()
    if obstacle:
        pytest.skip(obstacle)
    with owned_folder() as root:
        hooks = write_nvidia_hook(root / "bin", ("GPU-real",))
        with private_engine(root, path_prefix=hooks) as machine:
            host_image(machine)
            yield machine


@pytest.fixture
def plain_host(plain: PrivateEngine, tmp_path: Path, secrets_root: Path) -> Iterator[ContainerHost]:
    host = make_host(plain.engine, make_settings(tmp_path, secrets_root))
    yield host
    host.close()
    for listed in plain.engine.list_containers():
        plain.engine.remove(listed["Id"], force=True)


def test_a_crashed_engine_is_no_signal_and_then_tells_every_end(
    plain: PrivateEngine, plain_host: ContainerHost, tmp_path: Path
) -> None:
    ended, trapping, plain_job = (
        make_request(tmp_path, "exit 5"),
        make_request(tmp_path, ENDS_ON_TERM),
        make_request(tmp_path),
    )
    for request in (ended, trapping, plain_job):
        plain_host.launch(request)
    wait_for(plain_host, ended.attempt, Phase.EXITED)
    wait_until(lambda: any(True for _ in plain_host.logs(trapping.attempt)), "the trap to be set")
    plain.kill()
    assert isinstance(see(plain_host, ended.attempt), NoSignal)
    with pytest.raises(BackendUnreachable):
        plain_host.launch(make_request(tmp_path))
    plain.start()
    codes = {}
    for request in (ended, trapping, plain_job):
        seen = wait_for(plain_host, request.attempt, Phase.EXITED)
        assert seen.exit is not None
        codes[request.attempt] = seen.exit.code
    assert codes == {ended.attempt: 5, trapping.attempt: 0, plain_job.attempt: 143}
    view = plain_host.view()
    assert isinstance(view, NodeView)
    assert {gpu.state for gpu in view.gpus} == {GpuState.FREE}


def test_after_a_reboot_a_lost_exit_can_be_told_by_the_engines_start(
    plain: PrivateEngine, plain_host: ContainerHost, tmp_path: Path
) -> None:
    request = make_request(tmp_path)
    plain_host.launch(request)
    before = wait_for(plain_host, request.attempt, Phase.RUNNING)
    plain.reboot()
    seen = wait_for(plain_host, request.attempt, Phase.EXITED)
    assert seen.exit is not None
    assert seen.exit.code == 255
    assert seen.exit.finished_at is not None
    assert seen.exit.engine_started_at is not None
    assert seen.exit.finished_at >= seen.exit.engine_started_at
    assert seen.exit.engine_started_at > before.at - 60
    plain_host.launch(request)
    assert isinstance(wait_for(plain_host, request.attempt, Phase.EXITED), Seen)
    again = make_request(tmp_path, gpus=4)
    plain_host.launch(again)
    wait_for(plain_host, again.attempt, Phase.RUNNING)


def test_an_engine_that_accepts_and_says_nothing_is_no_signal(
    plain: PrivateEngine, tmp_path: Path, secrets_root: Path, plain_host: ContainerHost
) -> None:
    request = make_request(tmp_path)
    plain_host.launch(request)
    host = make_host(Engine(plain.socket_path, read_timeout_s=0.5), make_settings(tmp_path, secrets_root))
    wait_for(host, request.attempt, Phase.RUNNING)
    plain.freeze()
    try:
        seen = see(host, request.attempt)
        assert isinstance(seen, NoSignal)
        assert "timed out" in seen.reason
        with pytest.raises(BackendUnreachable):
            host.stop(request.attempt, 1)
    finally:
        plain.thaw()
    wait_for(host, request.attempt, Phase.RUNNING)


def test_events_are_followed_again_after_an_engine_restart(
    plain: PrivateEngine, plain_host: ContainerHost, tmp_path: Path
) -> None:
    wakes: list[int] = []
    plain_host.start(lambda: wakes.append(1))
    wait_until(lambda: bool(wakes), "the first wake")
    plain.kill()
    before = len(wakes)
    plain.start()
    wait_until(lambda: len(wakes) > before, "a wake once the engine is back")
    request = make_request(tmp_path)
    plain_host.launch(request)
    wait_for(plain_host, request.attempt, Phase.RUNNING)
    before = len(wakes)
    finish(request, 0)
    wait_until(lambda: len(wakes) > before, "a wake at the exit")


def test_the_gpu_runtime_gets_the_chosen_uuid_and_an_unknown_one_is_a_node_fault(
    plain: PrivateEngine, tmp_path: Path, secrets_root: Path, plain_host: ContainerHost
) -> None:
    del plain_host  # removes what is started here
    settings = make_settings(tmp_path, secrets_root, gpu_runtime=GpuRuntime.NVIDIA)
    request = make_request(
        tmp_path, "echo $NVIDIA_VISIBLE_DEVICES:$CUDA_VISIBLE_DEVICES >seen; exit 0", env={"CUDA_VISIBLE_DEVICES": "5"}
    )
    known = ContainerHost(plain.engine, OneGpu("GPU-real"), settings)
    known.launch(request)
    wait_for(known, request.attempt, Phase.EXITED)
    assert (Path(request.workdir) / "seen").read_text() == "GPU-real:\n"
    unknown = ContainerHost(plain.engine, OneGpu("GPU-gone"), settings)
    with pytest.raises(NodeFault, match="chosen GPU does not exist now"):
        unknown.launch(make_request(tmp_path))
    assert len(plain.engine.list_containers()) == 1


def test_an_engine_without_the_gpu_runtime_is_a_node_fault(
    machine: PrivateEngine, tmp_path: Path, secrets_root: Path
) -> None:
    settings = make_settings(tmp_path, secrets_root, gpu_runtime=GpuRuntime.NVIDIA)
    host = ContainerHost(machine.engine, OneGpu("GPU-real"), settings)
    request = make_request(tmp_path)
    with pytest.raises(NodeFault, match="no such GPU runtime"):
        host.launch(request)
    assert machine.engine.list_containers() == []
    assert not isinstance(see(host, request.attempt), Seen)


def test_a_disk_has_room_again_though_a_file_is_open_there(machine: PrivateEngine, tmp_path: Path) -> None:
    place, release = machine.root / "data" / "tmp", tmp_path / "release"
    hold = f"exec 3> {place}/held; echo held; until [ -e {release} ]; do sleep 0.05; done"
    with (tmp_path / "log").open("wb") as log:
        try:
            with machine.full("tmp"):
                holder = machine.spawn(["sh", "-c", hold], log)
                wait_until(lambda: (tmp_path / "log").read_text() == "held\n", "the file to be open")
            assert str(place) not in machine.run("cat", "/proc/mounts")
            machine.run("sh", "-c", f"head -c 64k /dev/zero > {place}/fits && rm {place}/fits")
        finally:
            release.touch()
    assert holder.wait(timeout=20) == 0


def test_a_private_engine_ends_with_the_process_that_made_it(tmp_path: Path) -> None:
    obstacle = find_obstacle()
    if obstacle:
        pytest.skip(obstacle)
    code = (
        "import sys, signal\nfrom pathlib import Path\nfrom e2e.support.engines import private_engine\n"
        f"with private_engine(Path({str(tmp_path)!r})) as m:\n"
        "    print(m.engine_pid, m.root, flush=True)\n    signal.pause()\n"
    )
    maker = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert maker.stdout is not None
    engine, root = maker.stdout.readline().split()
    assert Path(f"/proc/{engine}").exists()
    maker.send_signal(signal.SIGKILL)
    maker.wait()
    maker.stdout.close()
    wait_until(lambda: not Path(f"/proc/{engine}/exe").exists(), "the engine's end")
    shutil.rmtree(root, ignore_errors=True)

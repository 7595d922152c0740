"""The daemon as its console and its administrator meet it: real processes, a real engine."""

import json
import shutil
import time
from pathlib import Path

import httpx2
import pytest

from core.tests.containers.builders import make_request, wait_until
from forgelet.tests.support.daemons import Daemon, console_client, daemon_process, find_free_port, wait_for_epoch
from forgelet.tests.support.registrar import INSTALL, JOIN_TOKEN, Registrar
from starforge.contract.launch import LaunchRequest, Secret
from starforge.contract.observation import Gone, Phase, Seen
from starforge.contract.registration import Fenced
from starforge.contract.wire import (
    FENCE_HEADER,
    FENCE_PATH,
    HEALTH_PATH,
    INSTALL_HEADER,
    LAUNCH_PATH,
    OBSERVE_PATH,
    REAP_PATH,
    STOP_PATH,
    NodeReport,
    Observe,
    OneAttempt,
    Stop,
    decode,
    decode_error,
    decode_observations,
    encode,
)
from starforge.errors import BackendUnreachable, LaunchRefused, NodeFault, NotFound, SpecError
from starforge.trust.certificates import make_identity

pytestmark = pytest.mark.engine


def launch(console: httpx2.Client, request: LaunchRequest, **headers: str) -> httpx2.Response:
    return console.post(LAUNCH_PATH, content=encode(request), headers=headers)


def see(console: httpx2.Client, request: LaunchRequest) -> Seen | Gone:
    answer = console.post(OBSERVE_PATH, content=encode(Observe(attempts=(request.attempt,))))
    found = decode_observations(answer.content)[request.attempt]
    assert isinstance(found, Seen | Gone), found
    return found


def wait_for(console: httpx2.Client, request: LaunchRequest, phase: Phase) -> Seen:
    wait_until(lambda: getattr(see(console, request), "phase", None) is phase, f"{request.attempt} at {phase}")
    seen = see(console, request)
    assert isinstance(seen, Seen)
    return seen


def finish(request: LaunchRequest, code: int) -> None:
    (Path(request.workdir) / "code").write_text(str(code))


def test_a_job_starts_is_observed_stops_and_is_reaped(console: httpx2.Client, tmp_path: Path) -> None:
    request = make_request(tmp_path)
    assert launch(console, request).status_code == 200
    assert len(wait_for(console, request, Phase.RUNNING).gpus) == 1
    assert console.post(STOP_PATH, content=encode(Stop(attempt=request.attempt, remaining_s=1))).status_code == 200
    wait_for(console, request, Phase.EXITED)
    assert console.post(REAP_PATH, content=encode(OneAttempt(attempt=request.attempt))).status_code == 200
    assert isinstance(see(console, request), Gone)


def test_an_exit_is_told_by_a_heartbeat_at_once(console: httpx2.Client, registrar: Registrar, tmp_path: Path) -> None:
    registrar.heartbeat_s = 60.0
    request = make_request(tmp_path)
    launch(console, request)
    wait_for(console, request, Phase.RUNNING)
    finish(request, 0)
    ended = (request.attempt, Phase.EXITED.value)
    wait_until(lambda: ended in registrar.reports[-1].attempts.items(), "the heartbeat that tells of the exit", 20)


def test_heartbeats_go_on_once_a_folder_of_the_state_can_be_read_again(
    serving: Daemon, console: httpx2.Client, registrar: Registrar
) -> None:
    (folder,) = serving.state_dir.rglob("failed-launches")
    away = folder.rename(folder.with_name("away"))
    wait_until(lambda: "a heartbeat failed" in serving.log.read_text(), "the trouble to be logged")
    assert "failed-launches" in json.loads(serving.run("status", "--json").stdout)["trouble"]
    away.rename(folder)
    heard = len(registrar.reports)
    wait_until(lambda: len(registrar.reports) > heard + 1, "heartbeats to go on")
    assert console.get(HEALTH_PATH).status_code == 200


def test_a_fenced_attempt_is_refused(console: httpx2.Client, tmp_path: Path) -> None:
    request = make_request(tmp_path)
    answer = console.post(FENCE_PATH, content=encode(OneAttempt(attempt=request.attempt)))
    gone = decode_observations(answer.content)[request.attempt]
    assert isinstance(gone, Gone)
    assert gone.fenced
    refused = launch(console, request)
    assert refused.status_code == 409
    assert isinstance(decode_error(refused.content), LaunchRefused)


def test_health_tells_what_a_heartbeat_tells(console: httpx2.Client) -> None:
    report = decode(console.get(HEALTH_PATH).content, NodeReport)
    assert (report.node, report.install, report.epoch, report.superseded) == ("n3", INSTALL, 1, False)
    assert report.view is not None
    assert [gpu.name for gpu in report.view.gpus] == ["Test GPU"] * 4
    assert report.disk is not None


def test_only_the_console_it_joined_is_let_in(serving: Daemon, registrar: Registrar, tmp_path: Path) -> None:
    stranger = Registrar(storage_root="", identity_pem=make_identity("stranger").pem, joins=registrar.joins)
    with console_client(stranger, serving, tmp_path) as client, pytest.raises(httpx2.TransportError):
        client.get(HEALTH_PATH)
    wait_until(lambda: "a caller was refused: CERTIFICATE_VERIFY_FAILED" in serving.log.read_text(), "a word of it")


def test_a_console_of_another_install_is_refused(console: httpx2.Client) -> None:
    refused = console.get(HEALTH_PATH, headers={INSTALL_HEADER: "other"})
    assert refused.status_code == 404
    assert isinstance(decode_error(refused.content), NotFound)


@pytest.mark.parametrize("body", [b"", b"{", b'{"wire":99,"body":{}}', b'{"wire":1,"body":{"attempt":"../../etc"}}'])
def test_what_cannot_be_read_is_refused_and_the_daemon_goes_on(console: httpx2.Client, body: bytes) -> None:
    for path in (LAUNCH_PATH, FENCE_PATH, STOP_PATH, REAP_PATH):
        refused = console.post(path, content=body)
        assert refused.status_code == 400
        assert isinstance(decode_error(refused.content), SpecError)
    assert console.get(HEALTH_PATH).status_code == 200


def test_a_launch_without_the_nodes_fence_number_is_refused(console: httpx2.Client, tmp_path: Path) -> None:
    refused = launch(console, make_request(tmp_path), **{FENCE_HEADER: "x"})
    assert isinstance(decode_error(refused.content), SpecError)


def test_a_restarted_daemon_takes_the_next_epoch_and_finds_its_containers(
    serving: Daemon, console: httpx2.Client, registrar: Registrar, tmp_path: Path
) -> None:
    request = make_request(tmp_path)
    launch(console, request)
    wait_for(console, request, Phase.RUNNING)
    assert serving.terminate() == 0
    serving.start()
    wait_for_epoch(registrar, 2)
    assert wait_for(console, request, Phase.RUNNING).gpus
    assert request.attempt in registrar.reports[-1].attempts


def test_of_two_daemons_with_one_identity_the_first_starts_nothing_more(
    serving: Daemon, console: httpx2.Client, registrar: Registrar, tmp_path: Path
) -> None:
    copy = Daemon(tmp_path / "copy", serving.docker_socket, serving.secrets_dir, port=find_free_port())
    shutil.copytree(serving.state_dir, copy.state_dir)
    with daemon_process(copy):
        copy.start()
        wait_for_epoch(registrar, 2)
        wait_until(lambda: decode(console.get(HEALTH_PATH).content, NodeReport).superseded, "the first is superseded")
        refused = launch(console, make_request(tmp_path))
        assert isinstance(decode_error(refused.content), NodeFault)
        assert registrar.epoch == 2
        assert "another daemon" in decode_error(refused.content).why

        serving.kill()
        serving.start()
        wait_until(lambda: "another daemon has taken epoch 2" in serving.log.read_text(), "it is superseded again")
        assert registrar.epoch == 2


def test_a_node_marked_lost_removes_what_it_runs_before_it_starts_anything(
    serving: Daemon, console: httpx2.Client, registrar: Registrar, tmp_path: Path
) -> None:
    lost = make_request(tmp_path)
    launch(console, lost)
    wait_for(console, lost, Phase.RUNNING)
    serving.freeze()
    registrar.fenced = Fenced(fence=1, remove=(lost.attempt,))
    serving.thaw()
    wait_until(lambda: registrar.reports[-1].fence == 1, "it has cleaned up")
    assert isinstance(see(console, lost), Gone)
    assert isinstance(decode_error(launch(console, lost, **{FENCE_HEADER: "1"}).content), LaunchRefused)
    assert launch(console, make_request(tmp_path), **{FENCE_HEADER: "1"}).status_code == 200
    behind = launch(console, make_request(tmp_path), **{FENCE_HEADER: "2"})
    assert isinstance(decode_error(behind.content), NodeFault)


def test_a_daemon_whose_console_is_away_keeps_serving_and_comes_back(
    daemon: Daemon, registrar: Registrar, tmp_path: Path
) -> None:
    daemon.join(registrar.url, "gpu")
    registrar.refuse_with = 503
    daemon.start()
    headers = {INSTALL_HEADER: INSTALL, FENCE_HEADER: "0"}
    with console_client(registrar, daemon, tmp_path, **headers) as console:
        wait_until(lambda: _answers(console), "it serves")
        early = launch(console, make_request(tmp_path))
        assert isinstance(decode_error(early.content), NodeFault)
        registrar.refuse_with = 0
        wait_for_epoch(registrar, 1)
        assert launch(console, make_request(tmp_path)).status_code == 200


def test_a_daemon_that_was_frozen_starts_nothing_before_the_console_has_heard_it(
    serving: Daemon, console: httpx2.Client, registrar: Registrar, tmp_path: Path
) -> None:
    request = make_request(tmp_path)
    serving.freeze()
    heard, frozen_at = len(registrar.reports), time.monotonic()
    registrar.refuse_with = 503
    wait_until(lambda: time.monotonic() > frozen_at + 6, "it to have been away for longer than it may be")
    serving.thaw()
    refused = launch(console, request)
    assert isinstance(decode_error(refused.content), BackendUnreachable)
    assert "the console has not heard this machine for" in decode_error(refused.content).why
    assert isinstance(see(console, request), Gone)
    registrar.refuse_with = 0
    wait_until(lambda: len(registrar.reports) > heard + 1, "it is heard again")
    wait_until(lambda: launch(console, request).status_code == 200, "it starts")
    wait_for(console, request, Phase.RUNNING)
    assert serving.process is not None


def test_joining_again_keeps_the_name_and_changes_the_certificate_while_it_serves(
    serving: Daemon, console: httpx2.Client, registrar: Registrar, tmp_path: Path
) -> None:
    request = make_request(tmp_path)
    launch(console, request)
    wait_for(console, request, Phase.RUNNING)
    before = registrar.node_certificate
    serving.join(registrar.url, "gpu", token="")
    assert registrar.joins[-1].rejoin == "n3"
    assert registrar.node_certificate != before
    wait_for_epoch(registrar, 2)
    headers = {INSTALL_HEADER: INSTALL, FENCE_HEADER: "0"}
    with console_client(registrar, serving, tmp_path, **headers) as renewed:
        assert wait_for(renewed, request, Phase.RUNNING).gpus
    with pytest.raises(httpx2.TransportError):
        console.get(HEALTH_PATH)


def test_heartbeats_count_up_and_none_is_sent_twice(serving: Daemon, registrar: Registrar) -> None:
    wait_until(lambda: len(registrar.counters) > 5, "some heartbeats")
    assert registrar.counters == sorted(set(registrar.counters))
    assert serving.process is not None


def test_a_refused_join_keeps_nothing(daemon: Daemon, registrar: Registrar) -> None:
    done = daemon.run("join", "--server", registrar.url, "--fleet", "gpu", FORGE_JOIN_TOKEN="stolen")  # noqa: S106 - made up
    assert done.returncode == 1
    assert "the join token is not known here" in done.stderr
    assert "stolen" not in done.stdout + done.stderr
    assert not list(daemon.state_dir.glob("*.pem")) + list(daemon.state_dir.glob("*.json"))


def test_another_storage_root_than_the_consoles_is_refused(
    daemon: Daemon, registrar: Registrar, tmp_path: Path
) -> None:
    words = ("join", "--server", registrar.url, "--fleet", "gpu")
    done = daemon.run(*words, FORGE_JOIN_TOKEN=JOIN_TOKEN, FORGE_STORAGE_ROOT=str(tmp_path / "elsewhere"))
    assert done.returncode == 2
    assert (
        f"FORGE_STORAGE_ROOT is {tmp_path / 'elsewhere'} here and {registrar.storage_root} on the console"
        in done.stderr
    )
    refused = daemon.run("require", "--console", registrar.url, FORGE_STORAGE_ROOT=str(tmp_path / "elsewhere"))
    assert refused.returncode == 2
    daemon.join(registrar.url, "gpu", token="")  # it is the node that it was, and costs no other use of the token
    assert registrar.joins[-1].rejoin == "n3"


def test_serving_before_joining_says_what_to_do(daemon: Daemon) -> None:
    done = daemon.run("serve")
    assert done.returncode == 1
    assert "this machine has not joined a console" in done.stderr
    assert "forgelet join" in done.stderr


def test_status_says_who_the_machine_is_and_how_it_fares(serving: Daemon, registrar: Registrar) -> None:
    told = json.loads(serving.run("status", "--json").stdout)
    assert (told["node"], told["fleet"], told["server"], told["epoch"]) == ("n3", "gpu", registrar.url, 1)
    assert told["heard_s"] < 60
    assert abs(told["skew_s"]) < 5
    assert (told["reachable"], told["trouble"]) == (True, "")


def test_no_secret_shows_in_what_the_daemon_says_or_is_called_with(
    serving: Daemon, console: httpx2.Client, tmp_path: Path
) -> None:
    request = make_request(tmp_path, secrets={"TOKEN": Secret("daemon-s3cret")})
    launch(console, request)
    wait_for(console, request, Phase.RUNNING)
    assert serving.process is not None
    process = Path(f"/proc/{serving.process.pid}")
    said = serving.log.read_text() + process.joinpath("cmdline").read_text() + process.joinpath("environ").read_text()
    assert "daemon-s3cret" not in said
    assert "PRIVATE" not in said


def _answers(console: httpx2.Client) -> bool:
    try:
        return console.get(HEALTH_PATH).status_code == 200
    except httpx2.TransportError:
        return False

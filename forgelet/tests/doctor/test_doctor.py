"""`forgelet doctor` on machines in good and in bad health: a real engine, a real share, real addresses."""

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.tests.containers.builders import wait_until
from e2e.support.engines import PrivateEngine, private_engine
from e2e.support.images import image_without_bash
from e2e.support.owned import owned_folder
from forgelet.tests.support.daemons import Daemon, wait_for_epoch
from forgelet.tests.support.registrar import Registrar
from starforge.containers.settings import StorageMark
from starforge.trust.certificates import make_identity
from starforge_console.fleets.trials import prepare_trial
from starforge_forgelet.state import NodeIdentity, NodeState

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("doctor")]

JOBS = 12345


@contextlib.contextmanager
def listening() -> Iterator[int]:
    """A port of this host, which is ingest as far as a connection goes."""
    with socket.create_server(("0.0.0.0", 0)) as server:  # noqa: S104 - a private engine's containers connect to it
        yield int(server.getsockname()[1])


def let_join(
    patient: Daemon, share: Path, ingest_url: str, storage_id: str = "storage-1", user: str = f"{JOBS}:{JOBS}"
) -> None:
    """As joining leaves it: the console has made a folder for the jobs' user, whose the share's root is not."""
    trial = prepare_trial(StorageMark(root=share, content="storage-1"), user)
    identity = NodeIdentity(
        node="n3",
        fleet="gpu",
        install="lab",
        server="http://127.0.0.1:9",
        console_certificate=make_identity("console").certificate,
        advertise=f"127.0.0.1:{patient.port}",
        storage_root=str(share),
        storage_id=storage_id,
        ingest_url=ingest_url,
        heartbeat_s=10.0,
        job_user=trial.user,
        trial_folder=trial.folder,
        trial_trouble=trial.trouble,
    )
    NodeState(patient.state_dir).write_identity(identity, make_identity("n3").pem, 0)


def examine(patient: Daemon, *words: str) -> dict[str, dict[str, str]]:
    """The findings by name; the exit code must say whether one failed."""
    done = patient.run("doctor", "--json", "--port", str(patient.port), *words)
    checks: list[dict[str, str]] = json.loads(done.stdout)["checks"]
    assert done.returncode == int(any(check["state"] == "failed" for check in checks)), done.stderr
    assert all(check["next_step"] for check in checks if check["state"] in {"failed", "warning"})
    return {check["name"]: check for check in checks}


def states(checks: dict[str, dict[str, str]]) -> dict[str, str]:
    return {name: check["state"] for name, check in checks.items()}


def test_a_healthy_machine_is_found_so_and_nothing_is_left_of_the_look(
    patient: Daemon, doctors_engine: PrivateEngine, share: Path
) -> None:
    with listening() as port:
        let_join(patient, share, f"http://{doctors_engine.gateway}:{port}")
        checks = examine(patient)
    found = states(checks)
    # This engine was started without live-restore, which is Docker's default.
    assert (found.pop("engine"), found.pop("clock"), found.pop("disk")) == ("warning", "not checked", found["gpus"])
    assert set(found.values()) == {"ok"}
    assert f"user {JOBS}:{JOBS} writes, renames and reads back" in checks["storage_in_container"]["message"]
    assert "live-restore" in checks["engine"]["next_step"]
    assert doctors_engine.engine.list_containers("forge.doctor") == []
    assert share.stat().st_uid != JOBS
    assert [path for path in share.rglob("*") if path.is_file()] == [share / ".starforge-storage"]


def test_the_images_own_user_is_tried_where_the_fleet_lets_it_run_jobs(patient: Daemon, share: Path) -> None:
    let_join(patient, share, "http://127.0.0.1:9", user="image")
    finding = examine(patient)["storage_in_container"]
    assert (finding["state"], "the image's own user writes" in finding["message"]) == ("ok", True)


def test_quick_starts_no_container(patient: Daemon, share: Path) -> None:
    let_join(patient, share, "http://127.0.0.1:9")
    found = states(examine(patient, "--quick"))
    assert found["container"] == "not checked"
    assert "storage_in_container" not in found


def test_a_share_where_the_jobs_user_cannot_write_is_found(
    patient: Daemon, doctors_engine: PrivateEngine, share: Path
) -> None:
    let_join(patient, share, f"http://{doctors_engine.gateway}:9")
    os.chown(NodeState(patient.state_dir).load_identity().trial_folder, 0, 0)  # as all_squash has it
    checks = examine(patient)
    assert checks["storage"]["state"] == "ok"
    assert checks["storage_in_container"]["state"] == "failed"
    assert "Permission denied" in checks["storage_in_container"]["message"]
    assert "all_squash" in checks["storage_in_container"]["next_step"]
    assert (checks["ingest"]["state"], checks["ingest_in_container"]["state"]) == ("warning", "failed")
    assert "Connection refused" in checks["ingest_in_container"]["message"]


def test_a_share_that_takes_nothing_from_root_is_a_case_of_root_squash(
    patient: Daemon, doctors_engine: PrivateEngine, share: Path
) -> None:
    let_join(patient, share, "http://127.0.0.1:9", user="0:0")
    folder = NodeState(patient.state_dir).load_identity().trial_folder
    doctors_engine.run("mount", "-t", "sysfs", "sysfs", folder)  # where root may not make files either
    try:
        finding = examine(patient)["storage_in_container"]
    finally:
        doctors_engine.run("umount", folder)
    assert (finding["state"], "Permission denied" in finding["message"]) == ("failed", True)
    assert "root_squash" in finding["next_step"]


def test_a_folder_that_the_console_could_not_make_or_that_is_gone_is_said(patient: Daemon, share: Path) -> None:
    (share / ".starforge-trial").symlink_to("/tmp")  # noqa: S108 - a link there is refused
    let_join(patient, share, "http://127.0.0.1:9")
    finding = examine(patient)["storage_in_container"]
    assert (finding["state"], "is a link" in finding["message"]) == ("failed", True)
    (share / ".starforge-trial").unlink()
    let_join(patient, share, "http://127.0.0.1:9")
    Path(NodeState(patient.state_dir).load_identity().trial_folder).rmdir()
    finding = examine(patient)["storage_in_container"]
    assert (finding["state"], "No such file" in finding["message"]) == ("failed", True)
    assert "forgelet join" in finding["next_step"]


def test_whom_jobs_run_as_is_not_guessed_where_an_older_console_did_not_say(patient: Daemon, share: Path) -> None:
    let_join(patient, share, "http://127.0.0.1:9")
    state = NodeState(patient.state_dir)
    older = replace(state.load_identity(), job_user="", trial_folder="")
    state.write_identity(older, state.load_pem(), 0)
    finding = examine(patient)["storage_in_container"]
    assert (finding["state"], "whom jobs run as" in finding["message"]) == ("not checked", True)


def test_a_read_only_share_is_called_so(patient: Daemon, doctors_engine: PrivateEngine, share: Path) -> None:
    let_join(patient, share, "http://127.0.0.1:9")
    doctors_engine.run("mount", "--bind", str(share), str(share))
    doctors_engine.run("mount", "-o", "remount,ro,bind", str(share))
    try:
        finding = examine(patient)["storage_in_container"]
    finally:
        doctors_engine.run("umount", str(share))
    assert (finding["state"], "Read-only" in finding["message"]) == ("failed", True)
    assert "rw" in finding["next_step"]


def test_another_share_is_found_and_no_container_writes_to_it(patient: Daemon, share: Path) -> None:
    let_join(patient, share, "http://127.0.0.1:9", storage_id="storage-2")
    checks = examine(patient)
    assert "another share's" in checks["storage"]["message"]
    assert checks["storage_in_container"]["state"] == "not checked"


def test_an_ingest_address_that_is_each_machine_itself_is_explained(patient: Daemon, share: Path) -> None:
    let_join(patient, share, "http://host.docker.internal:9")
    finding = examine(patient, "--quick")["ingest"]
    assert (finding["state"], "FORGE_INGEST_URL" in finding["next_step"]) == ("warning", True)


def test_without_an_image_that_has_bash_nobody_knows(patient: Daemon, share: Path) -> None:
    let_join(patient, share, "http://127.0.0.1:9")
    with owned_folder() as root, private_engine(root) as bare:
        patient.docker_socket = bare.socket_path
        finding = examine(patient)["storage_in_container"]
        assert (finding["state"], "no image is here" in finding["message"]) == ("not checked", True)
        image_without_bash(bare)
        finding = examine(patient)["storage_in_container"]
        assert (finding["state"], "no container with bash" in finding["message"]) == ("not checked", True)
        assert bare.engine.list_containers() == []


def test_a_machine_that_has_not_joined_is_examined_as_far_as_that_goes(patient: Daemon) -> None:
    found = states(examine(patient))
    assert (found["identity"], found["gpus"], "storage" in found) == ("failed", "ok", False)


def test_without_an_engine_the_rest_is_still_looked_at(patient: Daemon, share: Path) -> None:
    patient.docker_socket = "/nonexistent.sock"
    let_join(patient, share, "http://127.0.0.1:9")
    found = states(examine(patient))
    assert (found["engine"], found["disk"], found["storage"]) == ("failed", "not checked", "ok")
    assert found["storage_in_container"] == "not checked"


@pytest.mark.parametrize(("runtime", "advice"), [("nvidia", "nvidia-container-toolkit"), ("cdi", "nvidia-ctk cdi")])
def test_a_gpu_runtime_that_the_engine_lacks_is_found(patient: Daemon, runtime: str, advice: str) -> None:
    patient.extra["FORGE_GPU_RUNTIME"] = runtime
    finding = examine(patient, "--quick")["gpu_runtime"]
    assert (finding["state"], advice in finding["next_step"]) == ("failed", True)


def test_people_read_what_to_do_below_what_is_wrong(patient: Daemon) -> None:
    done = patient.run("doctor", "--quick")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0].split()[:2] == ["failed", "identity"]
    assert any(line.strip().startswith("next: ") for line in lines[1:4])


def test_whom_jobs_run_as_is_kept_from_the_join(patient: Daemon, registrar: Registrar, share: Path) -> None:
    patient.join(registrar.url, "gpu")
    kept = NodeState(patient.state_dir).load_identity()
    assert (kept.job_user, kept.trial_trouble) == ("12345:12345", "the share said no")
    assert kept.trial_folder == f"{share}/.starforge-trial/12345-12345"
    finding = examine(patient)["storage_in_container"]
    assert (finding["state"], "the share said no" in finding["message"]) == ("failed", True)


def test_a_heartbeat_is_waited_for_and_an_earlier_one_does_not_count(patient: Daemon, registrar: Registrar) -> None:
    patient.join(registrar.url, "gpu")
    none = wait_for_heartbeat(patient, "0.3")
    assert (none["state"], "no daemon has served here yet" in none["message"]) == ("failed", True)
    patient.start()
    wait_for_epoch(registrar, 1)
    assert wait_for_heartbeat(patient, "20")["state"] == "ok"
    checks = examine(patient, "--quick")
    assert (checks["clock"]["state"], checks["port"]["state"]) == ("ok", "ok")
    patient.terminate()
    assert NodeState(patient.state_dir).find_pulse() is not None
    assert wait_for_heartbeat(patient, "0.3")["state"] == "failed"


def test_jobs_of_this_console_alone_keep_a_machine_from_being_idle(
    patient: Daemon, doctors_engine: PrivateEngine, share: Path
) -> None:
    assert patient.run("require", "--idle").returncode == 0
    let_join(patient, share, "http://127.0.0.1:9")
    engine = doctors_engine.engine
    with container(doctors_engine, {"forge.install": "other", "forge.attempt": "other-1"}):
        assert patient.run("require", "--idle").returncode == 0
    with container(doctors_engine, {"forge.install": "lab", "forge.attempt": "job-1-a1"}) as ours:
        busy = patient.run("require", "--idle")
        assert (busy.returncode, "job-1-a1" in busy.stderr) == (1, True)
        engine.kill(ours, "KILL")
        wait_until(lambda: patient.run("require", "--idle").returncode == 0, "an ended job to count no longer")
    patient.docker_socket = "/nonexistent.sock"
    assert patient.run("require", "--idle").returncode == 1


def test_only_the_console_that_was_joined_is_the_right_one(patient: Daemon, share: Path) -> None:
    assert patient.run("require", "--console", "http://127.0.0.1:9").returncode == 1
    let_join(patient, share, "http://127.0.0.1:9")
    assert patient.run("require", "--console", "http://127.0.0.1:9/").returncode == 0
    assert patient.run("require", "--console", "http://127.0.0.1:8").returncode == 1
    (patient.state_dir / "node.pem").write_text("damaged")
    assert patient.run("require", "--console", "http://127.0.0.1:9").returncode != 0


def wait_for_heartbeat(patient: Daemon, seconds: str) -> dict[str, str]:
    done = patient.run("doctor", "--json", "--wait-heartbeat", seconds)
    (finding,) = json.loads(done.stdout)["checks"]
    assert done.returncode == int(finding["state"] == "failed")
    found: dict[str, str] = finding
    return found


@contextlib.contextmanager
def container(machine: PrivateEngine, labels: dict[str, Any]) -> Iterator[str]:
    """A running container with these labels."""
    body = {"Image": "starforge-test/host:1", "Cmd": ["sleep", "infinity"], "Labels": labels}
    made = str(machine.engine.create(f"test-{labels['forge.attempt']}", body)["Id"])
    try:
        machine.engine.start(made)
        yield made
    finally:
        machine.engine.remove(made, force=True)

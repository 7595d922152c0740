import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from core.tests.containers.builders import make_request, new_attempt, wait_until
from starforge.containers.facts import HostFacts, clip_limits
from starforge.containers.lock import hold_lock, name_lock
from starforge.containers.records import Fences, PendingLaunches, Verdict, Verdicts
from starforge.containers.secrets import SecretFiles, check_secrets_root
from starforge.containers.settings import StorageMark
from starforge.containers.storage import StorageCheck
from starforge.contract.launch import RegistryLogin, Secret
from starforge.contract.observation import Failure
from starforge.errors import BackendUnreachable, LaunchRefused, ProjectError


def test_fences_hold_over_a_restart(tmp_path: Path) -> None:
    attempt, other = new_attempt(), new_attempt()
    Fences(tmp_path).add(attempt)
    Fences(tmp_path).add(attempt)
    again = Fences(tmp_path)
    assert again.has(attempt)
    assert not again.has(other)


def test_a_verdict_is_kept_until_it_is_dropped(tmp_path: Path) -> None:
    attempt = new_attempt()
    verdict = Verdict(failure=Failure.PULL_DENIED, note="denied: “no”", at=12.5)
    Verdicts(tmp_path).write(attempt, verdict)
    again = Verdicts(tmp_path)
    assert again.find(attempt) == verdict
    assert again.all() == {attempt: verdict}
    again.drop(attempt)
    again.drop(attempt)
    assert again.find(attempt) is None


def test_an_unreadable_verdict_is_still_an_end(tmp_path: Path) -> None:
    attempt = new_attempt()
    verdicts = Verdicts(tmp_path)
    (tmp_path / "failed-launches" / attempt).write_bytes(b"{")
    found = verdicts.find(attempt)
    assert found is not None
    assert found.failure is Failure.NODE_FAULT


def test_a_pending_launch_comes_back_whole_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    login = RegistryLogin(username="u", password=Secret("pw"))
    request = make_request(tmp_path, secrets={"A": Secret("b")}, registry_login=login)
    PendingLaunches(tmp_path).write(request)
    again = PendingLaunches(tmp_path)
    assert again.attempts() == [request.attempt]
    assert again.load(request.attempt) == request
    modes = [
        stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / ".pending", tmp_path / ".pending" / request.attempt)
    ]
    assert modes == [0o700, 0o600]
    again.drop(request.attempt)
    assert again.attempts() == []


def test_a_secrets_folder_on_a_disk_is_refused_with_the_settings_name(tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match="FORGE_SECRETS_DIR"):
        SecretFiles(tmp_path / "secrets")


def test_a_secrets_folder_on_a_disk_is_never_made_and_a_place_that_works_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProjectError) as raised:
        SecretFiles(tmp_path / "run" / "secrets")
    assert not (tmp_path / "run").exists()
    named = Path(raised.value.next_step.partition("FORGE_SECRETS_DIR=")[2])
    assert named.parent == Path("/dev/shm")  # noqa: S108 - the place itself
    check_secrets_root(named)


def test_a_secrets_folder_of_another_user_is_refused(secrets_root: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a folder that is another user's")
    os.chown(secrets_root, 12345, 12345)
    with pytest.raises(ProjectError, match="another user's"):
        SecretFiles(secrets_root)


def test_a_secret_can_name_no_other_place(secrets_root: Path) -> None:
    files = SecretFiles(secrets_root)
    for name in ("../x", "a/b", "", ".."):
        with pytest.raises(LaunchRefused):
            files.write(new_attempt(), "0:0", {name: Secret("x")})
    with pytest.raises(LaunchRefused, match="uid:gid"):
        files.write(new_attempt(), "root", {})


def test_secrets_can_be_written_again_and_are_gone_when_removed(secrets_root: Path) -> None:
    files, attempt = SecretFiles(secrets_root), new_attempt()
    files.write(attempt, "0:0", {"A": Secret("1")})
    folder = files.write(attempt, "0:0", {"A": Secret("2")})
    assert (folder / "A").read_text() == "2"
    assert files.attempts() == [attempt]
    files.remove(attempt)
    assert files.attempts() == []


def make_facts(engine_id: str = "E", root_dir: str = "/a") -> HostFacts:
    return HostFacts(
        engine_id=engine_id,
        root_dir=root_dir,
        cpus=1,
        memory_bytes=1,
        architecture="amd64",
        boot="b",
        limits={},
    )


def test_engines_of_one_machine_that_share_an_id_have_locks_of_their_own() -> None:
    one, other = (name_lock(Path("/l"), make_facts(root_dir=folder)) for folder in ("/a", "/b"))
    assert one != other
    assert one.name.startswith("starforge-")


def hold_until(
    path: Path, held: "multiprocessing.synchronize.Event", release: "multiprocessing.synchronize.Event"
) -> None:
    with hold_lock(path, 5):
        held.set()
        release.wait(30)


def test_one_process_holds_the_lock_and_its_death_gives_it_back(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    path = tmp_path / "x.lock"
    holder = context.Process(target=hold_until, args=(path, held, release))
    holder.start()
    try:
        assert held.wait(30)
        with pytest.raises(BackendUnreachable, match="held by another"), hold_lock(path, 0.05):
            pass
        holder.kill()
        holder.join()
        with hold_lock(path, 5):
            assert stat.S_IMODE(path.stat().st_mode) == 0o666
    finally:
        holder.kill()
        holder.join()


def test_the_storage_check_reads_the_mark_each_time(tmp_path: Path) -> None:
    check = StorageCheck(StorageMark(tmp_path, "share-1"))
    assert "storage not mounted" in check.find_trouble()
    (tmp_path / ".starforge-storage").write_text("share-1\n")
    assert check.find_trouble() == ""
    (tmp_path / ".starforge-storage").write_text("share-2\n")
    assert "another share" in check.find_trouble()
    (tmp_path / ".starforge-storage").write_bytes(b"\xff\xfe\x00")
    assert "another share" in check.find_trouble()
    assert "another share" in StorageCheck(StorageMark(tmp_path, "share-1")).find_trouble()
    assert StorageCheck(None).find_trouble() == ""


def test_a_share_that_hangs_is_an_answer_after_the_time_limit(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".starforge-storage")
    check = StorageCheck(StorageMark(tmp_path, "share-1"), timeout_s=0.1)
    assert "does not answer" in check.find_trouble()
    assert "does not answer" in check.find_trouble()
    hung = (tmp_path / ".starforge-storage").rename(tmp_path / "hung")
    (tmp_path / ".starforge-storage").write_text("share-1")
    assert "does not answer" in check.find_trouble()  # the one read that hangs is not followed by others
    hung.write_text("")
    wait_until(lambda: check.find_trouble() == "", "the share to answer again")


LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max locked memory         8388608              {memlock}              bytes
Max open files            1024                 {nofile}                files
"""


@pytest.mark.parametrize(
    ("capabilities", "nofile", "memlock", "expected"),
    [
        ("000001ffffffffff", "20000", "8388608", {"nofile": 1048576, "memlock": -1}),
        ("000001fffeffffff", "20000", "8388608", {"nofile": 20000, "memlock": 8388608}),
        ("000001fffeffffff", "9999999", "unlimited", {"nofile": 1048576, "memlock": -1}),
    ],
)
def test_limits_are_clipped_unless_the_engine_may_raise_them(
    tmp_path: Path, capabilities: str, nofile: str, memlock: str, expected: dict[str, int]
) -> None:
    (tmp_path / "status").write_text(f"Name:\tdockerd\nCapEff:\t{capabilities}\n")
    (tmp_path / "limits").write_text(LIMITS.format(nofile=nofile, memlock=memlock))
    assert clip_limits(tmp_path) == expected

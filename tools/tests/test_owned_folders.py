"""What tests own host-wide: folders that outlive a killed owner, and numbers that no two machines share."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.support.engines import name_interface, reserve_slot
from e2e.support.owned import OwnedFolder, find_host_locks, owned_folder
from tools.tests.support.trees import ROOT

OWNS = """
import sys
from pathlib import Path
from e2e.support.owned import OwnedFolder
print(OwnedFolder(Path(sys.argv[1])).path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def owner(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that owns a folder until it is killed; its first line names the folder."""
    argv = [sys.executable, "-c", OWNS, str(tmp_path)]
    with subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def _folder_of(owner: "subprocess.Popen[str]") -> Path:
    assert owner.stdout is not None
    return Path(owner.stdout.readline().strip())


def test_a_folder_whose_owner_lives_is_left_alone_and_one_of_a_dead_owner_is_removed(
    owner: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    folder = _folder_of(owner)
    (folder / "data").mkdir()
    with owned_folder(tmp_path):
        assert folder.is_dir()
    owner.kill()
    owner.wait(timeout=20)
    with owned_folder(tmp_path) as own:
        assert list(tmp_path.iterdir()) == [own]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_a_disk_in_a_dead_owners_folder_is_unmounted(owner: "subprocess.Popen[str]", tmp_path: Path) -> None:
    place = _folder_of(owner) / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "small", place], check=True)
    try:
        owner.kill()
        owner.wait(timeout=20)
        with owned_folder(tmp_path) as own:
            assert list(tmp_path.iterdir()) == [own]
        assert str(place) not in Path("/proc/self/mountinfo").read_text()
    finally:
        subprocess.run(["umount", "--lazy", place], check=False, capture_output=True)


def test_what_is_no_owned_folder_is_never_removed(tmp_path: Path) -> None:
    (tmp_path / "starforge-1000").mkdir()
    folder = OwnedFolder(tmp_path)
    folder.close()
    assert [path.name for path in tmp_path.iterdir()] == ["starforge-1000"]


def test_two_machines_never_get_the_same_number_and_none_that_an_interface_has(tmp_path: Path) -> None:
    locks, interfaces = tmp_path / "locks", tmp_path / "net"
    locks.mkdir()
    (interfaces / name_interface(2)).mkdir(parents=True)
    with reserve_slot(locks, interfaces) as first, reserve_slot(locks, interfaces) as second:
        assert (first, second) == (1, 3)
    with reserve_slot(locks, interfaces) as again:
        assert again == 1


def test_the_hosts_locks_lie_at_one_place_whatever_tmpdir_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = find_host_locks()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert find_host_locks() == before
    assert not before.is_relative_to(tmp_path)

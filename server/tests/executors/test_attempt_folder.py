"""An attempt's own folder when its job's user lays something else where files of ours are looked for."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from starforge.errors import BackendUnreachable
from starforge_console.executors.attempt_folder import FENCED, AttemptFolder

OWN = ".own"


@pytest.fixture
def folder(tmp_path: Path) -> AttemptFolder:
    folder = AttemptFolder(str(tmp_path), OWN, "secrets")
    folder.prepare(None, {"secrets": "hidden"})
    return folder


def lay_link(own: Path) -> None:
    own.rename(own.with_name("elsewhere"))
    own.symlink_to("elsewhere")


def lay_file(own: Path) -> None:
    own.rename(own.with_name("elsewhere"))
    own.write_text("a file")


def mark_by_link(own: Path) -> None:
    (own / "start").symlink_to("/etc/passwd")


def mark_by_folder(own: Path) -> None:
    (own / "start").mkdir()


def mark_by_pipe(own: Path) -> None:
    os.mkfifo(own / "start")


ODD = pytest.mark.parametrize("lay", [lay_link, lay_file, mark_by_link, mark_by_folder, mark_by_pipe])


@ODD
def test_whoever_lays_something_in_the_way_has_begun(
    folder: AttemptFolder, tmp_path: Path, lay: Callable[[Path], None]
) -> None:
    lay(tmp_path / OWN)
    assert folder.read_mark() == ""
    assert not folder.fence()


def test_a_pipe_that_somebody_holds_open_is_not_waited_for(folder: AttemptFolder, tmp_path: Path) -> None:
    mark_by_pipe(tmp_path / OWN)
    held = os.open(tmp_path / OWN / "start", os.O_RDWR)
    try:
        assert folder.read_mark() == ""
        assert not folder.fence()
    finally:
        os.close(held)


def test_a_mark_is_read_no_further_than_any_can_be(folder: AttemptFolder, tmp_path: Path) -> None:
    with (tmp_path / OWN / "start").open("wb") as file:
        file.truncate(1 << 40)
    assert len(folder.read_mark() or "") == 200


def test_storage_that_is_not_what_it_should_be_is_not_known(folder: AttemptFolder, tmp_path: Path) -> None:
    del folder
    (tmp_path / "file").write_text("no folder")
    lost = AttemptFolder(str(tmp_path / "file"), OWN)
    with pytest.raises(BackendUnreachable):
        lost.read_mark()
    with pytest.raises(BackendUnreachable):
        lost.fence()


def test_a_fence_is_made_once_and_takes_the_secrets_with_it(folder: AttemptFolder, tmp_path: Path) -> None:
    assert folder.read_mark() is None
    assert folder.fence()
    assert folder.read_mark() == FENCED
    assert folder.fence()
    assert not (tmp_path / OWN / "secrets").exists()


def test_of_a_log_that_is_longer_than_anybody_can_read_the_end_is_told(folder: AttemptFolder, tmp_path: Path) -> None:
    log = tmp_path / OWN / "log"
    log.write_text("begun\n")
    assert folder.read_piece("log", 0) == (b"begun\n", 6)
    assert folder.read_piece("log", 6) == (b"", 6)
    os.truncate(log, 1 << 42)
    with log.open("ab") as file:
        file.write(b"ended\n")
    size, position, told = log.stat().st_size, 0, b""
    while (found := folder.read_piece("log", position))[0]:
        told, position = found
    assert (told[-6:], position) == (b"ended\n", size)


@ODD
def test_what_is_no_log_tells_nothing(folder: AttemptFolder, tmp_path: Path, lay: Callable[[Path], None]) -> None:
    lay(tmp_path / OWN)
    assert folder.read_piece("start", 0)[0] == b""

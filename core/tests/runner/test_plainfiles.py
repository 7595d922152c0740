"""Files in directories of the job: whatever lies there, nothing waits, nothing is followed, nothing grows."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from core.tests.runner.support.attempt import find_owner_prefix
from starforge.runner.checkpoints import commit, find_committed, find_newest
from starforge.runner.plainfiles import (
    list_files,
    load_bytes,
    match_paths,
    open_appendable,
    open_plain,
    parse_object,
    write_whole,
)


def make_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's path is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


TRAPS: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "directory": Path.mkdir,
    "full directory": lambda path: (path / "x").mkdir(parents=True),
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "link to a file": lambda path: path.symlink_to("target"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "socket": make_socket,
}


@pytest.fixture(params=TRAPS)
def trap(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "target").write_bytes(b"not ours")
    TRAPS[request.param](tmp_path / "file")
    return tmp_path / "file"


@pytest.mark.parametrize("opens", [open_plain, open_appendable, lambda path: load_bytes(path, 100)])
def test_what_is_no_plain_file_is_refused_at_once(trap: Path, opens: Callable[[str], object]) -> None:
    began = time.monotonic()
    with pytest.raises(OSError, match="file"):
        opens(str(trap))
    assert time.monotonic() - began < 1


def test_a_file_is_written_in_the_place_of_anything(trap: Path) -> None:
    write_whole(str(trap), b"ours")

    assert not trap.is_symlink()
    assert trap.read_bytes() == b"ours"
    assert (trap.parent / "target").read_bytes() == b"not ours"


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_whole(str(tmp_path / "missing" / "file"), b"")
    assert list(tmp_path.iterdir()) == []


def test_a_file_larger_than_allowed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    with pytest.raises(OSError, match="larger than the 4 bytes"):
        load_bytes(str(tmp_path / "file"), 4)
    assert load_bytes(str(tmp_path / "file"), 5) == b"12345"


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"a":' * 100_000, b'{"a":' + b"9" * 100_000 + b"}", b"[]", b"\xff"])
def test_what_is_no_object_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"no JSON object|too deeply|digits|Expecting|decode"):
        parse_object(text)


def nest(root: Path, depth: int) -> None:
    root.mkdir(exist_ok=True)
    fd = os.open(root, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=fd)
        inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)


def test_a_tree_of_any_depth_is_listed_as_far_as_is_sensible(tmp_path: Path) -> None:
    nest(tmp_path / "deep", 3000)
    (tmp_path / "a").write_bytes(b"12")
    os.mkfifo(tmp_path / "pipe")

    listing = list_files(str(tmp_path))
    assert [row[:2] for row in listing.files] == [("a", 2)]
    assert not listing.is_whole


def test_a_listing_stops_at_its_bound_and_at_its_deadline(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / str(number)).touch()
    assert list_files(str(tmp_path)).is_whole
    assert len(list_files(str(tmp_path), most_files=3).files) == 3
    assert list_files(str(tmp_path), deadline=time.monotonic()).files == ()


def test_a_single_folder_with_more_entries_than_the_bound_is_not_whole(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / str(number)).touch()
    assert list_files(str(tmp_path), most_entries=10).is_whole
    listing = list_files(str(tmp_path), most_entries=9)
    assert (len(listing.files), listing.is_whole, listing.problems) == (9, False, ())


def test_what_is_gone_or_no_directory_is_no_problem(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert list_files(str(tmp_path / "missing")).is_whole
    assert list_files(str(tmp_path / "file")).is_whole


LIST = """
import json, sys
from starforge.runner.checkpoints import UnlistedError, commit, find_newest
from starforge.runner.plainfiles import list_files
listing = list_files(sys.argv[1])
try:
    commit(sys.argv[1], 1)
    committed = ""
except UnlistedError as error:
    committed = str(error)
files = [row[0] for row in listing.files]
print(json.dumps([listing.is_whole, listing.problems, files, find_newest([sys.argv[1]])[1], committed]))
"""


@pytest.mark.parametrize(
    ("where", "mode", "said"),
    [
        ("", 0o000, [".: Permission denied"]),
        ("sub", 0o300, ["sub: Permission denied"]),
        ("sub", 0o400, ["sub/a: Permission denied", "sub/b: Permission denied"]),
    ],
)
def test_what_may_not_be_looked_at_is_told(tmp_path: Path, where: str, mode: int, said: list[str]) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "a").touch()
    (root / "sub" / "b").touch()
    (root / where).chmod(mode)
    command = [*find_owner_prefix(), sys.executable, "-c", LIST, str(root)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)

    is_whole, problems, files, newest, committed = json.loads(ran.stdout)
    assert (is_whole, sorted(problems), files) == (False, said, [])
    assert "cannot be listed" in committed
    if mode != 0o400:
        assert newest == [f"checkpoints below {root} cannot be listed: {text}" for text in said]


def test_patterns_match_part_by_part(tmp_path: Path) -> None:
    for name in ("a/step-1", "a/.step-2", "b/step-3", "step-4"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "file").touch()
    assert match_paths(str(tmp_path), "*/step-*") == [str(tmp_path / "a/step-1"), str(tmp_path / "b/step-3")]
    assert match_paths(str(tmp_path / "missing"), "*") == []


def test_a_checkpoint_with_anything_in_it_is_committed_and_sound(trap: Path) -> None:
    (trap.parent / "weights").write_bytes(b"w" * 100)
    commit(str(trap.parent), 7)

    mark, problems = find_newest([str(trap.parent)])
    assert (mark is not None, problems) == (True, [])


def test_a_manifest_that_is_no_plain_file_is_as_good_as_missing(tmp_path: Path) -> None:
    for name, lay in TRAPS.items():
        (tmp_path / name).mkdir()
        lay(tmp_path / name / "starforge-checkpoint.json")
    assert find_committed(str(tmp_path)) == []


def test_a_manifest_that_names_a_pipe_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"w")
    commit(str(tmp_path), 1)
    (tmp_path / "weights").unlink()
    os.mkfifo(tmp_path / "weights")

    mark, problems = find_newest([str(tmp_path)])
    assert mark is None
    assert "weights cannot be read (is no plain file)" in problems[0]

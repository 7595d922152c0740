import os
import resource
import subprocess
from pathlib import Path

import pytest

from starforge_console.assembly.removal import remove_tree


def _nest(top: Path, depth: int) -> None:
    top.mkdir(parents=True)
    descriptor = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=descriptor)
        inner = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=inner))
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)


def test_folders_nested_deeper_than_a_path_may_be_long_are_removed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    depth = 3000
    assert depth > resource.getrlimit(resource.RLIMIT_NOFILE)[0] or depth * len("/d") > os.pathconf("/", "PC_PATH_MAX")
    _nest(run / "work", depth)
    try:
        remove_tree(run)
    finally:
        subprocess.run(["rm", "-rf", run], check=True)
    assert list(tmp_path.iterdir()) == []


def test_links_are_removed_and_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("of somebody else")
    run = tmp_path / "run"
    (run / "inner").mkdir(parents=True)
    for place in (run, run / "inner"):
        (place / "to-folder").symlink_to(kept)
        (place / "to-file").symlink_to(kept / "file")
        (place / "to-nothing").symlink_to(tmp_path / "nothing")
        os.mkfifo(place / "pipe")
        (place / os.fsdecode(b"\xff\xfe")).write_text("no UTF-8")
    remove_tree(run)
    assert not run.exists()
    assert (kept / "file").read_text() == "of somebody else"


def test_a_link_in_the_folders_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "kept")
    with pytest.raises(OSError, match="run"):
        remove_tree(tmp_path / "run")
    assert (tmp_path / "kept").is_dir()


def test_many_folders_side_by_side_and_within_each_other_are_removed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    for first in range(12):
        for second in range(12):
            folder = run / str(first) / str(second) / "leaf"
            folder.mkdir(parents=True)
            (folder / "file").write_text("x")
    remove_tree(run)
    assert not run.exists()


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        remove_tree(tmp_path / "run")


def test_another_file_system_is_not_entered(tmp_path: Path) -> None:
    mounted = tmp_path / "run" / "work" / "mounted"
    mounted.mkdir(parents=True)
    if subprocess.run(["mount", "-t", "tmpfs", "none", mounted], check=False).returncode != 0:
        pytest.skip("this user may not mount a tmpfs")
    try:
        (mounted / "file").write_text("of somebody else")
        with pytest.raises(OSError, match="mounted"):
            remove_tree(tmp_path / "run")
        assert (mounted / "file").read_text() == "of somebody else"
    finally:
        subprocess.run(["umount", mounted], check=True)
    remove_tree(tmp_path / "run")

import os
import time
from pathlib import Path

import pytest

from core.tests.workspace.trees import write_tree
from starforge.workspace.manifest import load_manifest
from starforge.workspace.pack import Packed, pack_manifest
from starforge.workspace.remember import pack_or_recall


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = write_tree(tmp_path / "p", {"a.py": "one", "b/c.py": "two"})
    (root / "link").symlink_to("a.py")
    return root


SETTLED_S = 0.05


def settle(root: Path) -> None:
    """Wait until the newest change below `root` is old enough to be told from one that comes now."""
    newest_ns = max(path.lstat().st_ctime_ns for path in root.rglob("*"))
    deadline = time.monotonic() + 20
    while time.time_ns() - newest_ns < 1.1 * SETTLED_S * 1e9:
        assert time.monotonic() < deadline


def pack(root: Path, memory: Path, settled_s: float = SETTLED_S) -> tuple[Packed, int]:
    """What it packs to, and how many bytes of content were read for that."""
    read: list[int] = []
    return pack_or_recall(load_manifest(root), memory, read.append, settled_s=settled_s), sum(read)


def test_an_unchanged_workspace_is_not_read_again(tree: Path, tmp_path: Path) -> None:
    settle(tree)
    first, read = pack(tree, tmp_path / "memory")
    again, read_again = pack(tree, tmp_path / "memory")
    assert (read, read_again) == (6, 0)
    assert again == first == pack_manifest(load_manifest(tree))


def test_a_file_that_was_just_written_is_read_each_time(tree: Path, tmp_path: Path) -> None:
    assert [pack(tree, tmp_path / "memory", settled_s=3600)[1] for _ in range(2)] == [6, 6]


def test_any_change_is_seen_even_one_that_keeps_size_and_time(tree: Path, tmp_path: Path) -> None:
    settle(tree)
    before = pack(tree, tmp_path / "memory")[0]
    times = (tree / "a.py").stat()
    (tree / "a.py").write_text("ONE")
    os.utime(tree / "a.py", ns=(times.st_atime_ns, times.st_mtime_ns))
    after, read = pack(tree, tmp_path / "memory")
    assert after.digest != before.digest
    assert read == 6


def test_a_new_mode_or_link_is_seen(tree: Path, tmp_path: Path) -> None:
    settle(tree)
    digests = {pack(tree, tmp_path / "memory")[0].digest}
    (tree / "a.py").chmod(0o755)
    digests.add(pack(tree, tmp_path / "memory")[0].digest)
    (tree / "link").unlink()
    (tree / "link").symlink_to("b")
    digests.add(pack(tree, tmp_path / "memory")[0].digest)
    assert len(digests) == 3


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"fingerprint": 1}'])
def test_a_damaged_memory_is_packed_anew(tree: Path, tmp_path: Path, damage: bytes) -> None:
    settle(tree)
    first = pack(tree, tmp_path / "memory")[0]
    for file in (tmp_path / "memory").iterdir():
        file.write_bytes(damage)
    assert pack(tree, tmp_path / "memory") == (first, 6)


def test_a_memory_that_cannot_be_written_is_no_error(tree: Path, tmp_path: Path) -> None:
    settle(tree)
    (tmp_path / "memory").write_text("a file, not a folder")
    assert pack(tree, tmp_path / "memory")[1] == 6

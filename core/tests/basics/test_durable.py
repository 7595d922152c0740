import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from starforge.durable import write_once


def test_what_is_there_already_stays_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "key"
    write_once(path, b"first", 0o444)
    write_once(path, b"second", 0o600)
    assert path.read_bytes() == b"first"
    assert stat.S_IMODE(path.stat().st_mode) == 0o444
    assert list(tmp_path.iterdir()) == [path]


def test_of_many_at_once_all_find_the_same_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "key"

    def make(number: int) -> bytes:
        write_once(path, bytes([number]) * 100_000, 0o600)
        return path.read_bytes()

    with ThreadPoolExecutor(8) as threads:
        found = set(threads.map(make, range(16)))
    assert [len(content) for content in found] == [100_000]
    assert len(set(found.pop())) == 1
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_an_error_of_the_disk(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_once(tmp_path / "nowhere" / "key", b"", 0o600)

from pathlib import Path

import pytest

from starforge.errors import ProjectError
from starforge.workspace.replacing import replace_files


def test_every_file_gets_its_content_and_keeps_its_mode(tmp_path: Path) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    first.write_text("old")
    first.chmod(0o600)
    replace_files({first: b"new", second: b"fresh"})
    assert (first.read_bytes(), second.read_bytes()) == (b"new", b"fresh")
    assert (first.stat().st_mode & 0o777, second.stat().st_mode & 0o777) == (0o600, 0o644)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "b.json"]


def test_where_one_cannot_be_written_none_is(tmp_path: Path) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    first.write_text("old")
    second.mkdir()  # a file cannot take a folder's place
    with pytest.raises(ProjectError, match="cannot be written"):
        replace_files({first: b"new", second: b"fresh"})
    assert first.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "b.json"]


def test_a_folder_that_is_gone_leaves_every_file_as_it_was(tmp_path: Path) -> None:
    first, missing = tmp_path / "a.json", tmp_path / "gone" / "b.json"
    first.write_text("old")
    with pytest.raises(ProjectError, match="nothing was changed"):
        replace_files({first: b"new", missing: b"fresh"})
    assert first.read_text() == "old"

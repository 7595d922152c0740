"""What is vendored is as it came, and the check says so when it is not."""

import hashlib
import subprocess
from pathlib import Path

import pytest

from tools.vendored import TABLES, find_violations

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository whose tables describe one file each."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for table in TABLES:
        folder = tmp_path / Path(table).parent
        (folder / "vendor").mkdir(parents=True)
        (folder / "vendor" / "LICENCE").write_text("anybody may use it")
        (folder / "vendor" / "lib.js").write_text("lib()")
        digest = hashlib.sha256(b"lib()").hexdigest()
        (tmp_path / table).write_text(
            f'[[file]]\npath = "vendor/lib.js"\npackage = "lib"\nversion = "1"\nlicence = "MIT"\n'
            f'licence_file = "vendor/LICENCE"\nfrom = "dist/lib.js"\nsha256 = "{digest}"\n'
        )
    return tmp_path


def test_what_this_repository_vendors_is_as_it_came() -> None:
    assert find_violations(ROOT) == []


def test_files_that_fit_their_rows_pass(tree: Path) -> None:
    assert find_violations(tree) == []


def test_a_file_that_was_edited_is_named(tree: Path) -> None:
    file = tree / Path(TABLES[0]).parent / "vendor" / "lib.js"
    file.write_text("lib(); more()")
    (violation,) = find_violations(tree)
    assert str(file) in violation
    assert "are not edited" in violation


def test_a_file_without_a_row_is_named(tree: Path) -> None:
    (tree / Path(TABLES[0]).parent / "vendor" / "other.js").write_text("other()")
    assert [violation.split(":")[0].rsplit("/", 1)[1] for violation in find_violations(tree)] == ["other.js"]


def test_a_row_without_a_licence_is_refused(tree: Path) -> None:
    table = tree / TABLES[1]
    table.write_text(table.read_text().replace('licence = "MIT"\n', ""))
    assert "it needs" in find_violations(tree)[0]


def test_a_file_that_is_gone_is_named(tree: Path) -> None:
    (tree / Path(TABLES[1]).parent / "vendor" / "lib.js").unlink()
    assert "is not there" in find_violations(tree)[0]

import json
import os
from pathlib import Path

import pytest

from core.tests.workspace.trees import commit_tree, git, write_tree
from starforge.contract.api import DIFFERENCE_BYTES, Difference
from starforge.workspace.difference import bound_difference, load_difference
from starforge.workspace.manifest import load_manifest
from starforge.workspace.provenance import load_origin


def difference_of(root: Path) -> Difference:
    manifest = load_manifest(root)
    found = load_difference(manifest, load_origin(manifest))
    assert found is not None
    return found


def list_objects(root: Path) -> list[Path]:
    return sorted((root / ".git").rglob("*"))


def test_changed_new_and_deleted_files_are_shown_as_git_shows_them(tmp_path: Path) -> None:
    commit_tree(tmp_path, {"a.py": "one\ntwo\n", "gone.py": "old\n", "same.py": "same\n"})
    write_tree(tmp_path, {"a.py": "one\nthree\n", "new dir/ü.sh": "echo\n", "bin.dat": b"\0\1\2"})
    (tmp_path / "gone.py").unlink()
    before = list_objects(tmp_path)
    found = difference_of(tmp_path)
    assert not found.is_cut
    assert "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n" in found.text
    assert "deleted file mode 100644" in found.text
    assert "-old\n" in found.text
    assert "+++ b/new dir/ü.sh" in found.text
    assert "new file mode 100755" in found.text
    assert "+echo\n" in found.text
    assert "Binary files /dev/null and b/bin.dat differ" in found.text
    assert "same.py" not in found.text
    assert list_objects(tmp_path) == before


def test_the_difference_makes_the_tree_of_the_commit(tmp_path: Path) -> None:
    source, other = tmp_path / "source", tmp_path / "other"
    commit_tree(source, {"a.py": "one\ntwo\nthree\n", "b/c.py": "old\n", ".env": "x"})
    git(tmp_path, "clone", "-q", "source", "other")
    write_tree(source, {"a.py": "one\n2\nthree", "b/new.py": "new\n"})
    (source / "b/c.py").unlink()
    (source / ".env").unlink()  # only named, below the rest
    git(source, "add", "b/new.py")  # staged or not makes no difference
    (tmp_path / "the.diff").write_text(difference_of(source).text)
    git(other, "apply", "../the.diff")
    assert {
        str(file.relative_to(other)): file.read_text()
        for file in other.rglob("*")
        if ".git" not in file.parts and file.is_file()
    } == {"a.py": "one\n2\nthree", "b/new.py": "new\n", ".env": "x"}


def test_a_project_inside_a_repository_is_shown_from_its_own_folder(tmp_path: Path) -> None:
    commit_tree(tmp_path, {"outside.py": "a\n", "project/in.py": "a\n"})
    write_tree(tmp_path, {"outside.py": "b\n", "project/in.py": "b\n", "project/new.py": "c\n"})
    text = difference_of(tmp_path / "project").text
    assert "--- a/in.py" in text
    assert "+++ b/new.py" in text
    assert "outside" not in text


def test_before_the_first_commit_everything_is_new(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write_tree(tmp_path, {"a.py": "one\n"})
    assert "+++ b/a.py\n@@ -0,0 +1 @@\n+one\n" in difference_of(tmp_path).text


def test_a_clean_tree_and_a_folder_outside_of_git_have_none(tmp_path: Path) -> None:
    write_tree(tmp_path / "plain", {"a.py": "one\n"})
    commit_tree(tmp_path / "clean", {"a.py": "one\n"})
    for name in ("plain", "clean"):
        manifest = load_manifest(tmp_path / name)
        assert load_difference(manifest, load_origin(manifest)) is None


def test_what_does_not_travel_and_what_looks_like_a_secret_is_only_named(tmp_path: Path) -> None:
    commit_tree(tmp_path, {".env": "TOKEN=hunter2\n", "notes.md": "mine-old\n", ".sfignore": "notes.md\n", "a": "1\n"})
    write_tree(tmp_path, {"notes.md": "mine-new\n", "a": "2\n"})
    (tmp_path / ".env").unlink()
    text = difference_of(tmp_path).text
    assert "+2\n" in text
    assert "hunter2" not in text
    assert "mine" not in text
    assert "not shown: .env\nnot shown: notes.md\n" in text


def test_a_users_own_ways_of_showing_differences_change_nothing(tmp_path: Path) -> None:
    commit_tree(tmp_path, {"a.py": "one\n", ".gitattributes": "*.py diff=loud\n"})
    ways = {"diff.noprefix": "true", "color.diff": "always", "diff.external": "false", "diff.context": "0"}
    for name, value in {**ways, "diff.loud.textconv": "tr a-z A-Z <", "diff.loud.command": "false"}.items():
        git(tmp_path, "config", name, value)
    write_tree(tmp_path, {"a.py": "two\n"})
    assert "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-one\n+two\n" in difference_of(tmp_path).text


def test_a_submodule_is_named_with_its_commits_and_a_repository_inside_is_named(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    commit_tree(inner, {"x": "1"})
    root = tmp_path / "outer"
    commit_tree(root, {"a": "1"})
    git(root, "submodule", "add", "-q", "../inner", "sub")
    git(root, "commit", "-qm", "sub")
    commit_tree(root / "sub", {"x": "2"})
    commit_tree(root / "own", {"y": "1"})
    text = difference_of(root).text
    assert "+Subproject commit" in text
    assert "not shown: own\n" in text


def test_many_new_files_are_shown_in_one_go(tmp_path: Path) -> None:
    commit_tree(tmp_path, {"a": "1"})
    name = "x" * 150
    write_tree(tmp_path, {f"{number:04}-{name}": f"content {number}\n" for number in range(900)})
    text = difference_of(tmp_path).text
    assert all(f"+content {number}\n" in text for number in range(900))


@pytest.mark.parametrize("line", ["x" * 79, '"\\' * 30, "ü漢" * 20, "\x1b[31m"])
def test_more_than_may_be_kept_is_cut_after_a_whole_line_and_said(tmp_path: Path, line: str) -> None:
    commit_tree(tmp_path, {"a": ""})
    write_tree(tmp_path, {"a": f"{line}\n" * (6 * DIFFERENCE_BYTES // len(line.encode()))})
    found = difference_of(tmp_path)
    assert found.is_cut
    assert found.text.endswith(f"+{line}\n")
    size = len(json.dumps(found.text, ensure_ascii=False).encode())
    assert DIFFERENCE_BYTES - 1000 < size <= DIFFERENCE_BYTES + 2


def test_what_just_fits_is_whole() -> None:
    fits = "x" * DIFFERENCE_BYTES
    assert bound_difference(fits) == Difference(text=fits)
    assert bound_difference(fits + "y") == Difference(text="", is_cut=True)


def test_names_that_are_no_utf8_and_odd_paths_of_repositories_are_taken(tmp_path: Path) -> None:
    root = tmp_path / 'a:b "c\\'
    commit_tree(root, {"a": "1\n"})
    (root / os.fsdecode(b"n\xff")).write_text("new\n")
    assert "+new\n" in difference_of(root).text

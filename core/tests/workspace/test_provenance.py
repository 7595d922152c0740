import hashlib
import os
from pathlib import Path

import pytest

from core.tests.workspace.trees import commit_tree, git, write_tree
from starforge.contract.jobspec import Provenance
from starforge.contract.remotes import strip_credentials
from starforge.workspace.git import GitStanding
from starforge.workspace.manifest import load_manifest
from starforge.workspace.provenance import Origin, build_provenance, load_origin


def origin_of(root: Path) -> Origin:
    return load_origin(load_manifest(root))


def test_a_clean_tree_is_its_commit(tmp_path: Path) -> None:
    commit = commit_tree(tmp_path, {"train.py": "x"})
    origin = origin_of(tmp_path)
    assert (origin.commit, origin.branch, origin.dirty) == (commit, "main", False)


def test_changed_new_deleted_and_staged_files_make_it_dirty_by_name(tmp_path: Path) -> None:
    commit_tree(tmp_path, {"changed.py": "x", "gone.py": "x", "same.py": "x", "mode.py": "x"})
    write_tree(tmp_path, {"changed.py": "y", "new.py": "x", "staged.py": "x"})
    git(tmp_path, "add", "staged.py")
    (tmp_path / "gone.py").unlink()
    (tmp_path / "mode.py").chmod(0o755)
    assert origin_of(tmp_path).dirty_files == ("changed.py", "gone.py", "mode.py", "new.py", "staged.py")


def test_times_alone_do_not_make_it_dirty(tmp_path: Path) -> None:
    commit_tree(tmp_path, {"train.py": "x"})
    os.utime(tmp_path / "train.py", (1, 1))
    assert not origin_of(tmp_path).dirty


def test_line_ends_that_only_attributes_see_are_no_dirt_but_are_named(tmp_path: Path) -> None:
    commit_tree(tmp_path, {"win.txt": "line1\r\nline2\r\n"})
    write_tree(tmp_path, {".gitattributes": "*.txt text\n"})
    git(tmp_path, "add", ".gitattributes")
    git(tmp_path, "commit", "-q", "-m", "attributes")
    os.utime(tmp_path / "win.txt", (1, 1))
    (tmp_path / ".git/index").unlink()
    git(tmp_path, "reset", "-q")
    origin = origin_of(tmp_path)
    assert (origin.dirty_files, origin.line_ends_only) == ((), ("win.txt",))


def test_files_that_are_ignored_or_stay_behind_do_not_make_it_dirty(tmp_path: Path) -> None:
    commit_tree(tmp_path, {"train.py": "x", ".gitignore": "*.log\n", ".sfignore": "data/\n"})
    write_tree(tmp_path, {"a.log": "x", "data/x": "x", "wandb/run": "x"})
    assert not origin_of(tmp_path).dirty


def test_dirt_beside_the_project_is_not_the_projects(tmp_path: Path) -> None:
    commit_tree(tmp_path, {"exp/a/train.py": "x", "other.txt": "x"})
    write_tree(tmp_path, {"other.txt": "y"})
    assert not origin_of(tmp_path / "exp/a").dirty
    write_tree(tmp_path, {"exp/a/train.py": "y"})
    assert origin_of(tmp_path / "exp/a").dirty_files == ("train.py",)


def test_a_repository_without_a_commit_has_none_and_is_dirty(tmp_path: Path) -> None:
    git(write_tree(tmp_path, {"train.py": "x"}), "init", "-q")
    origin = origin_of(tmp_path)
    assert (origin.commit, origin.branch, origin.dirty_files) == (None, "main", ("train.py",))


def test_a_detached_head_and_a_shallow_clone_have_a_commit_and_no_guess(tmp_path: Path) -> None:
    commit_tree(tmp_path / "full", {"train.py": "x"})
    commit = commit_tree(tmp_path / "full", {"train.py": "y"})
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{tmp_path}/full", "shallow")
    git(tmp_path / "shallow", "checkout", "-q", "--detach")
    origin = origin_of(tmp_path / "shallow")
    assert (origin.commit, origin.branch, origin.dirty) == (commit, None, False)


def test_a_worktree_says_its_own_branch(tmp_path: Path) -> None:
    commit = commit_tree(tmp_path / "main", {"train.py": "x"})
    git(tmp_path / "main", "worktree", "add", "-q", "-b", "side", str(tmp_path / "tree"))
    origin = origin_of(tmp_path / "tree")
    assert (origin.commit, origin.branch) == (commit, "side")


def test_submodules_are_named_with_the_commit_they_stand_at(tmp_path: Path) -> None:
    first = commit_tree(tmp_path / "lib", {"lib.py": "x"})
    commit_tree(tmp_path / "app", {"train.py": "x"})
    git(tmp_path / "app", "submodule", "add", "-q", str(tmp_path / "lib"), "lib")
    commit_tree(tmp_path / "app")
    origin = origin_of(tmp_path / "app")
    assert (origin.submodules, origin.dirty) == ((("lib", first),), False)
    write_tree(tmp_path / "app", {"lib/lib.py": "y"})
    assert origin_of(tmp_path / "app").dirty_files == ("lib",)


def test_a_repository_inside_that_is_no_submodule_makes_it_dirty(tmp_path: Path) -> None:
    commit_tree(tmp_path, {"train.py": "x"})
    commit_tree(tmp_path / "vendor", {"v.py": "x"})
    assert origin_of(tmp_path).dirty_files == ("vendor",)


def test_a_pointer_whose_content_is_checked_out_is_clean(tmp_path: Path) -> None:
    content = b"weights" * 100
    pointer = (
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{hashlib.sha256(content).hexdigest()}\nsize 700\n"
    )
    commit_tree(tmp_path, {"model.bin": pointer})
    write_tree(tmp_path, {"model.bin": content})
    assert not origin_of(tmp_path).dirty
    write_tree(tmp_path, {"model.bin": content + b"!"})
    assert origin_of(tmp_path).dirty


def test_without_a_repository_every_member_is_empty(tmp_path: Path) -> None:
    write_tree(tmp_path, {"train.py": "x"})
    origin = origin_of(tmp_path)
    assert origin == Origin(standing=GitStanding.NO_REPOSITORY)
    assert build_provenance(origin, None) == Provenance()


def test_the_remote_comes_without_what_it_would_let_somebody_in_with(tmp_path: Path) -> None:
    commit_tree(tmp_path, {"train.py": "x"})
    git(tmp_path, "remote", "add", "origin", "https://ada:s3cret@git.example.org/team/project.git")
    provenance = build_provenance(origin_of(tmp_path), None)
    assert provenance.remote == "https://git.example.org/team/project.git"


@pytest.mark.parametrize(
    ("remote", "shown"),
    [
        ("https://token@host/x.git", "https://host/x.git"),
        ("https://host:8443/x.git?access_token=t#f", "https://host:8443/x.git"),
        ("ssh://git:pw@host:22/x.git", "ssh://git@host:22/x.git"),
        ("git@host:team/x.git", "git@host:team/x.git"),
        ("user:pw@host:team/x.git", "user@host:team/x.git"),
        ("/srv/git/x.git", "/srv/git/x.git"),
        ("https://a:b@c@host/x.git", "https://host/x.git"),
    ],
)
def test_credentials_are_stripped_in_every_form(remote: str, shown: str) -> None:
    assert strip_credentials(remote) == shown


def test_names_that_are_no_utf_8_and_long_lists_fit_into_a_jobspec(tmp_path: Path) -> None:
    commit_tree(tmp_path, {"train.py": "x"})
    write_tree(tmp_path, {os.fsdecode(b"odd-\xff"): "x", **{f"d{n:04}": "x" for n in range(1100)}})
    provenance = build_provenance(origin_of(tmp_path), None)
    assert len(provenance.dirty_files) == 1000
    assert provenance.model_dump_json()


def test_a_dirty_tree_names_its_first_files_and_counts_the_rest() -> None:
    few = Origin(standing=GitStanding.REPOSITORY, dirty_files=("a", "b"))
    many = Origin(standing=GitStanding.REPOSITORY, dirty_files=tuple(map(str, range(23))))
    assert few.name_dirty() == "a, b"
    assert many.name_dirty().endswith("18, 19 and 3 more")

import os
import socket
import stat
from pathlib import Path

import pytest

from core.tests.workspace.trees import commit_tree, git, write_tree
from starforge.errors import ProjectError
from starforge.workspace.git import GitStanding
from starforge.workspace.manifest import Manifest, load_manifest


def paths_of(manifest: Manifest) -> list[str]:
    return [entry.path for entry in manifest.entries]


def refused_of(manifest: Manifest) -> dict[str, str]:
    return {item.path: item.reason for item in manifest.refused}


def test_tracked_and_new_files_travel_and_ignored_ones_do_not(tmp_path: Path) -> None:
    commit_tree(
        tmp_path, {"train.py": "x", ".gitignore": "*.log\n!keep.log\nbuild/\n", "sub/.gitignore": "secret.txt\n"}
    )
    write_tree(tmp_path, {"new.py": "x", "a.log": "x", "keep.log": "x", "build/x.py": "x", "sub/secret.txt": "x"})
    assert paths_of(load_manifest(tmp_path)) == [".gitignore", "keep.log", "new.py", "sub/.gitignore", "train.py"]


def test_a_tracked_file_travels_although_it_is_ignored_and_a_deleted_one_does_not(tmp_path: Path) -> None:
    commit_tree(tmp_path, {"a.log": "x", "gone.py": "x"})
    write_tree(tmp_path, {".gitignore": "*.log\n"})
    (tmp_path / "gone.py").unlink()
    assert paths_of(load_manifest(tmp_path)) == [".gitignore", "a.log"]


def test_sfignore_takes_away_tracked_and_new_files_alike(tmp_path: Path) -> None:
    commit_tree(tmp_path, {"train.py": "x", "data/big.bin": "x", ".sfignore": "data/\n*.csv\n!keep.csv\n"})
    write_tree(tmp_path, {"a.csv": "x", "keep.csv": "x"})
    assert paths_of(load_manifest(tmp_path)) == [".sfignore", "keep.csv", "train.py"]


def test_caches_and_environments_stay_behind_unless_they_are_tracked_or_asked_for(tmp_path: Path) -> None:
    commit_tree(tmp_path, {"train.py": "x", "wandb/tracked": "x"})
    write_tree(
        tmp_path, {".venv/lib/a.py": "x", "__pycache__/a.pyc": "x", "wandb/run": "x", "wandb-settings.json": "{}"}
    )
    assert paths_of(load_manifest(tmp_path)) == ["train.py", "wandb-settings.json", "wandb/tracked"]
    write_tree(tmp_path, {".sfignore": "!wandb/\n"})
    assert "wandb/run" in paths_of(load_manifest(tmp_path))


def test_a_project_inside_a_larger_repository_takes_its_own_folder_alone(tmp_path: Path) -> None:
    commit_tree(tmp_path, {"other/x.py": "x", "exp/a/train.py": "x"})
    assert paths_of(load_manifest(tmp_path / "exp/a")) == ["train.py"]


def test_a_worktree_is_asked_like_any_repository(tmp_path: Path) -> None:
    commit_tree(tmp_path / "main", {"train.py": "x"})
    git(tmp_path / "main", "worktree", "add", "-q", str(tmp_path / "tree"))
    assert paths_of(load_manifest(tmp_path / "tree")) == ["train.py"]


def test_a_submodule_travels_in_full_and_one_that_is_not_checked_out_is_refused(tmp_path: Path) -> None:
    commit_tree(tmp_path / "lib", {"lib.py": "x"})
    commit_tree(tmp_path / "app", {"train.py": "x"})
    git(tmp_path / "app", "submodule", "add", "-q", str(tmp_path / "lib"), "lib")
    commit_tree(tmp_path / "app")
    assert paths_of(load_manifest(tmp_path / "app")) == [".gitmodules", "lib/lib.py", "train.py"]
    git(tmp_path, "clone", "-q", str(tmp_path / "app"), "clone")
    assert "git submodule update --init" in refused_of(load_manifest(tmp_path / "clone"))["lib"]


def test_a_repository_inside_that_is_no_submodule_travels_in_full(tmp_path: Path) -> None:
    commit_tree(tmp_path, {"train.py": "x"})
    commit_tree(tmp_path / "vendor", {"v.py": "x"})
    assert paths_of(load_manifest(tmp_path)) == ["train.py", "vendor/v.py"]


def test_outside_git_the_folder_is_walked_by_the_same_rules(tmp_path: Path) -> None:
    write_tree(tmp_path, {"train.py": "x", ".gitignore": "*.log\n", "a.log": "x", "sub/.gitignore": "!b.log\n"})
    write_tree(tmp_path, {"sub/b.log": "x", ".git/odd": "x", ".venv/a.py": "x", ".sfignore": "data/\n", "data/x": "x"})
    manifest = load_manifest(tmp_path)
    assert manifest.standing is GitStanding.NO_REPOSITORY
    assert paths_of(manifest) == [".gitignore", ".sfignore", "sub/.gitignore", "sub/b.log", "train.py"]


def test_without_git_on_the_path_the_answer_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_tree(tmp_path, {"train.py": "x"})
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    manifest = load_manifest(tmp_path)
    assert manifest.standing is GitStanding.NO_GIT
    assert paths_of(manifest) == ["train.py"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_tree(tmp_path / "repo", {"train.py": "x"})
    os.chown(tmp_path / "repo", 12345, 12345)
    os.chown(tmp_path / "repo/.git", 12345, 12345)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ProjectError, match=r"safe\.directory"):
        load_manifest(tmp_path / "repo")
    (tmp_path / ".gitconfig").write_text(f"[safe]\n\tdirectory = {tmp_path / 'repo'}\n")
    assert paths_of(load_manifest(tmp_path / "repo")) == ["train.py"]


def test_variables_of_the_caller_do_not_lead_git_astray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_tree(tmp_path / "a", {"a.py": "x"})
    commit_tree(tmp_path / "b", {"b.py": "x"})
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "b/.git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "nothing"))
    assert paths_of(load_manifest(tmp_path / "a")) == ["a.py"]


@pytest.mark.parametrize("where", ["repository", "folder"])
def test_fifos_and_sockets_are_refused_by_name_and_never_opened(tmp_path: Path, where: str) -> None:
    write_tree(tmp_path, {"train.py": "x", ".gitignore": "ignored.pipe\n"})
    if where == "repository":
        commit_tree(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "ignored.pipe")
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(os.path.relpath(tmp_path / "app.sock"))
    refused = refused_of(load_manifest(tmp_path))
    assert set(refused) == {"pipe", "app.sock"}
    assert "FIFO" in refused["pipe"]


def test_links_inside_stay_links_and_those_that_leave_are_refused(tmp_path: Path) -> None:
    write_tree(tmp_path, {"p/sub/train.py": "x", "outside.txt": "x"})
    root = tmp_path / "p"
    for name, target in {
        "inside": "sub/train.py",
        "sub/up": "../sub",
        "dangling": "nowhere",
        "out": "../outside.txt",
        "absolute": str(root / "sub/train.py"),
        "back": "../p/sub",
        "sub/two": "../out/../../outside.txt",
    }.items():
        (root / name).symlink_to(target)
    manifest = load_manifest(root)
    links = {entry.path: entry.link for entry in manifest.entries if entry.link is not None}
    assert links == {"inside": "sub/train.py", "sub/up": "../sub", "dangling": "nowhere"}
    assert set(refused_of(manifest)) == {"out", "absolute", "back", "sub/two"}


def test_files_that_look_like_secrets_are_refused_unless_they_are_asked_for(tmp_path: Path) -> None:
    commit_tree(tmp_path, {"train.py": "x"})
    write_tree(tmp_path, {".env": "T=1", ".env.example": "T=", ".env.local": "T=1", ".ssh/id_ed25519": "key"})
    write_tree(tmp_path, {".git-credentials": "https://ann:key@git.example"})
    manifest = load_manifest(tmp_path)
    assert set(refused_of(manifest)) == {".env", ".env.local", ".git-credentials", ".ssh/id_ed25519"}
    assert refused_of(manifest)[".ssh/id_ed25519"].startswith(
        "looks like a secret (a private key of SSH): ignore it, or"
    )
    assert ".env.example" in paths_of(manifest)
    write_tree(tmp_path, {".sfignore": "!.env\n.env.local\n.git-credentials\n.ssh/\n"})
    manifest = load_manifest(tmp_path)
    assert not manifest.refused
    assert ".env" in paths_of(manifest)


def test_the_executable_bit_is_the_only_mode_that_counts(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": "x", "b.py": "x", "run.sh": "x"})
    (tmp_path / "a.py").chmod(0o600)
    (tmp_path / "b.py").chmod(0o666 | stat.S_ISUID)
    entries = {entry.path: entry.executable for entry in load_manifest(tmp_path).entries}
    assert entries == {"a.py": False, "b.py": False, "run.sh": True}

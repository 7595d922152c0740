"""`sf pack` on working trees that are not simple: what travels, what is refused by name, and always the same digest."""

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from e2e.recipes import workspaces
from e2e.recipes.conftest import Client, make_project
from e2e.support.console import wait_for

OWN: Final = {"starforge.yaml", "experiments/first/config.yaml"}


def build(folder: Path, script: str) -> str:
    """Build the tree in the new `folder`; gives what the script printed."""
    folder.mkdir(parents=True)
    words = ["bash", "-c", workspaces.COMMON + script]
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def pack(client: Client, root: Path, *words: str, **variables: str) -> Any:  # noqa: ANN401 - a JSON answer
    said = client.run("pack", "first", "--json", *words, cwd=root, **variables)
    assert said.out, said.err
    return said.json


def paths_of(answer: dict[str, Any]) -> set[str]:
    return {file["path"] for file in answer["files"]} - OWN


def list_tree(root: Path) -> set[str]:
    """Every file below `root` but git's own."""
    found = (path.relative_to(root) for path in root.rglob("*") if path.is_file() or path.is_symlink())
    return {str(path) for path in found if ".git" not in path.parts} - OWN


def test_a_repository_inside_that_is_no_submodule_travels_in_full(client: Client, tmp_path: Path) -> None:
    build(tmp_path / "w", workspaces.NESTED)
    answer = pack(client, make_project(tmp_path / "w"))
    assert paths_of(answer) == {"train.py", "vendor/v.py"}
    assert answer["provenance"]["dirty"]


def test_without_git_the_folder_travels_and_the_answer_says_that_nothing_is_known(
    client: Client, tmp_path: Path
) -> None:
    build(tmp_path / "w", workspaces.PLAIN)
    answer = pack(client, make_project(tmp_path / "w"))
    assert paths_of(answer) == {"train.py"}
    assert (answer["provenance"]["git"], answer["provenance"]["commit"]) == ("no_repository", None)


def test_a_project_inside_a_larger_repository_is_packed_and_judged_alone(client: Client, tmp_path: Path) -> None:
    build(tmp_path / "w", workspaces.INSIDE_A_LARGER_ONE)
    answer = pack(client, make_project(tmp_path / "w/exp/a"))
    assert paths_of(answer) == {"train.py"}
    assert (answer["provenance"]["dirty"], answer["provenance"]["git"]) == (False, "repository")


def test_line_ends_that_git_calls_modified_are_named_and_packed_as_they_are(client: Client, tmp_path: Path) -> None:
    build(tmp_path / "w", workspaces.LINE_ENDS)
    answer = pack(client, make_project(tmp_path / "w"))
    assert answer["provenance"]["line_ends_only"] == ["win.txt"]
    assert not answer["provenance"]["dirty"]
    (member,) = [file for file in answer["files"] if file["path"] == "win.txt"]
    assert member["sha256"] == hashlib.sha256(b"line1\r\nline2\r\n").hexdigest()
    assert "win.txt differs from its commit in line ends alone" in client.run("pack", "first", cwd=tmp_path / "w").err


def test_of_modes_the_executable_bit_alone_travels(client: Client, tmp_path: Path) -> None:
    build(tmp_path / "w", workspaces.MODES)
    modes = {file["path"]: file["mode"] for file in pack(client, make_project(tmp_path / "w"))["files"]}
    assert (modes["train.sh"], modes["bin/run"], modes["data.bin"]) == ("0755", "0755", "0644")


@pytest.mark.parametrize(
    "script", [workspaces.HARD_NAMES, workspaces.UNICODE, workspaces.LONG_PATHS], ids=["hard", "unicode", "long"]
)
def test_every_name_arrives_as_it_was(client: Client, tmp_path: Path, script: str) -> None:
    build(tmp_path / "w", script)
    root = make_project(tmp_path / "w")
    answer = pack(client, root, "--output", str(tmp_path / "out.tar"))
    assert answer["refused"] == []
    assert paths_of(answer) == list_tree(root)
    with tarfile.open(tmp_path / "out.tar") as tar:
        tar.extractall(tmp_path / "unpacked", filter="data")
    assert list_tree(tmp_path / "unpacked") == list_tree(root)
    for path in list_tree(root):
        assert (tmp_path / "unpacked" / path).read_bytes() == (root / path).read_bytes()


def test_a_pipe_and_a_socket_are_refused_by_name_and_a_hard_link_is_a_file(client: Client, tmp_path: Path) -> None:
    build(tmp_path / "w", workspaces.SPECIAL)
    root = make_project(tmp_path / "w")
    answer = pack(client, root)
    assert [(one["path"], one["reason"]) for one in answer["refused"]] == [
        ("app.sock", "a socket cannot be packed"),
        ("pipe", "a FIFO cannot be packed"),
    ]
    assert answer["digest"] is None
    (root / ".sfignore").write_text("pipe\napp.sock\n")
    left = pack(client, root)
    assert paths_of(left) == {"train.py", "hard.py", ".sfignore"}
    assert all("link" not in file for file in left["files"])


def test_what_is_ignored_is_gits_own_answer(client: Client, tmp_path: Path) -> None:
    build(tmp_path / "w", workspaces.NEGATIONS)
    answer = pack(client, make_project(tmp_path / "w"))
    assert {"data/keep.json", "important.log", "sub/y.log"} <= paths_of(answer)
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(words, cwd=tmp_path / "w", capture_output=True, text=True, check=True).stdout.splitlines()
    assert paths_of(answer) == set(listed) - OWN


def test_what_looks_like_a_secret_is_refused_and_caches_stay_behind(client: Client, tmp_path: Path) -> None:
    build(tmp_path / "w", workspaces.SECRETS)
    root = make_project(tmp_path / "w")
    answer = pack(client, root)
    assert [one["path"] for one in answer["refused"]] == [".env", ".ssh/id_ed25519"]
    assert all("looks like a secret" in one["reason"] for one in answer["refused"])
    (root / ".sfignore").write_text(".env\n.ssh/\n")
    assert paths_of(pack(client, root)) == {"train.py", "wandb-settings.json", ".sfignore"}


@contextlib.contextmanager
def ended(pid: int) -> Iterator[None]:
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_a_file_that_is_being_written_is_whole_or_refused_by_name(client: Client, tmp_path: Path) -> None:
    with ended(int(build(tmp_path / "w", workspaces.GROWING))):
        log = tmp_path / "w/grow.log"
        wait_for(lambda: log.exists() and log.stat().st_size > 0, "the log to grow", 10)
        root = make_project(tmp_path / "w")
        answer = pack(client, root, "--output", str(tmp_path / "out.tar"))
        if answer["digest"] is None:
            assert [one["path"] for one in answer["refused"]] == ["grow.log"]
        else:
            with tarfile.open(tmp_path / "out.tar") as tar:
                (said,) = [file["bytes"] for file in answer["files"] if file["path"] == "grow.log"]
                assert tar.getmember("grow.log").size == said
        (root / ".sfignore").write_text("grow.log\n")
        assert paths_of(pack(client, root)) == {"train.py", ".sfignore"}
        (root / "stop").touch()


def test_path_umask_locale_zone_and_times_do_not_change_the_digest(client: Client, tmp_path: Path) -> None:
    build(tmp_path / "w", workspaces.UNICODE)
    root = make_project(tmp_path / "w")
    digest = pack(client, root, LC_ALL="C.UTF-8", TZ="UTC")["digest"]
    before = os.umask(0o077)
    try:
        copy = tmp_path / "a folder elsewhere" / "copy"
        shutil.copytree(root, copy, copy_function=shutil.copyfile)
        for path in sorted(copy.rglob("*")):
            os.utime(path, (86_400, 86_400))
        second = pack(client, copy, LC_ALL="C", LANG="C", TZ="Asia/Shanghai", XDG_CACHE_HOME=str(tmp_path / "cache"))
    finally:
        os.umask(before)
    assert second["digest"] == digest

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from core.tests.cli.conftest import Sf
from core.tests.workspace.trees import git, write_tree


def test_a_project_is_made_with_one_commit_where_nobody_told_git_a_name(sf: Sf, folder: Path) -> None:
    result = sf("init", "my-project", "--json")
    assert result.code == 0
    root = folder / "my-project"
    assert {path.name for path in root.iterdir()} == {
        ".git", ".gitattributes", ".gitignore", "README.md", "common", "configs", "experiments", "starforge.yaml",
    }  # fmt: skip
    assert git(root, "rev-list", "--count", "HEAD") == "1"
    assert git(root, "status", "--porcelain") == ""
    assert result.json["commit"] == git(root, "rev-parse", "HEAD")
    assert result.json["name"] == "my-project"


def test_the_users_own_name_is_on_the_commit_where_git_knows_it(sf: Sf, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "home/.gitconfig").write_text("[user]\n\tname = Grace\n\temail = grace@example.org\n")
    sf("init", "p")
    assert git(folder / "p", "log", "--format=%an %ae") == "Grace grace@example.org"


def test_hooks_and_signing_of_the_user_do_not_hinder_the_commit(sf: Sf, folder: Path, tmp_path: Path) -> None:
    write_tree(tmp_path / "home", {"hooks/pre-commit.sh": "#!/bin/sh\nexit 1\n"})
    (tmp_path / "home/hooks/pre-commit.sh").rename(tmp_path / "home/hooks/pre-commit")
    config = f"[core]\n\thooksPath = {tmp_path}/home/hooks\n[commit]\n\tgpgSign = true\n"
    (tmp_path / "home/.gitconfig").write_text(config)
    assert sf("init", "p").code == 0
    assert git(folder / "p", "rev-list", "--count", "HEAD") == "1"


def test_without_git_wanted_or_inside_a_repository_nothing_is_committed(sf: Sf, folder: Path) -> None:
    assert sf("init", "plain", "--no-git", "--json").json["commit"] is None
    assert not (folder / "plain/.git").exists()
    git(folder, "init", "-q")
    result = sf("init", "inner")
    assert "in a repository already" in result.err
    assert not (folder / "inner/.git").exists()


def test_a_name_that_cannot_be_one_is_refused_with_one_that_can(sf: Sf, folder: Path) -> None:
    result = sf("init", "My Project")
    assert result.code == 2
    assert "--name my-project" in result.err
    assert list(folder.iterdir()) == []


def test_nothing_that_is_there_is_overwritten(sf: Sf, folder: Path) -> None:
    write_tree(folder / "p", {"README.md": "mine"})
    assert "README.md" in sf("init", "p").err
    assert (folder / "p/README.md").read_text() == "mine"


def test_a_project_whose_name_is_digits_is_still_a_text(sf: Sf, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    sf("init", "2024")
    monkeypatch.chdir(folder / "2024")
    assert sf("ls", "--json").json["project"] == "2024"


def test_a_fresh_experiment_is_valid_and_says_what_to_do_next(
    sf: Sf, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sf("init", "p")
    monkeypatch.chdir(folder / "p")
    made = sf("new", "first", "--image", "registry.local:5000/train@sha256:" + "0" * 64, "--json").json
    assert made["files"] == ["README.md", "config.yaml", "recipe.lock.json", "train.py", "train.sh"]
    assert os.access("experiments/first/train.sh", os.X_OK)
    assert sf("validate", "first", "--json").json == {
        "ok": True,
        "errors": [],
        "warnings": [],
        "profiles_age_s": None,
        "rules_about_gpus_left": 0,
    }
    (item,) = sf("ls", "--json").json["items"]
    assert (item["name"], item["method"], item["lock"], item["faults"]) == ("first", "custom/custom", "current", 0)
    assert "git commit" in sf("new", "second").out


@pytest.mark.parametrize(
    ("method", "profile"), [("custom/custom", "cpu"), ("trl/sft", "any:1"), ("nemo-rl/grpo", "any:1")]
)
@pytest.mark.usefixtures("project")
def test_the_way_on_names_a_profile_that_suits_the_method(sf: Sf, method: str, profile: str) -> None:
    assert f"--profile {profile} " in sf("new", "third", "--method", method, "--image", "registry.local/train:1").out


def test_data_of_a_kind_that_the_method_does_not_read_is_a_fault(sf: Sf, project: Path) -> None:
    sf("new", "third", "--method", "verl/sft", "--image", "registry.local/train:1")
    assert sf("validate", "third", "--json").json["ok"]
    config = project / "experiments/third/config.yaml"
    config.write_text(config.read_text().replace("data/train.parquet", "data/train.jsonl"))
    (fault,) = sf("validate", "third", "--json").json["errors"]
    assert (fault["code"], fault["line"]) == ("data_format", 11)
    assert "reads .parquet alone" in fault["message"]


def test_a_file_that_holds_a_token_is_refused_by_name_and_line_and_never_by_value(sf: Sf, project: Path) -> None:
    token = "ghp_" + "aB3dE5fG7h" * 3 + "iJ9kL1"
    (project / "push.py").write_text(f"import os\nTOKEN = '{token}'\n")
    (project / ".aws").mkdir()
    result = sf("pack", "first", "--json")
    assert (result.code, [one["path"] for one in result.json["refused"]]) == (1, ["push.py"])
    assert result.json["refused"][0]["reason"].startswith(
        "line 2 holds a token of GitHub: take it out, or write !push.py"
    )
    (project / ".aws/credentials").write_text("[default]\n")
    shown = sf("pack", "first")
    assert (shown.code, shown.out) == (1, "")
    assert "refused: .aws/credentials: looks like a secret (keys of AWS)" in shown.err
    (project / ".sfignore").write_text(".aws/\n!push.py\n")
    allowed = sf("pack", "first")
    assert allowed.code == 0
    assert token not in result.out + result.err + shown.out + shown.err + allowed.out + allowed.err


def test_rows_without_the_columns_that_the_method_needs_are_a_fault_at_once(sf: Sf, project: Path) -> None:
    sf("new", "third", "--method", "trl/sft", "--image", "registry.local/train:1")
    data, config = project / "experiments/third/data/train.jsonl", project / "experiments/third/config.yaml"
    assert sf("validate", "third", "--json").json["ok"]
    data.write_text('{"question": "why?", "answer": "so"}\n' * 3)
    (fault,) = sf("validate", "third", "--json").json["errors"]
    line = next(number for number, text in enumerate(config.read_text().splitlines(), 1) if "train.jsonl" in text)
    assert (fault["code"], fault["line"]) == ("data_columns", line)
    assert "its rows have answer, question; wanted are text, or messages" in fault["message"]
    config.write_text(config.read_text().replace("hyperparameters:", "hyperparameters:\n  dataset_text_field: answer"))
    assert sf("validate", "third", "--json").json["ok"]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["first"], "is there already"),
        (["Bad Name"], "cannot name an experiment"),
        (["x", "--method", "trl/sfft"], "there is no method"),
        (["x", "--image", "a b\nevil: yes"], "is no image"),
    ],
)
def test_an_experiment_that_cannot_be_made_is_refused(sf: Sf, project: Path, words: list[str], hint: str) -> None:
    result = sf("new", *words)
    assert result.code != 0
    assert hint in result.err
    assert [path.name for path in (project / "experiments").iterdir()] == ["first"]


def test_validate_prints_every_fault_with_its_place(sf: Sf, project: Path) -> None:
    write_tree(project, {"experiments/first/config.yaml": "imag: x\nlifecycle: {retries: -1}\n"})
    result = sf("validate", "first", "--json")
    assert result.code == 1
    assert result.json["ok"] is False
    assert {"code", "message", "file", "line", "column", "hint"} == set(result.json["errors"][0])
    places = {(error["line"], error["column"]) for error in result.json["errors"]}
    assert {(1, 1), (2, 22)} <= places
    text = sf("validate", "first")
    assert "experiments/first/config.yaml:1:1: error:" in text.out
    assert text.code == 1


def test_validate_tells_a_damaged_project_file_in_the_same_way(sf: Sf, project: Path) -> None:
    write_tree(project, {"starforge.yaml": "apiVersion: forge/project/v1\nname: demo\nname: demo\n"})
    (error,) = sf("validate", "first", "--json").json["errors"]
    assert (error["code"], error["file"], error["line"]) == ("yaml_duplicate_key", "starforge.yaml", 3)


def test_pack_lists_what_travels_and_where_it_came_from(sf: Sf, project: Path) -> None:
    answer = sf("pack", "first", "--json").json
    assert set(answer) == {"digest", "bytes", "files", "refused", "provenance"}
    assert answer["digest"].startswith("sha256:")
    files = {file["path"]: file for file in answer["files"]}
    assert files["experiments/first/train.sh"]["mode"] == "0755"
    assert set(files["starforge.yaml"]) == {"path", "bytes", "mode", "sha256"}
    assert answer["provenance"]["commit"] == git(project, "rev-parse", "HEAD")
    assert answer["provenance"]["dirty"] is False


def test_pack_says_where_no_commit_is_known(sf: Sf, project: Path) -> None:
    assert "no commit is known" not in sf("pack", "first").err
    shutil.rmtree(project / ".git")
    assert "no commit is known of it (it lies in no repository of git)" in sf("pack", "first").err


def test_pack_names_what_it_refuses_and_gives_no_digest(sf: Sf, project: Path) -> None:
    os.mkfifo(project / "pipe")
    result = sf("pack", "first", "--json")
    assert result.code == 1
    assert (result.json["digest"], result.json["refused"]) == (
        None,
        [{"path": "pipe", "reason": "a FIFO cannot be packed"}],
    )
    assert "pipe" in sf("pack", "first").err


def test_pack_names_a_file_that_it_cannot_read_by_its_whole_path(sf: Sf, project: Path) -> None:
    with (project / "my data.bin").open("wb") as file:
        file.truncate(128 << 20)  # reading it takes so long that each reading meets a write, also on a busy machine
    done = threading.Event()

    def grow() -> None:
        with (project / "my data.bin").open("ab", buffering=0) as file:
            while not done.is_set():
                file.write(b"y" * 100)

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        result = sf("pack", "first", "--json")
    finally:
        done.set()
        writer.join()
    assert (result.code, result.json["digest"]) == (1, None)
    assert result.json["refused"] == [{"path": "my data.bin", "reason": "my data.bin changes while it is read"}]


@pytest.mark.usefixtures("project")
def test_pack_writes_the_tar_whose_digest_it_says(sf: Sf, tmp_path: Path) -> None:
    answer = sf("pack", "first", "--json", "--output", str(tmp_path / "out.tar")).json
    assert answer["digest"] == "sha256:" + hashlib.sha256((tmp_path / "out.tar").read_bytes()).hexdigest()
    assert answer["bytes"] == (tmp_path / "out.tar").stat().st_size


def test_the_limit_of_the_project_is_the_projects_own(sf: Sf, project: Path) -> None:
    write_tree(project, {"big.bin": b"x" * (2 << 20)})
    (project / "starforge.yaml").write_text("apiVersion: forge/project/v1\nname: demo\npack_limit_mib: 1\n")
    result = sf("pack", "first", "--json")
    assert (result.code, "big.bin" in result.json["error"]["why"]) == (2, True)


def test_methods_and_version_need_no_project(sf: Sf) -> None:
    items = sf("methods", "--json").json["items"]
    assert "custom/custom" in {item["name"] for item in items}
    assert "custom/custom" in sf("methods").out
    assert sf("version", "--json").json["version"] in sf("version").out


def test_the_answers_are_the_same_in_a_process_of_its_own(project: Path) -> None:
    argv = [sys.executable, "-m", "starforge.cli.main", "pack", "first", "--json"]
    done = subprocess.run(argv, cwd=project, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["refused"] == []
    assert done.stderr == ""

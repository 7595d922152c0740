import hashlib
import io
import json
import shlex
import tarfile
from pathlib import Path

import pytest

from core.tests.cli.conftest import Result, Sf
from core.tests.client.server import ConsoleState
from core.tests.workspace.trees import commit_tree, git, write_tree
from starforge.contract.api import AttemptView
from starforge.contract.jobspec import digest_of
from starforge.workspace.clone import CLONE_FILE


def submit(sf: Sf, *words: str) -> str:
    result = sf("submit", "first", *words, "--json")
    assert result.code == 0, result.err
    return str(result.json["job"])


def clone(sf: Sf, job: str, *words: str) -> dict[str, object]:
    result = sf("job", "clone", job, *words, "--json")
    assert result.code == 0, result.err
    found: dict[str, object] = result.json
    return found


def run_printed(sf: Sf, monkeypatch: pytest.MonkeyPatch, printed: Result) -> Result:
    """Run what a clone printed as a shell would."""
    cd, folder, and_, program, *words = shlex.split(printed.out)
    assert (cd, and_, program) == ("cd", "&&", "sf")
    monkeypatch.chdir(folder)
    return sf(*words, "--json")


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(
    "words",
    [
        ["--profile", "cpu"],
        ["--profile", "h200:16"],
        ["--profile", "any:3", "--set", "steps=7", "--set", "name=\"a: b 'c' # ü\"", "--set", "lr=1e-5"],
        ["--profile", "cpu", "--note", "it's", "--retries", "2", "--max-runtime", "60", "--priority", "high"],
        ["--profile", "cpu", "--set", 'name="\\u001b[2J\\u202e\\U0001F600"', "--set", 'deep={"\\u001b[2J": 1}'],
        ["--profile", "cpu", "--set", "labels.team=nlp", "--set", "deep.er={a.b: [1, 1.0, null, true]}"],
    ],
)
def test_the_printed_command_makes_the_same_spec(
    sf: Sf, project: Path, state: ConsoleState, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    git(project, "remote", "add", "origin", "git@git.example:team/demo.git")
    commit_tree(project, {"a b/ü.txt": "x", "run.sh": "#!/bin/sh\n", ".gitignore": "kept.log\n"})
    write_tree(project, {"kept.log": "kept by force\n"})
    git(project, "add", "-f", "kept.log")
    commit_tree(project)
    job = submit(sf, *words)
    monkeypatch.chdir(project.parent)
    printed = sf("job", "clone", job)
    assert (printed.code, "warning" in printed.err) == (0, False), printed.err
    assert not set(printed.out + printed.err) & set("\x1b\u202e")
    again = run_printed(sf, monkeypatch, printed)
    assert again.code == 0, again.err
    assert again.json["uploaded"] is False
    first, second = state.jobs.values()
    assert digest_of(second.request.spec) == digest_of(first.request.spec)
    assert second.request.config == first.request.config
    assert second.request.spec.spec.provenance.commit == git(project, "rev-parse", "HEAD")


@pytest.mark.usefixtures("server")
def test_a_dirty_jobs_clone_is_as_dirty_and_keeps_its_difference(
    sf: Sf, project: Path, state: ConsoleState, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(project, {"experiments/first/train.sh": "echo other\n", "new.py": "x = 1\n"})
    job = submit(sf, "--profile", "cpu", "--allow-dirty")
    assert "+echo other" in state.jobs[job].request.difference.text  # type: ignore[union-attr]  # it has one
    monkeypatch.chdir(project.parent)
    printed = sf("job", "clone", job, "there")
    assert "--allow-dirty" in printed.out
    again = run_printed(sf, monkeypatch, printed)
    assert again.json["spec_digest"] == digest_of(state.jobs[job].request.spec)
    assert state.jobs[again.json["job"]].request.difference == state.jobs[job].request.difference
    refused = sf("submit", "first", "--profile", "cpu")
    assert refused.code == 2
    assert "new.py" in refused.err


@pytest.mark.usefixtures("server")
def test_an_edited_clone_is_another_tree_that_began_at_the_jobs_commit(
    sf: Sf, project: Path, state: ConsoleState, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submit(sf, "--profile", "cpu")
    made = clone(sf, job, str(project.parent / "there"))
    assert made["same_digest"] is True
    monkeypatch.chdir(str(made["folder"]))
    write_tree(Path(), {"experiments/first/train.sh": "echo edited\n", "more.py": ""})
    Path("experiments/first/README.md").unlink()
    refused = sf("submit", "first", "--profile", "cpu")
    assert refused.code == 2
    changed = ["experiments/first/README.md", "experiments/first/train.sh", "more.py"]
    assert ", ".join(changed) in refused.err
    assert "a repository of its own" in refused.err
    allowed = submit(sf, "--profile", "cpu", "--allow-dirty")
    origin = state.jobs[allowed].request.spec.spec.provenance
    assert (origin.commit, origin.dirty, list(origin.dirty_files)) == (git(project, "rev-parse", "HEAD"), True, changed)
    assert allowed != job
    assert digest_of(state.jobs[allowed].request.spec) != digest_of(state.jobs[job].request.spec)
    own = commit_tree(Path())
    committed = submit(sf, "--profile", "cpu")
    origin = state.jobs[committed].request.spec.spec.provenance
    assert (origin.commit, origin.dirty) == (own, False)


@pytest.mark.usefixtures("server")
def test_the_file_that_remembers_never_travels(sf: Sf, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = submit(sf, "--profile", "cpu")
    made = clone(sf, job, str(project.parent / "there"))
    monkeypatch.chdir(str(made["folder"]))
    assert Path(CLONE_FILE).is_file()
    packed = sf("pack", "first", "--json").json
    assert packed["digest"] == made["workspace"]
    commit_tree(Path())
    assert sf("pack", "first", "--json").json["digest"] == made["workspace"]


@pytest.mark.usefixtures("server")
def test_a_clone_inside_of_another_repository_is_still_a_clone(
    sf: Sf, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submit(sf, "--profile", "cpu")
    made = clone(sf, job, "inner")
    assert made["same_digest"] is True
    monkeypatch.chdir(project / "inner")
    assert sf("pack", "first", "--json").json["digest"] == made["workspace"]


@pytest.mark.usefixtures("server")
def test_a_clone_of_a_project_outside_of_git_gives_the_same_spec(
    sf: Sf, project: Path, state: ConsoleState, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / ".git").rename(project.parent / "away")
    job = submit(sf, "--profile", "cpu")
    monkeypatch.chdir(project.parent)
    again = run_printed(sf, monkeypatch, sf("job", "clone", job))
    assert again.json["spec_digest"] == digest_of(state.jobs[job].request.spec)


@pytest.mark.usefixtures("server")
def test_an_empty_folder_is_filled_and_a_full_one_refused(
    sf: Sf, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submit(sf, "--profile", "cpu")
    empty = project.parent / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    clone(sf, job, ".")
    assert Path("starforge.yaml").is_file()
    refused = sf("job", "clone", job, ".")
    assert (refused.code, "is there already" in refused.err) == (2, True)
    assert sf("job", "clone", job, str(empty / "no" / "where")).code == 2


@pytest.mark.usefixtures("server", "project")
def test_a_download_that_is_cut_goes_on_where_it_was(sf: Sf, project: Path, state: ConsoleState) -> None:
    job = submit(sf, "--profile", "cpu")
    state.cut_downloads_at = [1000, 3000]
    assert clone(sf, job, str(project.parent / "there"))["same_digest"] is True
    asked = [seen.headers.get("range") for seen in state.seen if seen.path.endswith("/workspace")]
    assert asked[0] is None
    assert len(asked) == 3


def make_tar(*members: tarfile.TarInfo) -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    return whole.getvalue()


def member(name: str, **attributes: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for attribute, value in attributes.items():
        setattr(info, attribute, value)
    return info


@pytest.mark.usefixtures("server", "project")
@pytest.mark.parametrize(
    "members",
    [
        [member("../out", size=1)],
        [member("/etc/out", size=1)],
        [member("a", type=tarfile.SYMTYPE, linkname="../..")],
        [member("a", type=tarfile.SYMTYPE, linkname="/etc/passwd")],
        [member("a", type=tarfile.FIFOTYPE)],
        [member("a", size=1), member("b", type=tarfile.LNKTYPE, linkname="a")],
        [member("sub/.GIT/config", size=1)],
        [member(CLONE_FILE, size=1)],
    ],
    ids=["up", "root", "link-up", "link-root", "fifo", "hard-link", "repository", "clone"],
)
def test_an_archive_that_no_sf_packs_is_refused_and_leaves_nothing(
    sf: Sf, project: Path, state: ConsoleState, members: list[tarfile.TarInfo]
) -> None:
    job = submit(sf, "--profile", "cpu")
    archive = make_tar(*members)
    digest = "sha256:" + hashlib.sha256(archive).hexdigest()
    kept = state.jobs[job].request
    workspace = kept.spec.spec.workspace.model_copy(update={"digest": digest, "files": len(members)})
    spec = kept.spec.model_copy(update={"spec": kept.spec.spec.model_copy(update={"workspace": workspace})})
    state.jobs[job].request = kept.model_copy(update={"spec": spec})
    state.blobs[digest] = archive
    before = sorted(project.parent.iterdir())
    refused = sf("job", "clone", job, str(project.parent / "there"))
    assert refused.code != 0
    assert "was not taken" in refused.err or "brought one of its own" in refused.err
    assert sorted(project.parent.iterdir()) == before


@pytest.mark.usefixtures("server", "project")
def test_other_bytes_than_the_digest_says_are_refused(sf: Sf, project: Path, state: ConsoleState) -> None:
    job = submit(sf, "--profile", "cpu")
    digest = state.jobs[job].request.spec.spec.workspace.digest
    state.blobs[digest] = state.blobs[digest].replace(b"demo", b"evil")
    refused = sf("job", "clone", job, str(project.parent / "there"))
    assert (refused.code != 0, "has sha256" in refused.err) == (True, True)
    assert not (project.parent / "there").exists()


@pytest.mark.usefixtures("server", "project")
def test_what_stands_against_the_same_digest_is_said(sf: Sf, project: Path, state: ConsoleState) -> None:
    job = submit(sf, "--profile", "h200:4")
    known, state.profiles = state.profiles, []
    made = clone(sf, job, str(project.parent / "there"))
    assert made["same_digest"] is False
    assert "no profile of today" in str(made["why"])
    state.profiles = known
    kept = state.jobs[job].request
    state.jobs[job].request = kept.model_copy(update={"config": {"steps": 1}})
    assert "no option takes one away" in str(clone(sf, job, str(project.parent / "fewer"))["why"])
    state.jobs[job].request = kept.model_copy(update={"config": None})
    assert clone(sf, job, str(project.parent / "unkept"))["same_digest"] is True  # its files alone say all of it


@pytest.mark.usefixtures("server", "project")
def test_a_spoilt_file_of_a_clone_is_named(sf: Sf, project: Path) -> None:
    (project / CLONE_FILE).write_text(json.dumps({"version": "forge/clone/v9"}))
    refused = sf("pack", "first")
    assert refused.code == 2
    assert "forge/clone/v9" in refused.err


@pytest.mark.usefixtures("server", "project")
def test_the_same_spec_is_submitted_again_by_one_word(sf: Sf, state: ConsoleState) -> None:
    job = submit(sf, "--profile", "cpu")
    state.failures = [("/rerun", 0, {})]
    result = sf("rerun", job, "--json")
    assert result.code == 0, result.err
    assert len(state.jobs) == 2
    assert (result.json["rerun_of"], result.json["spec_digest"]) == (job, digest_of(state.jobs[job].request.spec))
    assert sf("rerun", job).out.split() == [list(state.jobs)[-1]]
    assert sf("rerun", "jaaaaaaaaa").code == 1


@pytest.mark.usefixtures("server")
def test_where_a_job_came_from_is_shown_whole_and_so_is_its_difference(
    sf: Sf, project: Path, state: ConsoleState
) -> None:
    git(project, "remote", "add", "origin", "https://ann:secret@git.example/demo.git")
    write_tree(project, {"new.py": "x = 'ü\x1b[2J'\n"})
    job = submit(sf, "--profile", "cpu", "--allow-dirty")
    digests = {"image_id": "sha256:" + "1" * 64, "capsule_digest": "sha256:" + "2" * 64}
    ran = AttemptView(number=1, id="a", dequeued_at=1.0, runner_digest="sha256:" + "3" * 64, **digests)
    state.jobs[job].attempts = [
        ran,
        AttemptView(number=2, id="b", dequeued_at=2.0),
        AttemptView(number=3, id="c", dequeued_at=3.0, is_bare=True),
    ]
    shown = sf("job", "show", job, "--lineage").out
    spec = state.jobs[job].request.spec
    for whole in (
        git(project, "rev-parse", "HEAD"),
        "https://git.example/demo.git",
        "1 file: new.py",
        spec.spec.recipe.digest,
        spec.spec.framework.image,
        spec.spec.workspace.digest,
        str(spec.spec.provenance.config_digest),
        digest_of(spec),
        *("sha256:" + digit * 64 for digit in "123"),
        "attempt 2   not assembled yet",
        "attempt 3   without a container, and without the image",
    ):
        assert whole in shown
    assert "secret" not in shown
    difference = sf("job", "show", job, "--diff")
    assert difference.out == state.jobs[job].request.difference.text  # type: ignore[union-attr]  # it has one
    assert "+x = 'ü\x1b[2J'\n" in difference.out
    assert sf("job", "show", job, "--diff", "--json").json["text"] == difference.out
    assert f"sf job show --lineage {job}" in sf("job", "show", job).out
    (project / "new.py").unlink()
    assert sf("job", "show", submit(sf, "--profile", "cpu"), "--diff").code == 1


@pytest.mark.usefixtures("server")
def test_a_start_is_shown_with_the_checkpoint_that_it_was_pinned_to(sf: Sf, project: Path, state: ConsoleState) -> None:
    assert project.is_dir()
    start = "run/j234567abc/checkpoint"
    job = submit(sf, "--profile", "cpu", "--init-from", start)
    detail = sf("job", "show", job, "--json").json
    pinned = {"member": "init_from", "kind": "checkpoint", "name": "j234567abc", "version": "attempt 2, step 70"}
    state.answers[f"GET /jobs/{job}"] = {**detail, "inputs": [pinned]}
    assert f"starts from {start} (attempt 2, step 70)\n" in sf("job", "show", job, "--lineage").out

"""`sf sweep` against a console that listens: a project on disk, real gates, a real ledger."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import JsonValue

from core.tests.workspace.trees import commit_tree, write_project, write_tree
from starforge.cli.main import main
from starforge.client import Client
from starforge.contract.combinations import COMBINATIONS_AT_MOST
from starforge.contract.ids import is_sweep_id
from starforge.errors import InputError
from starforge.recipes.catalog import load_method
from starforge.recipes.lock import build_lock, render_lock


class Said(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Sf = Callable[..., Said]
GRID = ("-g", "lr=1e-3,1e-4", "-g", "optim.betas=[0.9, 0.95],[0.8, 0.99]")


@pytest.fixture
def sf(login: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> Sf:
    assert login

    def run(*words: str) -> Said:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        return Said(int(ended.value.code or 0), *capsys.readouterr())

    return run


def list_jobs(sf: Sf, *words: str) -> Sequence[dict[str, Any]]:
    found: Sequence[dict[str, Any]] = sf("job", "ls", "--json", *words).json["items"]
    return found


@pytest.mark.usefixtures("project")
def test_a_sweep_is_sent_once_shown_and_stopped(sf: Sf) -> None:
    done = sf("sweep", "first", "--profile", "cpu", *GRID, "--name", "rates", "--json")
    assert done.code == 0, done.err
    told = done.json
    assert is_sweep_id(told["sweep"])
    assert (told["name"], told["uploaded"], told["repeated"]) == ("rates", True, False)
    assert [one["combination"] for one in told["jobs"]] == [
        {"lr": rate, "optim.betas": betas} for rate in (1e-3, 1e-4) for betas in ([0.9, 0.95], [0.8, 0.99])
    ]
    job = told["jobs"][1]["job"]
    assert f"{told['sweep']} rates: lr=0.001 optim.betas=[0.8, 0.99]" in sf("job", "show", job).out
    assert {one["id"] for one in list_jobs(sf, "--sweep", told["sweep"])} == {one["job"] for one in told["jobs"]}
    shown = sf("sweep", "show", told["sweep"]).out.splitlines()
    assert "rates: demo/first of ann, 4 QUEUED" in shown[0]
    assert shown[1].split()[:3] == ["JOB", "lr", "optim.betas"]
    assert [line.split()[0] for line in shown[2:]] == [one["job"] for one in told["jobs"]]
    assert sf("sweep", "ls", "--user", "me", "--json").json["items"][0]["keys"] == ["lr", "optim.betas"]
    assert "4 QUEUED" in sf("sweep", "ls").out
    stopped = sf("sweep", "stop", told["sweep"], "--note", "enough")
    assert (stopped.code, stopped.out.startswith("stopping 4 jobs")) == (0, True)
    assert {one["state"] for one in list_jobs(sf)} == {"STOPPED"}
    assert "have ended already" in sf("sweep", "stop", told["sweep"]).out


@pytest.mark.usefixtures("project")
def test_a_job_of_a_sweep_is_to_the_digest_the_one_that_submit_makes(sf: Sf) -> None:
    told = sf("sweep", "first", "--profile", "cpu", "-g", "lr=1e-3,1", "-g", "a.b=yes,no", "--json").json
    alone = sf("submit", "first", "--profile", "cpu", "--set", "lr=1", "--set", "a.b=no", "--json").json
    assert told["jobs"][3]["spec_digest"] == alone["spec_digest"]
    assert told["warnings"] == alone["admission"]["warnings"]


@pytest.mark.usefixtures("project")
def test_repeated_it_is_the_same_sweep_and_under_another_name_another_one(sf: Sf) -> None:
    words = ("sweep", "first", "--profile", "cpu", "-g", "lr=1,2,3")
    first = sf(*words)
    again = sf(*words)
    assert (again.code, again.out) == (0, first.out)
    assert "nothing was added" in again.err
    assert len(list_jobs(sf)) == 3
    assert sf(*words, "--name", "second").out != first.out
    assert len(list_jobs(sf)) == 6


@pytest.mark.usefixtures("project")
def test_a_dry_run_shows_every_combination_and_keeps_nothing(sf: Sf, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("sweep", "first", "--profile", "cpu", "-g", "lr=0.1,0.2", "-g", "n=1,2", "--dry-run")
    said = sf(*words)
    assert said.code == 0
    assert [line.split() for line in said.out.splitlines()[:3]] == [["lr", "n"], ["0.1", "1"], ["0.1", "2"]]
    assert "4 jobs in all" in said.out
    told = sf(*words, "--json").json
    assert (told["sweep"], [one["job"] for one in told["jobs"]]) == (None, [None] * 4)
    assert list_jobs(sf) == []
    monkeypatch.setenv("SF_SERVER", "http://127.0.0.1:1")
    away = sf(*words, "--json")
    assert (away.code, away.json["checks"], away.json["jobs"]) == (0, None, told["jobs"])
    assert "no gate was asked" in away.err


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (["lr"], ["no key and values"]),
        (["lr="], ["has no value"]),
        (["lr=1,~"], ["no list of values"]),
        (["lr=[1,2"], ["-g 'lr=[1,2'"]),
        (["lr=1,1"], ["lr has 1 twice"]),
        (["lr=1", "lr=2"], ["given twice"]),
        (["image=a,b", "lr"], ["image is none", "no key and values"]),
        (["optim={}", "optim.lr=1,2"], ["lies inside"]),
        ([f"lr={','.join(map(str, range(15)))}", f"n={','.join(map(str, range(15)))}"], ["15 * 15 = 225", "200 jobs"]),
    ],
)
@pytest.mark.usefixtures("project")
def test_values_that_are_none_are_refused_before_anything_is_read(sf: Sf, texts: list[str], says: list[str]) -> None:
    words = [word for text in texts for word in ("-g", text)]
    said = sf("sweep", "first", "--profile", "cpu", *words)
    assert said.code == 2
    assert [one for one in says if one not in said.err] == []
    assert list_jobs(sf) == []


@pytest.mark.usefixtures("project")
def test_the_largest_sweep_is_one_request(sf: Sf) -> None:
    values = ",".join(str(number) for number in range(COMBINATIONS_AT_MOST))
    told = sf("sweep", "first", "--profile", "cpu", "-g", f"seed={values}", "--json").json
    assert len(told["jobs"]) == COMBINATIONS_AT_MOST
    shown = sf("sweep", "show", told["sweep"])
    assert shown.code == 0
    assert "the method names no metric to compare runs by" in shown.err


@pytest.fixture
def sft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with an experiment of a method that knows its hyperparameters."""
    recipe = load_method("trl/sft")
    folder = "experiments/tune"
    root = write_tree(
        write_project(tmp_path / "tuned"),
        {
            f"{folder}/recipe.lock.json": render_lock(build_lock(recipe, recipe.runtimes[0])),
            f"{folder}/config.yaml": "image: train:1\nmodel: hf://a/b\ndata:\n  train: hf://a/c\n",
        },
    )
    commit_tree(root)
    monkeypatch.chdir(root)
    return root


@pytest.mark.usefixtures("sft")
def test_every_fault_of_every_combination_is_said_at_once_and_with_its_name(sf: Sf) -> None:
    grid = ("-g", "learning_rate=1e-5,fast", "-g", "num_train_epochs=1,many", "--set", "warmup=2")
    said = sf("sweep", "tune", "--profile", "cpu", *grid)
    assert said.code == 2
    assert "4 combinations" in said.err
    assert "-g learning_rate: learning_rate must be" in said.err
    assert (
        "in 2 of 4 combinations: learning_rate=fast num_train_epochs=1; learning_rate=fast num_train_epochs=many"
        in (" ".join(said.err.split()))
    )
    assert "-g num_train_epochs: num_train_epochs must be" in said.err
    assert said.err.count("trl/sft has no hyperparameter 'warmup'") == 1
    assert list_jobs(sf) == []


@pytest.mark.usefixtures("project")
def test_what_the_gates_refuse_refuses_the_whole_sweep(sf: Sf) -> None:
    said = sf("sweep", "first", "--profile", "cpu", "-g", "lr=1,2", "--fleet", "locale", "--json")
    assert said.code == 1
    assert [one["code"] for one in said.json["error"]["refusals"]] == ["fleet_unknown"]
    assert list_jobs(sf) == []


def test_an_experiment_that_is_called_as_a_command_is_named_in_full(sf: Sf, project: Path) -> None:
    commit_tree(write_project(project, "ls"))
    assert sf("sweep", "start", "ls", "--profile", "cpu", "-g", "lr=1,2").code == 0
    assert {one["name"] for one in list_jobs(sf)} == {"ls"}


def test_a_program_sweeps_as_the_command_does(client: Client, project: Path) -> None:
    folder = project / "experiments" / "first"
    grid: dict[str, list[JsonValue]] = {"lr": [0.1, 0.2], "bf16": [True, False]}
    made = client.sweep(folder, grid, profiles=["cpu"], name="from python", settings={"epochs": 3})
    assert [run.job.sweep.combination for run in made.runs if run.job.sweep] == [
        {"lr": lr, "bf16": bf16} for lr in (0.1, 0.2) for bf16 in (True, False)
    ]
    assert client.jobs.get(made.runs[0].job.id).spec.spec.hyperparameters["epochs"] == 3
    assert client.sweep(folder, grid, profiles=["cpu"], name="from python", settings={"epochs": 3}) == made
    with pytest.raises(InputError, match="lr has no value"):
        client.sweep(folder, {**grid, "lr": []}, profiles=["cpu"])


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("name", ["", " a", "a\nb", "a" * 101])
def test_a_name_that_is_none_is_refused(sf: Sf, name: str) -> None:
    said = sf("sweep", "first", "--profile", "cpu", "-g", "lr=1,2", "--name", name)
    assert said.code == 2
    assert "names no sweep" in said.err

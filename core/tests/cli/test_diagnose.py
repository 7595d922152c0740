import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from core.tests.cli.conftest import Sf
from core.tests.client.server import TOKEN, ConsoleState
from starforge.cli.diagnose import diagnose
from starforge.cli.job_cause import list_cause
from starforge.client.console import Console
from starforge.client.http import Connection
from starforge.contract.api import JobView
from starforge.errors import InputError

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
LOG = f'step 1\n[rank3]: Traceback (most recent call last):\n[rank3]:   File "a.py", line 1\n[rank3]: {OOM}\n'
JOB = "jabcdefghi"
ANSWER = {
    "job": JOB,
    "attempt": 2,
    "category": "gpu_oom",
    "kind": "cuda_oom",
    "summary": "The GPU's memory was not enough.",
    "root_cause_line": OOM,
    "line": 4,
    "byte_offset": 80,
    "advice": "Use a smaller batch.",
    "confidence": "sure",
    "suspect_rank": 3,
    "retryable": False,
    "facts": {},
    "rules_version": 1,
    "diagnosed_at": 5.0,
}


def test_a_file_is_diagnosed_without_a_console(tmp_path: Path) -> None:
    file = tmp_path / "train.log"
    file.write_text(LOG)
    result = CliRunner().invoke(diagnose, [str(file)])
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0] == "what:  The GPU's memory was not enough."
    assert lines[1] == "where: line 4, rank 3 failed first"
    assert lines[2].strip() == OOM
    assert lines[3] == "kind:  gpu_oom (sure)"
    assert lines[4].startswith("next:  Use a smaller batch")


def test_json_has_a_stable_schema_also_from_a_pipe() -> None:
    answer = json.loads(CliRunner().invoke(diagnose, ["-", "--json", "--exit-code", "1"], input=LOG).output)
    assert (answer["category"], answer["line"], answer["suspect_rank"]) == ("gpu_oom", 4, 3)
    assert set(answer) == set(ANSWER) - {"job", "attempt", "diagnosed_at"}


@pytest.mark.parametrize(
    ("log", "code", "category"),
    [
        ("", None, "unknown"),
        ("", "137", "killed_unknown"),
        ("", "-9", "killed_unknown"),
        ("all fine\n", "0", "unknown"),
        (f"the word {OOM}\n", "1", "unknown"),
    ],
)
def test_silence_and_the_exit_are_answers_too(log: str, code: str | None, category: str) -> None:
    words = ["-", "--json", *(["--exit-code", code] if code else [])]
    result = CliRunner().invoke(diagnose, words, input=log)
    assert (result.exit_code, json.loads(result.output)["category"]) == (0, category)


def test_what_a_log_says_does_nothing_to_a_terminal() -> None:
    log = "FileNotFoundError: [Errno 2] No such file or directory: '\x1b]0;x\x07\u202egnp'\n"
    output = CliRunner().invoke(diagnose, ["-"], input=log).output
    assert "path" in output.lower() or "file" in output.lower()
    assert not set(output) & set("\x1b\u202e\x07")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["none.log"], "none.log"),
        ([JOB, "--exit-code", "1"], "--exit-code"),
        (["-", "--attempt", "1"], "no job"),
        (["/"], "cannot be read"),
    ],
)
def test_what_cannot_be_diagnosed_is_refused_with_the_way_on(words: list[str], what: str) -> None:
    result = CliRunner().invoke(diagnose, words)
    assert isinstance(result.exception, InputError)
    assert what in result.exception.what
    assert result.exception.next_step


@pytest.mark.usefixtures("server")
def test_a_job_is_asked_of_the_console(sf: Sf, state: ConsoleState) -> None:
    state.answers[f"GET /jobs/{JOB}/diagnosis"] = ANSWER
    assert sf("diagnose", JOB, "--json").json == ANSWER
    told = sf("diagnose", JOB, "--attempt", "2")
    assert told.code == 0
    assert "line 4, rank 3 failed first" in told.out


def test_a_file_that_is_called_like_a_job_is_the_file(folder: Path, sf: Sf) -> None:
    (folder / JOB).write_text(LOG)
    assert sf("diagnose", JOB, "--json").json["category"] == "gpu_oom"


@pytest.mark.parametrize(("job_state", "is_told"), [("FAILED", True), ("RUNNING", False)])
def test_the_cause_is_shown_with_a_job_that_ended(
    server: str,
    state: ConsoleState,
    job_state: str,
    is_told: bool,  # noqa: FBT001 - a case
) -> None:
    state.answers[f"GET /jobs/{JOB}/diagnosis"] = ANSWER
    view = JobView(
        id=JOB, name="n", project="p", user="u", state=job_state, reason="exited_nonzero", desired="run", fleet=None,
        gpus=0, attempt=1, submitted_at=1.0, state_since=1.0,
    )  # fmt: skip
    with Connection(server, TOKEN) as connection:
        told = list(list_cause(Console(connection), view))
        state.answers.clear()
        assert list(list_cause(Console(connection), view)) == []
    assert (told[:2] == [
        ("diagnosis", "The GPU's memory was not enough. (gpu_oom, sure)"),
        ("", f"line 4: {OOM}"),
    ]) is is_told  # fmt: skip

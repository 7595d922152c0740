"""Names, notes and labels of every kind: kept as they were given, and shown as text that does nothing."""

import json
import unicodedata
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import pytest

from e2e.badinput.yard import Yard, write_sound
from e2e.support.console import wait_for

pytestmark = pytest.mark.engine

TEXTS: Final = {
    "commas and quotes": "a,b;'c'\"d\"=e",
    "line ends": "one\ntwo\r\nthree\tfour",
    "HTML": "<script>alert(1)</script>&amp;<img src=x onerror=alert(1)>",
    "right to left": "abc\u202efdp.exe\u202c \u2066x\u2069",
    "SQL": "'; DROP TABLE jobs; --",
    "emoji and CJK": "\U0001f9d1\u200d\U0001f680 训练 тест",
    "templates": "{{7*7}} ${HOME} %s %(x)s `id`",
}


def submit(yard: Yard, **metadata: object) -> str:
    """Submit a sound job with further metadata."""
    spec = yard.spec_with(yard.upload(write_sound))
    spec["metadata"] |= metadata
    answer = yard.send(spec)
    assert answer.status == 201, answer
    return str(answer.body["job"])


def check_shown(text: str) -> None:
    """No sign that moves a cursor, reorders or hides text reaches whoever reads `text`."""
    moving = {sign for sign in text if unicodedata.category(sign) in {"Cc", "Cf", "Zl", "Zp"}} - {"\n", "\u200d"}
    assert not moving, text


def shown(yard: Yard, *words: str) -> str:
    return yard.console.sf(*words, cwd=yard.probe.project).stdout


@pytest.fixture(scope="module")
def noted(shared_yard: Yard) -> Iterator[Mapping[str, str]]:
    """A job with each text as its note and its label."""
    begin = {what: partial(submit, shared_yard, note=text, labels={text: text}) for what, text in TEXTS.items()}
    with shared_yard.batch(begin) as jobs:
        yield jobs


@pytest.fixture(scope="module")
def stopped(shared_yard: Yard) -> Iterator[Mapping[str, str]]:
    """A job that was stopped with each text."""

    def begin(text: str) -> str:
        job = shared_yard.begin("while :; do sleep 1; done")
        shared_yard.probe.wait_state(job, "RUNNING")
        words = ("job", "stop", job, "--grace", "0", "--note", text)
        shared_yard.console.sf(*words, cwd=shared_yard.probe.project)
        return job

    with shared_yard.batch({what: partial(begin, text) for what, text in TEXTS.items()}) as jobs:
        yield jobs


@pytest.mark.parametrize("what", list(TEXTS))
def test_a_note_and_labels_come_back_as_they_were_given(shared_yard: Yard, noted: Mapping[str, str], what: str) -> None:
    yard, text, job = shared_yard, TEXTS[what], noted[what]
    detail = yard.probe.wait_end(job)
    assert detail["job"]["state"] == "SUCCEEDED"
    assert detail["spec"]["metadata"]["note"] == text
    assert detail["spec"]["metadata"]["labels"] == {text: text}
    page = shown(yard, "job", "show", job)
    assert job in page
    check_shown(page)


@pytest.mark.parametrize("what", list(TEXTS))
def test_the_note_of_a_stop_is_one_row_of_the_list(shared_yard: Yard, stopped: Mapping[str, str], what: str) -> None:
    yard, job = shared_yard, stopped[what]
    assert yard.probe.wait_end(job)["job"]["state"] == "STOPPED"
    (row,) = [line for line in shown(yard, "job", "ls", "--limit", "500").splitlines() if line.startswith(job)]
    assert "STOPPED" in row
    check_shown(row)
    page = shown(yard, "job", "show", job)
    check_shown(page)


@pytest.mark.parametrize(
    "name", ["", "-rf", "../x", "a b", "UPPER", "x" * 64, "a\nb", "<b>", "\u202eabc", "a/b", ".", "..", "con\0"]
)
def test_an_experiment_cannot_have_a_name_that_is_a_path_or_a_trick(unharmed: Yard, name: str) -> None:
    spec = unharmed.spec_with(unharmed.upload(write_sound))
    spec["metadata"]["name"] = name
    answer = unharmed.send(spec)
    assert answer.status == 422
    assert "metadata.name" in answer.words


def test_too_many_and_too_long_labels_are_refused_by_their_place(unharmed: Yard) -> None:
    workspace = unharmed.upload(write_sound)
    for labels in ({str(i): "" for i in range(65)}, {"x" * 101: ""}, {"": ""}, {"x": "y" * 1001}):
        spec = unharmed.spec_with(workspace)
        spec["metadata"]["labels"] = labels
        answer = unharmed.send(spec)
        assert answer.status == 422
        assert "metadata.labels" in answer.words


def test_outputs_with_names_of_every_kind_are_listed_as_they_are(yard: Yard) -> None:
    names = [
        "a,b",
        "line\nend",
        "tab\tbed",
        "quo'te\"s",
        "<b>bold</b>",
        "\u202eright",
        "\x1b]0;owned\x07\x1b[2Kbell",
        "-rf",
        " ",
        "训练",
        "%2e%2e",
        "*",
    ]
    names.append("/".join(["d" * 60] * 4 + ["f" * 60]))
    script = "import json, os, pathlib, sys\n" + "\n".join(
        [
            f"names = json.loads({json.dumps(json.dumps(names))})",
            "for name in names:",
            "    path = pathlib.Path(os.environ['FORGE_OUT_DIR'], name)",
            "    path.parent.mkdir(parents=True, exist_ok=True)",
            "    path.write_text(name)",
        ]
    )
    job, detail = yard.run(f"PYTHONUTF8=1 python3 - <<'PY'\n{script}\nPY")
    assert detail["job"]["state"] == "SUCCEEDED"
    outputs: Any = yard.console.get(f"/api/v1/jobs/{job}/outputs", yard.probe.token)
    assert sorted(one["path"] for one in outputs["artifacts"]) == sorted(names)
    assert {one["path"]: one["bytes"] for one in outputs["artifacts"]} == {name: len(name.encode()) for name in names}
    page = shown(yard, "job", "show", job)
    assert len([line for line in page.splitlines() if line.startswith("  artifact ")]) == len(names)
    check_shown(page)


def test_a_workspace_file_with_a_path_of_three_hundred_characters_arrives(yard: Yard) -> None:
    deep = yard.probe.folder / "/".join(["p" * 60] * 4 + ["q" * 60])
    deep.parent.mkdir(parents=True, exist_ok=True)
    deep.write_text("deep\n")
    job, detail = yard.run("cat p*/p*/p*/p*/q*")
    assert detail["job"]["state"] == "SUCCEEDED"
    wait_for(lambda: yard.probe.log(job) == "deep\n", "the file's content in the log", 10)

"""`sf secret`, and `sf submit --secret`: a value is asked for, piped in or read from a file, and never an argument."""

import json
from pathlib import Path

import pytest

from core.tests.cli.conftest import Sf
from core.tests.client.server import ConsoleState
from starforge.contract.api import AttemptView, GivenSecretView
from starforge.contract.secrets import VALUE_BYTES

VALUE = "hf_a-value-that-nobody-may-see"
pytestmark = pytest.mark.usefixtures("server")


@pytest.fixture(autouse=True)
def answers(state: ConsoleState) -> None:
    one = {"name": "HF_TOKEN", "set_at": 1_764_374_400.0, "note": ""}
    state.answers = {
        "PUT /secrets/HF_TOKEN": one,
        "PUT /secrets/PIN": {**one, "name": "PIN", "note": "PIN has fewer than 8 bytes"},
        "GET /secrets": {"items": [one]},
        "DELETE /secrets/HF_TOKEN": {},
    }


def sent(state: ConsoleState) -> list[object]:
    return [json.loads(one.body)["value"] for one in state.seen if one.method == "PUT"]


@pytest.mark.parametrize(
    ("piped", "value"),
    [
        (VALUE, VALUE),
        (f"{VALUE}\n", VALUE),
        (f"{VALUE}\r\n", VALUE),
        ("two\nlines\n\n", "two\nlines\n"),
        ("größer\n", "größer"),
    ],
)
def test_a_piped_value_is_sent_without_its_last_line_end_and_not_printed(
    sf: Sf, state: ConsoleState, piped: str, value: str
) -> None:
    result = sf("secret", "set", "HF_TOKEN", stdin=piped)
    assert (result.code, sent(state)) == (0, [value])
    assert value not in result.out + result.err
    assert "--secret HF_TOKEN" in result.out


def test_a_file_is_sent_byte_by_byte(sf: Sf, state: ConsoleState, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"a\r\nkey\n")
    assert sf("secret", "set", "HF_TOKEN", "--from-file", str(tmp_path / "key"), "--json").json["name"] == "HF_TOKEN"
    assert sent(state) == ["a\r\nkey\n"]


def test_whoever_sends_a_value_over_a_line_that_is_not_encrypted_is_warned_before(
    sf: Sf, state: ConsoleState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SF_SERVER", "http://console.invalid:1")
    monkeypatch.setenv("SF_TOKEN", f"sfp_{'x' * 43}")
    result = sf("secret", "set", "HF_TOKEN", "--from-file", "nowhere")
    assert "console.invalid:1 is not encrypted" in result.err
    assert sent(state) == []


def test_of_a_value_that_will_not_be_masked_its_owner_is_warned(sf: Sf) -> None:
    assert "fewer than 8 bytes" in sf("secret", "set", "PIN", stdin="1234").err


@pytest.mark.parametrize("words", [[f"HF_TOKEN={VALUE}"], ["HF_TOKEN", VALUE], ["HF_TOKEN", "=", VALUE]])
def test_a_value_among_the_arguments_is_refused_with_the_reason_and_not_repeated(
    sf: Sf, state: ConsoleState, words: list[str]
) -> None:
    result = sf("secret", "set", *words)
    assert (result.code, sent(state)) == (2, [])
    assert "never taken from the command line" in result.err
    assert "sf secret set HF_TOKEN" in result.err
    assert VALUE not in result.out + result.err


@pytest.mark.parametrize("content", [b"", b"x" * (VALUE_BYTES + 1), b"\xc3\xa4" * VALUE_BYTES, b"a\0b", b"\xff\xfe"])
def test_what_no_variable_can_hold_is_refused_before_it_is_sent(
    sf: Sf, state: ConsoleState, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "key").write_bytes(content)
    assert sf("secret", "set", "HF_TOKEN", "--from-file", str(tmp_path / "key")).code == 2
    assert sent(state) == []


@pytest.mark.parametrize("words", [["hf_token"], ["LD_PRELOAD"], ["HF_TOKEN", "--from-file", "nowhere"]])
def test_a_name_or_a_file_that_cannot_be_is_refused_before_anything_is_sent(
    sf: Sf, state: ConsoleState, words: list[str]
) -> None:
    assert sf("secret", "set", *words, stdin=VALUE).code == 2
    assert sent(state) == []


def test_secrets_are_listed_by_name_and_removed(sf: Sf, state: ConsoleState) -> None:
    assert "HF_TOKEN" in sf("secret", "ls").out
    assert sf("secret", "ls", "--json").json["items"][0]["name"] == "HF_TOKEN"
    assert sf("secret", "rm", "HF_TOKEN", "--json").json == {"name": "HF_TOKEN", "removed": True}
    assert state.seen[-1].method == "DELETE"
    state.answers["GET /secrets"] = {"items": []}
    assert "sf secret set NAME" in sf("secret", "ls").out


@pytest.mark.usefixtures("project")
def test_a_submission_names_its_secrets_once_each(sf: Sf, state: ConsoleState) -> None:
    words = ["--secret", "B_KEY", "--secret", "HF_TOKEN", "--secret", "B_KEY"]
    result = sf("submit", "first", "--profile", "cpu", *words, "--json")
    assert result.code == 0, result.err
    (job,) = state.jobs.values()
    assert job.request.spec.spec.secrets == ("B_KEY", "HF_TOKEN")


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("word", [f"HF_TOKEN={VALUE}", "hf_token", "PYTHONPATH"])
def test_a_submission_takes_names_of_secrets_alone(sf: Sf, state: ConsoleState, word: str) -> None:
    result = sf("submit", "first", "--profile", "cpu", "--secret", word)
    assert (result.code, VALUE in result.out + result.err, state.jobs) == (2, False, {})


@pytest.mark.usefixtures("project")
def test_a_job_shows_what_it_was_given_and_before_that_what_it_is_to_be_given(sf: Sf, state: ConsoleState) -> None:
    job = str(sf("submit", "first", "--profile", "cpu", "--secret", "HF_TOKEN", "--json").json["job"])
    assert "HF_TOKEN, not passed yet" in sf("job", "show", job).out
    given = (GivenSecretView(name="HF_TOKEN", set_at=1_764_374_400.0),)
    state.jobs[job].attempts = [
        AttemptView(number=1, id=f"{job}-1-abcdef", dequeued_at=1.0, capsule_digest="sha256:" + "1" * 64, secrets=given)
    ]
    assert "HF_TOKEN (set 2025-11-" in sf("job", "show", job).out
    assert "HF_TOKEN (set 2025-11-" in sf("job", "show", "--lineage", job).out


def test_the_command_of_a_clone_names_the_secrets(
    sf: Sf, project: Path, state: ConsoleState, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = str(sf("submit", "first", "--profile", "cpu", "--secret", "HF_TOKEN", "--json").json["job"])
    monkeypatch.chdir(project.parent)
    cloned = sf("job", "clone", job, "copy", "--json").json
    assert cloned["same_digest"], cloned
    assert cloned["command"][-2:] == ["--secret", "HF_TOKEN"]
    assert len(state.jobs) == 1

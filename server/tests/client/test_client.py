"""The public client against a console that listens."""

import dataclasses
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest

from server.tests.client.conftest import LOG, WEIGHTS
from server.tests.web.lives import begin, go
from server.tests.web.serving import Served
from server.tests.web.support import ConsoleUnderTest, submit
from starforge.client import Client, Column
from starforge.contract.states import Reason
from starforge.errors import (
    BackendUnreachable,
    Conflict,
    InputError,
    NotFound,
    ProgressAtRisk,
    SignInRequired,
    Unavailable,
)

GUIDES = ("docs/en/client.md", "docs/zh-Hans/client.md")


def test_importing_the_package_loads_neither_pydantic_nor_the_http_client() -> None:
    script = "import sys, starforge.client; print(sorted({'pydantic', 'httpx2', 'click'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.usefixtures("machine")
def test_an_experiment_is_submitted_awaited_and_brought_home(client: Client, project: Path, tmp_path: Path) -> None:
    job = client.submit(project / "experiments" / "first", profiles=["cpu"], settings={"epochs": 3})
    ended = client.wait(job.id, timeout_s=30)
    assert (ended.state, ended.reason) == ("SUCCEEDED", "exited_zero")
    assert b"".join(client.logs(job.id)) == LOG
    assert list(client.log_lines(job.id, follow=True)) == ["first line", "step 2 loss 0.5", "hälf"]
    assert client.metrics(job.id) == {"train/loss": Column([0, 1, 2], [2.0, 1.0, 0.5], [1.0, 2.0, 3.0], 3)}
    assert [one.name for one in client.artifacts(job.id)] == ["model.bin"]
    (brought,) = client.download(job.id, "model.bin", to=tmp_path / "here")
    assert brought.read_bytes() == WEIGHTS
    assert client.jobs.get(job.id).spec.spec.hyperparameters["epochs"] == 3


@pytest.mark.usefixtures("machine")
def test_the_spec_of_an_earlier_job_is_submitted_again(client: Client, project: Path) -> None:
    first = client.submit(project / "experiments" / "first", profiles=["cpu"])
    second = client.submit(client.jobs.get(first.id).spec)
    third = client.jobs.rerun(first.id)
    assert {client.wait(one.id, timeout_s=30).state for one in (first, second, third)} == {"SUCCEEDED"}
    assert [one.id for one in client.jobs.list(state="SUCCEEDED")] == [third.id, second.id, first.id]
    client.jobs.delete(second.id)
    assert [one.id for one in client.jobs.list()] == [third.id, first.id]


def test_what_stands_against_an_experiment_is_said_before_anything_is_sent(client: Client, project: Path) -> None:
    with pytest.raises(InputError) as unknown:
        client.submit(project / "experiments" / "first", profiles=["h900"])
    assert "h900" in str(unknown.value)
    (project / "experiments" / "first" / "train.sh").write_text("echo changed\n")
    with pytest.raises(Exception, match="differs from its commit"):
        client.submit(project / "experiments" / "first", profiles=["cpu"])
    assert client.jobs.list() == []


def test_waiting_gives_up_in_time_and_leaves_the_job_alone(
    client: Client, console: ConsoleUnderTest, login: tuple[str, str]
) -> None:
    job = submit(console, {"Authorization": f"Bearer {login[1]}"})
    with pytest.raises(Unavailable, match="has not ended in") as late:
        client.wait(job, timeout_s=0.2)
    assert "QUEUED" in late.value.why
    assert client.jobs.stop(job, note="enough").desired == "stop"


def test_a_job_is_paused_goes_on_and_is_retried(
    client: Client, console: ConsoleUnderTest, login: tuple[str, str]
) -> None:
    job = submit(console, {"Authorization": f"Bearer {login[1]}"})
    running = begin(console, job)
    with pytest.raises(ProgressAtRisk, match="no checkpoint so far"):
        client.jobs.pause(job)
    assert client.jobs.pause(job, lose_progress=True, note="until noon").desired == "pause"
    assert client.jobs.resume(job).desired == "pause"
    with pytest.raises(Conflict, match="only a job that failed or was stopped"):
        client.jobs.retry(job)
    version = dataclasses.replace(running, version=running.version + 2)
    go(console, version, Reason.EXITED_NONZERO)
    assert client.jobs.retry(job).reason == "retried_by_user"


def test_a_failed_job_is_no_error_of_waiting(client: Client, console: ConsoleUnderTest, login: tuple[str, str]) -> None:
    job = submit(console, {"Authorization": f"Bearer {login[1]}"})
    go(console, begin(console, job), Reason.EXITED_NONZERO)
    assert client.wait(job, timeout_s=30).state == "FAILED"


def test_a_console_that_stays_away_is_given_up(login: tuple[str, str], served: Served) -> None:
    served.stop()
    served.thread.join(20)
    with Client(*login, give_up_s=0.0) as client, pytest.raises(BackendUnreachable, match="has not answered for"):
        client.wait("j2k7abcdef")


def test_errors_are_those_of_the_tree_with_what_to_do_next(client: Client, login: tuple[str, str]) -> None:
    with pytest.raises(NotFound) as missing:
        client.jobs.get("j2222222222")
    assert missing.value.what
    with Client(login[0], "sft_" + "a" * 30) as stranger, pytest.raises(SignInRequired):
        stranger.jobs.list()


@pytest.mark.usefixtures("machine")
def test_nothing_is_written_over_unless_it_is_wanted(client: Client, project: Path, tmp_path: Path) -> None:
    job = client.submit(project / "experiments" / "first", profiles=["cpu"])
    client.wait(job.id, timeout_s=30)
    (tmp_path / "model.bin").write_text("mine")
    with pytest.raises(Conflict, match="would be written over"):
        client.download(job.id, "model.bin", to=tmp_path)
    client.download(job.id, "model.bin", to=tmp_path, force=True)
    assert (tmp_path / "model.bin").read_bytes() == WEIGHTS


def test_bytes_that_the_console_does_not_have_are_passed_over_and_told(
    client: Client, console: ConsoleUnderTest, login: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    job = submit(console, {"Authorization": f"Bearer {login[1]}"})
    running = begin(console, job)
    assert running.attempt is not None
    console.logs.written[running.attempt] = b"head" + bytes(6) + b"tail"
    console.logs.lost[running.attempt] = (4, 10)
    with caplog.at_level(logging.WARNING, "starforge.client"):
        assert b"".join(client.logs(job)) == b"headtail"
    assert "bytes 4 to 10" in caplog.text


def test_a_token_shows_in_no_repr(client: Client, login: tuple[str, str]) -> None:
    assert login[1] not in repr(client)
    assert login[0] in repr(client)


@pytest.mark.usefixtures("project", "machine", "login")
@pytest.mark.parametrize("guide", GUIDES)
def test_the_guide_runs_as_it_stands(guide: str, request: pytest.FixtureRequest) -> None:
    text = (request.config.rootpath / guide).read_text(encoding="utf-8")
    snippets = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(snippets) == 5
    names: dict[str, object] = {}
    for snippet in snippets:
        exec(compile(snippet, guide, "exec"), names)  # noqa: S102 - our own page
    assert isinstance(names["client"], Client)
    names["client"].close()
    assert names["ended"].state == "SUCCEEDED"  # type: ignore[attr-defined] # of the snippet's making


def test_both_guides_hold_the_same_snippets(request: pytest.FixtureRequest) -> None:
    texts = [(request.config.rootpath / guide).read_text(encoding="utf-8") for guide in GUIDES]
    snippets = [re.findall(r"```python\n(.*?)```", text, re.DOTALL) for text in texts]
    assert snippets[0] == snippets[1]

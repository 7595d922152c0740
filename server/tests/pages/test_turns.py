"""A job's page: pausing it, letting it go on and starting it again; machines and the console emptied from theirs."""

import re

import pytest
from starlette.testclient import TestClient

from server.tests.pages.support import form_key, sign_in
from server.tests.web.lives import begin, run_to_end
from server.tests.web.support import ConsoleUnderTest, submit
from starforge.contract.ids import JobId
from starforge.contract.states import Reason
from starforge_console.domain.progress import Cause
from starforge_console.ledger.maintenance import find_maintenance
from starforge_console.ledger.views import load_job
from starforge_console.web.i18n.words import LANGUAGES, load_words


def post(client: TestClient, path: str, **fields: str) -> str:
    data = {"form_key": form_key(client.get("/jobs").text), **fields}
    return client.post(path, data=data).text


def desired_of(console: ConsoleUnderTest, job: JobId) -> str:
    return console.ledger.read_now(lambda c: load_job(c, job)).desired


def test_a_queued_job_is_paused_and_goes_on(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    client = sign_in(console, headers)
    page = client.get(f"/jobs/{job}").text
    assert 'popovertarget="ask-pause"' in page
    assert 'form="do-resume"' not in page
    paused = post(client, f"/jobs/{job}/pause")
    assert "Pause requested." in paused
    assert 'form="do-resume"' in paused
    assert 'popovertarget="ask-pause">' not in paused
    assert "It goes on as soon as there is room." in post(client, f"/jobs/{job}/resume")
    assert console.ledger.read_now(lambda c: load_job(c, job)).state == "QUEUED"


def test_a_pause_that_would_lose_work_says_so_and_asks_once_more(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    begin(console, job)
    console.clock.ahead_s += 720
    client = sign_in(console, headers)
    question = post(client, f"/jobs/{job}/pause")
    assert "It has committed no checkpoint so far." in question
    assert re.search(r"12\smin.* of work would be lost", question)
    assert desired_of(console, job) == "run"
    page = post(client, f"/jobs/{job}/pause", lose_progress="yes")
    assert desired_of(console, job) == "pause"
    assert "pause requested" in page
    assert 'form="do-resume"' in page


def test_a_failed_job_is_retried_and_one_that_succeeded_has_no_button_for_it(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    failed, succeeded = submit(console, headers), submit(console, headers)
    run_to_end(console, failed, Reason.EXITED_NONZERO)
    run_to_end(console, succeeded)
    client = sign_in(console, headers)
    assert 'popovertarget="ask-retry">' in client.get(f"/jobs/{failed}").text
    assert 'popovertarget="ask-retry">' not in client.get(f"/jobs/{succeeded}").text
    assert "It is queued again." in post(client, f"/jobs/{failed}/retry")
    assert "is final" in post(client, f"/jobs/{succeeded}/retry")


def test_what_belongs_to_somebody_else_stays_as_it_is(console: ConsoleUnderTest) -> None:
    job = submit(console, console.add_user("ann"))
    client = sign_in(console, console.add_user("bob"))
    assert 'popovertarget="ask-pause"' not in client.get(f"/jobs/{job}").text
    key = form_key(client.get("/jobs").text)
    for verb in ("pause", "resume", "retry"):
        assert client.post(f"/jobs/{job}/{verb}", data={"form_key": key}).status_code == 403


def test_maintenance_is_begun_and_ended_on_its_page(console: ConsoleUnderTest) -> None:
    job = submit(console, console.add_user("ann"))
    begin(console, job)
    client = sign_in(console, console.add_user("root", "admin"))
    assert "jobs start as there is room" in client.get("/admin?view=maintenance").text
    begun = post(client, "/admin/maintenance", do="begin", reason="new disks")
    assert "Begun by root" in begun
    assert "new disks" in begun
    assert "1 still running" in begun
    assert desired_of(console, job) == "pause"
    assert "The maintenance is over" in post(client, "/admin/maintenance", do="end")
    assert console.ledger.read_now(find_maintenance) is None


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_cause_of_a_loss_has_words(language: str) -> None:
    words = load_words(language)
    assert all(words(f"pause.risk.{cause}") for cause in Cause)

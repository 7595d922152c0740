"""Several jobs of the list paused and let go on together: what each would lose is told before, and what was refused."""

import re

import pytest
from starlette.testclient import TestClient

from server.tests.pages.sentences import find_english
from server.tests.pages.support import form_key, sign_in
from server.tests.web.lives import begin, run_to_end
from server.tests.web.support import ConsoleUnderTest, submit
from starforge.contract.ids import JobId
from starforge.contract.states import DesiredState
from starforge_console.domain.wishes import Wish
from starforge_console.ledger.moves import Guard
from starforge_console.ledger.views import load_job
from starforge_console.ledger.wishes import wish
from starforge_console.web.i18n.words import CHINESE, LANGUAGES, load_words


def send(client: TestClient, path: str, *jobs: str, **fields: str | list[str]) -> str:
    data = {"form_key": form_key(client.get("/jobs").text), "job": list(jobs), "back": "/jobs?state=RUNNING", **fields}
    return client.post(path, data=data).text


def look(console: ConsoleUnderTest, job: JobId) -> tuple[str, str]:
    record = console.ledger.read_now(lambda c: load_job(c, job))
    return record.state, record.desired


def stop_by_wish(console: ConsoleUnderTest, job: JobId) -> None:
    guard = Guard(now=console.clock.now(), monotonic=console.clock.monotonic())
    console.ledger.write_now(lambda c: wish(c, job, Wish(desired=DesiredState.STOP), guard))


def test_the_list_has_buttons_that_pause_and_resume_what_is_chosen(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    submit(console, headers)
    page = sign_in(console, headers).get("/jobs").text
    for act in ("pause", "resume"):
        assert f'formaction="/jobs/{act}"' in page


def test_what_loses_nothing_is_paused_together_and_goes_on_together(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    jobs = [submit(console, headers) for _ in range(3)]
    client = sign_in(console, headers)
    question = send(client, "/jobs/pause", *jobs)
    assert "3 jobs lose nothing" in question
    assert "Pause 3 jobs" in question
    assert [look(console, job) for job in jobs] == [("QUEUED", "run")] * 3
    paused = send(client, "/jobs/pause", *jobs, confirmed="yes")
    assert "Pause requested." in paused
    assert [look(console, job)[0] for job in jobs] == ["PAUSED"] * 3
    assert "go on as soon as there is room" in send(client, "/jobs/resume", *jobs)
    assert [look(console, job)[0] for job in jobs] == ["QUEUED"] * 3


def test_a_job_that_kept_nothing_is_told_before_and_runs_on_unless_it_is_ticked(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    risky, given_up, waiting = (submit(console, headers) for _ in range(3))
    begin(console, risky)
    begin(console, given_up)
    console.clock.ahead_s += 720
    client = sign_in(console, headers)
    question = send(client, "/jobs/pause", risky, given_up, waiting)
    assert "2 jobs would lose their work" in question
    assert question.count("It has committed no checkpoint so far.") == 2
    assert len(re.findall(r"12\smin(?:\s\d+\ss)? of work would be lost", question)) == 2
    assert f'name="job" value="{risky}"' not in question
    assert f'name="lose" value="{risky}"' in question
    send(client, "/jobs/pause", waiting, confirmed="yes", lose=[given_up])
    assert [look(console, job) for job in (risky, given_up, waiting)] == [
        ("RUNNING", "run"),
        ("RUNNING", "pause"),
        ("PAUSED", "pause"),
    ]


def test_a_job_that_began_since_the_question_is_not_paused_and_that_is_told(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    began, waiting = submit(console, headers), submit(console, headers)
    begin(console, began)
    console.clock.ahead_s += 60
    client = sign_in(console, headers)
    left = send(client, "/jobs/pause", began, waiting, confirmed="yes")
    assert "1 job was not asked to pause" in left
    assert "1 other job was asked" in left
    assert f"job {began} was not paused" in left
    assert f'name="job" value="{waiting}"' not in left
    assert 'name="confirmed"' not in left, "asked again, it says what would be lost"
    assert look(console, began) == ("RUNNING", "run")


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_stays_as_it_is_is_told_job_by_job(console: ConsoleUnderTest, language: str) -> None:
    words, headers = load_words(language), console.add_user("ann")
    mine, ended, paused, stopping = (submit(console, headers) for _ in range(4))
    others = submit(console, console.add_user("bob"))
    run_to_end(console, ended)
    begin(console, stopping)
    stop_by_wish(console, stopping)
    client = sign_in(console, headers)
    send(client, "/jobs/pause", paused, confirmed="yes")
    client.cookies.set("starforge_language", language)
    page = send(client, "/jobs/pause", mine, ended, paused, stopping, others)
    for why in ("ended", "others", "paused", "stopping"):
        assert page.count(str(words(f"together.stay.{why}"))) == 1, why
    assert str(words.count("together.stays", 4)) in page
    none = send(client, "/jobs/pause", ended, others)
    assert str(words("together.none")) in none
    assert str(words("together.stay.others")) in none


def test_what_cannot_go_on_is_told_job_by_job_in_the_readers_language(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    paused, ended = submit(console, headers), submit(console, headers)
    others = submit(console, console.add_user("bob"))
    run_to_end(console, ended)
    client = sign_in(console, headers)
    send(client, "/jobs/pause", paused, confirmed="yes")
    client.cookies.set("starforge_language", CHINESE)
    page = send(client, "/jobs/resume", paused, ended, others)
    words = load_words(CHINESE)
    assert str(words.count("together.not_resumed", 2)) in page
    assert str(words.count("together.resumed", 1)) in page
    assert look(console, paused)[0] == "QUEUED"
    assert look(console, others)[0] == "QUEUED"
    assert find_english(page) == []


def test_nothing_chosen_changes_nothing(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    client = sign_in(console, headers)
    assert "No job to pause" in send(client, "/jobs/pause", "no-such-job")
    assert "Pause requested." not in send(client, "/jobs/pause", confirmed="yes")
    assert look(console, job) == ("QUEUED", "run")

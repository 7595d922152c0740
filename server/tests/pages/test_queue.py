"""The page of the queue: administrators move jobs on it, and everybody sees where they were put."""

import pytest
from sqlalchemy import update

from server.tests.pages.support import form_key, sign_in
from server.tests.web.support import ConsoleUnderTest, submit
from starforge.contract.launch import PoolRequest
from starforge.said.sentence import say
from starforge_console.ledger.pools import write_pools
from starforge_console.ledger.queue_order import list_places
from starforge_console.ledger.tables import jobs
from starforge_console.web.i18n.words import LANGUAGES, load_words


def order(console: ConsoleUnderTest) -> list[str]:
    return [place.job for place in console.ledger.read_now(lambda c: list_places(c, 10))]


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_administrator_moves_a_job_and_everybody_sees_it(console: ConsoleUnderTest, language: str) -> None:
    words, ann = load_words(language), console.add_user("ann")
    first, second = submit(console, ann), submit(console, ann)
    client = sign_in(console, console.add_user("root", "admin"))
    client.cookies.set("starforge_language", language)
    page = client.get("/queue").text
    assert words("queue.move.first") in page
    assert words("queue.move.release") not in page
    moved = client.post(f"/queue/{second}", data={"form_key": form_key(page), "to": "first", "after": "0"})
    assert moved.url.path == "/queue"
    assert order(console) == [second, first]
    assert words("queue.moved.first") in moved.text
    assert words("queue.move.release") in moved.text
    data = {"form_key": form_key(page), "to": "release", "series": "h200", "after": "50"}
    assert client.post(f"/queue/{second}", data=data, follow_redirects=False).headers["location"] == (
        "/queue?series=h200&after=50"
    )
    assert order(console) == [first, second]


def test_whoever_is_no_administrator_has_no_buttons_and_is_refused(console: ConsoleUnderTest) -> None:
    ann = console.add_user("ann")
    first, second = submit(console, ann), submit(console, ann)
    client = sign_in(console, ann)
    page = client.get("/queue").text
    assert f'action="/queue/{second}"' not in page
    key = form_key(client.get("/jobs").text)
    assert client.post(f"/queue/{second}", data={"form_key": key, "to": "first"}).status_code == 403
    assert order(console) == [first, second]


def test_a_place_that_does_not_exist_is_refused(console: ConsoleUnderTest) -> None:
    root = console.add_user("root", "admin")
    job = submit(console, root)
    client = sign_in(console, root)
    key = form_key(client.get("/queue").text)
    answer = client.post(f"/queue/{job}", data={"form_key": key, "to": "middle"})
    assert answer.status_code == 422
    assert "is no place in the queue" in answer.text


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_of_a_queued_job_leads_to_why_it_waits(console: ConsoleUnderTest, language: str) -> None:
    words, ann = load_words(language), console.add_user("ann")
    job = submit(console, ann)
    text = write_pools([PoolRequest(name="main", nodes=1, gpus_per_node=64)])
    console.ledger.write_now(lambda c: c.execute(update(jobs).where(jobs.c.id == job).values(pools=text)))
    client = sign_in(console, ann)
    client.cookies.set("starforge_language", language)
    assert f'href="/jobs/{job}/why"' in client.get(f"/jobs/{job}").text
    page = client.get(f"/jobs/{job}/why").text
    assert words("why.now") in page
    short = say("room.gpus", free="0", total=0, gpus=say("fit.any_gpus"), asked="64", taken="")
    assert words.said(short) in page

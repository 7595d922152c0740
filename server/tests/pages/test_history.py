import re

from sqlalchemy import Connection
from starlette.testclient import TestClient

from server.tests.pages.support import sign_in
from server.tests.web.support import ConsoleUnderTest, submit
from starforge_console.ledger.moves import note_timeline
from starforge_console.web.pages.job_view import EVENTS_SHOWN


def notes_on(page: str) -> list[int]:
    return [int(number) for number in re.findall(r"entry no\. (\d+)", page)]


def link_of(page: str, label: str) -> str:
    (found,) = re.findall(rf'href="([^"]+)">{label}</a>', page)
    return str(found).replace("&amp;", "&")


def walk(client: TestClient, address: str, label: str) -> list[list[int]]:
    shown = []
    while True:
        page = client.get(address).text
        shown.append(notes_on(page))
        if label not in page:
            return shown
        address = link_of(page, label)


def test_a_long_history_says_how_much_of_it_is_shown_and_leads_to_the_rest(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job, count = submit(console, headers), 2 * EVENTS_SHOWN + 7

    def note_all(connection: Connection) -> None:
        for number in range(count):
            note_timeline(connection, job, number, f"entry no. {number}")

    console.ledger.write_now(note_all)
    client = sign_in(console, headers)
    page = client.get(f"/jobs/{job}").text
    assert "200 of 408 entries." in page
    assert notes_on(page) == list(range(count - 1, count - 1 - EVENTS_SHOWN, -1))
    back = walk(client, f"/jobs/{job}", "Earlier entries")
    assert [number for part in back for number in part] == list(range(count - 1, -1, -1))
    forth = walk(client, f"/jobs/{job}?view=history&after=1", "Later entries")
    assert [number for part in reversed(forth) for number in part] == list(range(count - 1, -1, -1))


def test_a_short_history_is_shown_whole_and_says_nothing_of_it(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    assert "entries" not in sign_in(console, headers).get(f"/jobs/{job}").text

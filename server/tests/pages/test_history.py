import re

import pytest
from sqlalchemy import Connection
from starlette.testclient import TestClient

from server.tests.pages.support import sign_in
from server.tests.web.support import ConsoleUnderTest, submit
from starforge.contract.ids import JobId
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


def note_each(console: ConsoleUnderTest, job: JobId, *notes: str) -> None:
    def note_all(connection: Connection) -> None:
        for number, note in enumerate(notes):
            note_timeline(connection, job, number, note, 1)

    console.ledger.write_now(note_all)


def checkpoints(*steps: int) -> list[str]:
    return [f"checkpoint of step {step} committed: ckpt/step-{step}" for step in steps]


@pytest.mark.parametrize(
    ("language", "told"),
    [
        ("en", "38 checkpoints, the last of step 3,800"),
        ("zh-Hans", "38 个检查点\N{FULLWIDTH COMMA}最后一个在第 3,800 步"),
    ],
)
def test_checkpoints_in_a_row_are_one_entry_that_opens_to_all(
    console: ConsoleUnderTest, language: str, told: str
) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    note_each(console, job, "training process started", *checkpoints(*range(100, 3900, 100)), "training ended")
    client = sign_in(console, headers)
    page = client.get(f"/jobs/{job}", headers={"accept-language": language}).text
    (inside,) = re.findall(
        r'<details class="more" id="fold-\d+"><summary>(.*?)</summary>(.*?)</details>', page, re.DOTALL
    )
    assert inside[0] == told
    steps = [int(step) for step in re.findall(r"checkpoint of step (\d+) committed", inside[1])]
    assert steps == list(range(3800, 0, -100))
    assert page.count("checkpoint of step") == 38
    events = console.client(headers).get(f"/api/v1/jobs/{job}/events").json()["items"]
    assert sum("checkpoint of step" in event["note"] for event in events) == 38


def test_what_differs_in_more_than_figures_is_never_folded_and_two_are_no_row(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    note_each(console, job, *checkpoints(1, 2), "epoch over", *checkpoints(3, 4), "loaded a", "loaded b", "loaded c")
    page = sign_in(console, headers).get(f"/jobs/{job}").text
    assert 'id="fold-' not in page
    assert page.count("checkpoint of step") == 4


def test_other_like_entries_are_folded_by_their_count(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    note_each(console, job, *[f"epoch {number} over" for number in range(7)])
    assert "<summary>7 like entries</summary>" in sign_in(console, headers).get(f"/jobs/{job}").text

import re
from dataclasses import asdict

import pytest

from server.tests.pages.support import sign_in
from server.tests.web.support import ConsoleUnderTest, submit
from starforge_console.domain.waiting import WaitReason
from starforge_console.ledger.queue import list_queued, note_waiting
from starforge_console.web.i18n.words import CHINESE, ENGLISH

REASONS = [
    WaitReason("0 of 8 GPUs free; 1 broken: Xid 79: bus", ("n1", "n2", "n3"), 2),
    WaitReason("no room either", more=1),
    WaitReason("could not run it: never", ("lab",)),
]


@pytest.mark.parametrize(
    ("language", "places"),
    [
        (ENGLISH, ["n1, n2, n3 and 2 more", "1 more machine", "lab"]),
        (CHINESE, ["n1, n2, n3，以及另外 2 台", "另有 1 台机器", "lab"]),  # noqa: RUF001 - Chinese
    ],
)
def test_page_and_api_show_each_reason_of_a_queued_job_with_its_places(
    console: ConsoleUnderTest, language: str, places: list[str]
) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    (queued,) = console.ledger.read_now(list_queued)
    console.ledger.write_now(lambda c: note_waiting(c, [(queued, REASONS)]))
    client = sign_in(console, headers)
    client.cookies.set("starforge_language", language)
    rows = re.findall(r'<tr><td>([^<]*)</td><td lang="en">([^<]*)</td></tr>', client.get(f"/jobs/{job}").text)
    assert rows == [(place, reason.reason) for place, reason in zip(places, REASONS, strict=True)]
    view = console.client(headers).get(f"/api/v1/jobs/{job}").json()["job"]
    assert view["waits"] == [asdict(reason) | {"places": list(reason.places)} for reason in REASONS]
    assert view["note"] == (
        "n1, n2, n3 and 2 more: 0 of 8 GPUs free; 1 broken: Xid 79: bus; 1 more: no room either; lab: could not run it:"
        " never"
    )

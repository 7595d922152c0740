"""What the page of the queue tells beside the order: the reader's own jobs, whose turn it is, promises, what is closed.

Each fact is a member of the API's answer.
"""

import re
from typing import Any

import pytest
from sqlalchemy import insert, update
from starlette.testclient import TestClient

from server.tests.pages.sentences import find_english
from server.tests.pages.support import form_key, sign_in
from server.tests.web.support import ConsoleUnderTest, submit
from starforge.contract.ids import JobId
from starforge.said.sentence import say
from starforge_console.domain.waiting import WaitReason
from starforge_console.ledger.accounts import find_user
from starforge_console.ledger.queue import list_queued, note_waiting
from starforge_console.ledger.quotas import set_team
from starforge_console.ledger.share_tables import shares
from starforge_console.ledger.tables import jobs
from starforge_console.web.i18n.words import CHINESE, LANGUAGES, load_words

AT = 1_783_360_800.0
"""2026-07-06 18:00 UTC."""


def note(console: ConsoleUnderTest, job: JobId, *waits: WaitReason) -> None:
    queued = next(one for one in console.ledger.read_now(list_queued) if one.id == job)
    console.ledger.write_now(lambda c: note_waiting(c, [(queued, list(waits))]))


def use(console: ConsoleUnderTest, user: str, *, own_h: float, team_h: float, team: str | None = None) -> None:
    user_id = console.ledger.read_now(lambda c: find_user(c, user))
    assert user_id is not None
    found = user_id
    values = {"user_id": found, "gpu_s": own_h * 3600, "at": 0.0, "ordered_at": 0.0}
    values |= {"team_order": team_h * 3600, "user_order": own_h * 3600}
    console.ledger.write_now(lambda c: c.execute(insert(shares).values(values)))
    console.ledger.write_now(lambda c: set_team(c, found, team))


def part_of(page: str, name: str) -> str:
    start = page.index(f'id="queue-{name}"')
    following = page.find('id="queue-', start + 10)
    return page[start : following if following > 0 else len(page)]


def answer(console: ConsoleUnderTest, headers: dict[str, str]) -> Any:
    return console.client(headers).get("/api/v1/queue").json()


def look(console: ConsoleUnderTest, headers: dict[str, str], language: str = "en") -> str:
    client: TestClient = sign_in(console, headers)
    client.cookies.set("starforge_language", language)
    return client.get("/queue").text


def test_my_own_jobs_stand_first_with_what_is_before_them_and_their_latest_start(console: ConsoleUnderTest) -> None:
    ann, bob = console.add_user("ann"), console.add_user("bob")
    first, mine, last = submit(console, bob), submit(console, ann), submit(console, ann)
    note(console, mine, WaitReason(say("wait.promised", at="2026-07-06 18:00"), ("local/here",), starts_by=AT))
    page, told = look(console, ann), answer(console, ann)
    assert page.index('id="queue-own"') < page.index('id="queue-order"')
    own = part_of(page, "own")
    assert re.findall(r'href="/jobs/(\w+)">', own) == [one["job"]["id"] for one in told["own"]] == [mine, last]
    assert [one["place"] for one in told["own"]] == [2, 3]
    assert told["own_jobs"] == 2
    assert "1 job before it" in own
    assert "2 jobs before it" in own
    assert re.search(r"Starts by <time[^>]*>2026-07-06 18:00:00</time> at the latest", own)
    others = answer(console, bob)
    assert [one["job"]["id"] for one in others["own"]] == [first]
    assert "First in the queue" in part_of(look(console, bob), "own")


def test_the_shares_say_whose_turn_it_is_as_the_api_does(console: ConsoleUnderTest) -> None:
    people = {name: console.add_user(name) for name in ("ann", "bob", "cid")}
    for headers in (*people.values(), people["bob"]):
        submit(console, headers)
    use(console, "ann", own_h=2.0, team_h=90.5, team="vision")
    use(console, "bob", own_h=12.25, team_h=12.25)
    told = answer(console, people["ann"])["shares"]
    assert [(one["user"], one["team"], one["jobs"], one["gpu_hours"], one["team_gpu_hours"]) for one in told] == [
        ("cid", None, 1, 0.0, 0.0),
        ("bob", None, 2, 12.25, 12.25),
        ("ann", "vision", 1, 2.0, 90.5),
    ]
    order = [one["job"]["user"] for one in answer(console, people["ann"])["items"]]
    assert list(dict.fromkeys(order)) == [one["user"] for one in told]
    part = part_of(look(console, people["ann"]), "shares")
    assert re.findall(r"user=(\w+)", part) == ["cid", "bob", "ann"]
    for figure in ("0.00", "12.25", "2.00", "90.50"):
        assert f">{figure}<" in part
    assert "<small>you · vision<" in part


@pytest.mark.parametrize("language", LANGUAGES)
def test_promises_say_which_job_where_by_when_and_how_often_it_was_passed(
    console: ConsoleUnderTest, language: str
) -> None:
    words, ann = load_words(language), console.add_user("ann")
    promised, kept, plain = (submit(console, ann) for _ in range(3))
    note(console, promised, WaitReason(say("wait.promised", at="2026-07-06 18:00"), ("lab/gpu7",), starts_by=AT))
    note(console, kept, WaitReason(say("wait.takes_no_other"), ("gpu8",)))
    console.ledger.write_now(lambda c: c.execute(update(jobs).where(jobs.c.id == kept).values(passed=16)))
    told = answer(console, ann)["promises"]
    assert [(one["job"]["id"], one["by"], one["node"], one["passed"]) for one in told] == [
        (promised, AT, "lab/gpu7", 0),
        (kept, None, "gpu8", 16),
    ]
    part = part_of(look(console, ann, language), "promises")
    assert plain not in part
    assert "lab/gpu7" in part
    assert "2026-07-06 18:00:00" in part
    assert str(words("queue.kept", node="gpu8")) in part
    assert str(words.count("queue.passed", 16, most=16)) in part
    assert language != CHINESE or find_english(part) == []


def test_windows_that_hold_are_told_with_their_next_opening(console: ConsoleUnderTest) -> None:
    root, ann = console.add_user("root", "admin"), console.add_user("ann")
    admin = sign_in(console, root)
    key = form_key(admin.get("/admin?view=windows").text)
    fields = {"form_key": key, "zone": "UTC", "goes_on": "1"}
    soon = int(console.clock.now() // 86_400 + 2) * 86_400
    for name, days in (
        ("any", "mon-sun 00:00-24:00"),
        ("cpu", f"{'mon tue wed thu fri sat sun'.split()[_day(soon)]} 00:00-12:00"),
    ):
        admin.post("/admin/window", data={**fields, "kind": "profile", "name": name, "open": days})
    told = answer(console, ann)["closed"]
    assert [(one["kind"], one["name"], one["changes_at"]) for one in told] == [("profile", "cpu", float(soon))]
    part = part_of(look(console, ann), "closed")
    assert "cpu" in part
    assert "opens <time" in part
    assert part_of(look(console, ann), "shares").count("<tr") == 0, "nobody waits"


def _day(at: int) -> int:
    return (at // 86_400 + 3) % 7

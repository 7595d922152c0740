"""What comes of a token ends with it: tokens, links and sign-ins by a code that its sessions make."""

import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from server.tests.pages.support import form_key, sign_in
from server.tests.web.support import ConsoleUnderTest
from server.tests.web.test_device import begin, decide, poll
from starforge_console.accounts.sign_in import REMEMBERED_S
from starforge_console.ledger.accounts import find_user

DAY_S = 86_400.0
EVERYTHING = frozenset({"read", "submit", "admin"})
TOKEN = re.compile(r"sfp_[A-Za-z0-9_-]{43}")
TOKENS = "/api/v1/tokens"


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def user_id(console: ConsoleUnderTest, name: str) -> int:
    return console.ledger.read_now(lambda c: find_user(c, name)) or 0


def make(client: TestClient, days: str = "3650") -> tuple[str, str]:
    """(the new token, the page that shows it)."""
    form = {"form_key": form_key(client.get("/tokens").text), "label": "more", "days": days, "scope": ["read"]}
    page = client.post("/tokens", data=form).text
    return TOKEN.findall(page)[0], page


def make_link(client: TestClient, user: str) -> tuple[str, str]:
    """(the path of the link, the page that shows it)."""
    key = form_key(client.get("/account").text)
    page = client.post(f"/admin/users/{user}/link", data={"form_key": key}).text
    return re.findall(r"http://127\.0\.0\.1:7080(/signin/[A-Za-z0-9_-]{43})", page)[0], page


def follow(console: ConsoleUnderTest, link: str) -> tuple[TestClient, str]:
    client = console.client()
    return client, client.post(link, data={"form_key": form_key(client.get(link).text)}).text


def lives(console: ConsoleUnderTest, token: str) -> bool:
    console.clock.ahead_s += REMEMBERED_S + 1
    return bool(console.client(bearer(token)).get("/api/v1/whoami").status_code == 200)


def left_s(console: ConsoleUnderTest, token: str) -> float:
    told: dict[str, Any] = console.client(bearer(token)).get("/api/v1/whoami").json()
    return float(told["token_expires_at"]) - console.clock.now()


def open_short(console: ConsoleUnderTest, user: str = "root", days: float = 1.0) -> TestClient:
    """A session that was opened with a token of an administrator which lives so many days."""
    console.add_user(user, "admin")
    return sign_in(console, console.add_token(user_id(console, user), EVERYTHING, days=days))


def by_form(console: ConsoleUnderTest, client: TestClient, days: str = "3650") -> tuple[str, str]:
    assert console.app is not None
    return make(client, days)


def by_code(console: ConsoleUnderTest, client: TestClient, days: str = "3650") -> tuple[str, str]:
    begun = begin(console)
    page = decide(client, begun["user_code"], days=days)
    return str(poll(console, begun)[1]["access_token"]), page


def by_link_for_oneself(console: ConsoleUnderTest, client: TestClient, _days: str = "90") -> tuple[str, str]:
    link, page = make_link(client, "root")
    return TOKEN.findall(follow(console, link)[1])[0], page


def by_link_for_another(console: ConsoleUnderTest, client: TestClient, _days: str = "90") -> tuple[str, str]:
    console.add_user("eve")
    link, page = make_link(client, "eve")
    return TOKEN.findall(follow(console, link)[1])[0], page


WAYS = [by_form, by_code, by_link_for_oneself, by_link_for_another]


@pytest.mark.parametrize("way", WAYS)
def test_nothing_outlives_the_token_that_its_maker_signed_in_with(console: ConsoleUnderTest, way: Any) -> None:
    token, page = way(console, open_short(console))
    assert left_s(console, token) <= DAY_S
    assert "that you signed in with" in page, "whoever makes it is told"
    console.clock.ahead_s += DAY_S
    assert not lives(console, token)


@pytest.mark.parametrize("way", WAYS)
def test_nor_does_what_is_made_with_what_was_made(console: ConsoleUnderTest, way: Any) -> None:
    token, _ = way(console, open_short(console))
    again, page = make(sign_in(console, bearer(token)))
    assert left_s(console, again) <= DAY_S
    assert "that you signed in with" in page


@pytest.mark.parametrize("way", WAYS)
def test_what_lives_no_longer_is_not_cut_and_nothing_is_said(console: ConsoleUnderTest, way: Any) -> None:
    token, page = way(console, open_short(console, days=100), "90")
    assert left_s(console, token) > 89 * DAY_S
    assert "that you signed in with" not in page


@pytest.mark.parametrize("way", WAYS[:3])
def test_revoking_a_token_ends_all_that_came_of_it(console: ConsoleUnderTest, way: Any) -> None:
    session = open_short(console)
    token, _ = way(console, session)
    child = sign_in(console, bearer(token))
    grandchild, _ = make(child)
    other = console.client(console.add_user("boss", "admin"))
    opener = min(one["id"] for one in other.get(TOKENS, params={"everybody": "true"}).json()["items"] if is_short(one))
    assert other.delete(f"{TOKENS}/{opener}").status_code == 204
    assert not lives(console, token)
    assert not lives(console, grandchild)
    assert child.get("/jobs").url.path == "/signin"
    assert session.get("/jobs").url.path == "/signin"
    assert other.get("/api/v1/whoami").status_code == 200


def is_short(one: dict[str, Any]) -> bool:
    return bool(one["kind"] == "personal" and one["expires_at"] - one["created_at"] <= DAY_S + 1)


def test_a_link_that_nobody_followed_and_a_code_that_nobody_fetched_end_with_their_makers_token(
    console: ConsoleUnderTest,
) -> None:
    session, begun = open_short(console), begin(console)
    console.add_user("eve")
    link, _ = make_link(session, "eve")
    decide(session, begun["user_code"])
    other = console.client(console.add_user("boss", "admin"))
    (opener,) = [one["id"] for one in other.get(TOKENS, params={"everybody": "true"}).json()["items"] if is_short(one)]
    other.delete(f"{TOKENS}/{opener}")
    assert poll(console, begun)[1]["error"] == "access_denied"
    client = console.client()
    assert client.post(link, data={"form_key": form_key(client.get(link).text)}).status_code == 401


def test_a_code_that_is_fetched_when_its_approvers_token_is_over_gives_nothing(console: ConsoleUnderTest) -> None:
    session, begun = open_short(console, days=300 / DAY_S), begin(console)
    decide(session, begun["user_code"])
    console.clock.ahead_s += 301
    assert poll(console, begun)[1]["error"] == "access_denied"


def test_somebody_elses_token_stays_when_their_administrators_is_revoked(console: ConsoleUnderTest) -> None:
    session = open_short(console)
    token, _ = by_link_for_another(console, session)
    page = session.get("/tokens").text
    session.post("/tokens/end-others", data={"form_key": form_key(page)})
    other = console.client(console.add_user("boss", "admin"))
    for one in other.get(TOKENS, params={"everybody": "true"}).json()["items"]:
        if one["user"] == "root":
            other.delete(f"{TOKENS}/{one['id']}")
    assert lives(console, token)


def test_whoever_ends_all_others_keeps_the_token_in_use_though_it_came_of_one_that_ends(
    console: ConsoleUnderTest,
) -> None:
    session = open_short(console)
    token, _ = make(session)
    mine = console.client(bearer(token))
    assert mine.post(f"{TOKENS}/revoke-others").status_code == 200
    assert lives(console, token)
    assert session.get("/jobs").url.path == "/signin"
    assert [one["current"] for one in mine.get(TOKENS).json()["items"]] == [True]


def test_the_audit_log_tells_how_long_a_token_lives_in_truth(console: ConsoleUnderTest) -> None:
    make(open_short(console))
    root = console.client(console.add_token(user_id(console, "root"), EVERYTHING))
    told = [one["what"] for one in root.get("/api/v1/admin/audit", params={"act": "token_made"}).json()["items"]]
    assert told == ["made token 4 of root for 1 days: read"]

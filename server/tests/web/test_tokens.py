"""Tokens and sessions over the API: listed and ended, and never made there."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from server.tests.pages.support import form_key, sign_in
from server.tests.web.support import ConsoleUnderTest

TOKENS = "/api/v1/tokens"


def items(client: TestClient, **asked: str) -> list[dict[str, Any]]:
    answer = client.get(TOKENS, params=asked)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def test_whoever_is_signed_in_sees_where_and_with_what(console: ConsoleUnderTest) -> None:
    ann = console.add_user("ann")
    page = sign_in(console, ann)
    session, token = items(console.client(ann))
    assert (session["kind"], session["peer"], session["agent"]) == ("session", "testclient", "testclient")
    assert (session["current"], token["current"]) == (False, True)
    assert (token["kind"], token["peer"], token["used_at"]) == ("personal", None, None)
    console.clock.ahead_s = 3600
    page.get("/jobs")
    assert items(console.client(ann))[0]["used_at"] == pytest.approx(session["used_at"] + 3600, abs=60)


def test_nothing_in_the_list_signs_anybody_in(console: ConsoleUnderTest) -> None:
    ann = console.add_user("ann")
    cookie = sign_in(console, ann).cookies["starforge_session"]
    text = console.client(ann).get(TOKENS).text
    assert ann["Authorization"].removeprefix("Bearer ") not in text
    assert cookie not in text


def test_a_session_is_ended_at_once_and_a_token_with_the_sessions_it_opened(console: ConsoleUnderTest) -> None:
    ann = console.add_user("ann")
    other = console.client(console.add_token(1, frozenset({"read"})))
    page = sign_in(console, ann)
    session, _, token = items(other)
    assert other.delete(f"{TOKENS}/{session['id']}").status_code == 204
    assert page.get("/jobs").url.path == "/signin"
    page = sign_in(console, ann)
    assert other.delete(f"{TOKENS}/{token['id']}").status_code == 204
    assert page.get("/jobs").url.path == "/signin"
    assert console.client(ann).get("/api/v1/whoami").status_code == 401
    assert [one["current"] for one in items(other)] == [True]


@pytest.mark.parametrize("role", ["viewer", "member", "operator"])
def test_nobody_but_administrators_sees_or_ends_what_is_not_theirs(console: ConsoleUnderTest, role: str) -> None:
    root = console.client(console.add_user("root", "admin"))
    eve = console.client(console.add_user("eve", role))
    assert eve.get(TOKENS, params={"everybody": "true"}).status_code == 403
    (mine,) = items(root)
    assert eve.delete(f"{TOKENS}/{mine['id']}").status_code == 403
    (hers,) = items(eve)
    assert {one["user"] for one in items(root, everybody="true")} == {"root", "eve"}
    assert root.delete(f"{TOKENS}/{hers['id']}").status_code == 204
    assert eve.get("/api/v1/whoami").status_code == 401
    assert root.delete(f"{TOKENS}/999").status_code == 404


def test_all_others_are_ended_and_what_is_in_use_stays(console: ConsoleUnderTest) -> None:
    ann, bob = console.add_user("ann"), console.add_user("bob")
    thief = console.client(console.add_token(1, frozenset({"read"})))
    page, mine = sign_in(console, ann), console.client(ann)
    assert mine.post(f"{TOKENS}/revoke-others").json() == {"ended": 2}
    assert thief.get("/api/v1/whoami").status_code == 401
    assert page.get("/jobs").url.path == "/signin"
    assert [one["current"] for one in items(mine)] == [True]
    assert console.client(bob).get("/api/v1/whoami").status_code == 200


def test_a_page_ends_all_others_and_keeps_the_token_that_opened_it(console: ConsoleUnderTest) -> None:
    ann = console.add_user("ann")
    thief = console.client(console.add_token(1, frozenset({"read"})))
    lost, page = sign_in(console, ann), sign_in(console, ann)
    text = page.get("/tokens").text
    assert text.count("this one") == 1
    answer = page.post("/tokens/end-others", data={"form_key": form_key(text)})
    assert "Your other sessions and tokens have ended." in answer.text
    assert lost.get("/jobs").url.path == "/signin"
    assert thief.get("/api/v1/whoami").status_code == 401
    assert console.client(ann).get("/api/v1/whoami").status_code == 200
    assert page.get("/jobs").url.path == "/jobs"


def test_a_browsers_name_is_kept_to_a_length_and_shown_as_text(console: ConsoleUnderTest) -> None:
    ann, client = console.add_user("ann"), console.client()
    client.headers["User-Agent"] = "<script>alert(1)</script>" + "x" * 1000
    key = form_key(client.get("/signin").text)
    client.post("/signin", data={"form_key": key, "token": ann["Authorization"].removeprefix("Bearer ")})
    assert "<script>alert" not in client.get("/tokens").text
    assert len(items(console.client(ann))[0]["agent"]) == 300


def test_who_ended_what_is_in_the_audit_log(console: ConsoleUnderTest) -> None:
    root = console.client(console.add_user("root", "admin"))
    ann = console.add_user("ann")
    sign_in(console, ann)
    session, token, _ = items(root, everybody="true")
    for one in (session, token):
        root.delete(f"{TOKENS}/{one['id']}")
    told = [one["what"] for one in root.get("/api/v1/admin/audit", params={"user": "root"}).json()["items"]]
    assert told == [
        f"revoked token {token['id']} of ann and all that came of it",
        f"ended session {session['id']} of ann",
    ]

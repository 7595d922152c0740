"""Signing in by a code: begun by a command, approved on the page, answered with a token once."""

import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from server.tests.databases import read_stored
from server.tests.pages.support import form_key, sign_in
from server.tests.web.support import ConsoleUnderTest
from starforge_console.accounts.device import INTERVAL_S, LIFE_S, ROOM
from starforge_console.accounts.throttle import FAILURES_AT_ONCE

CODE, TOKEN = "/api/v1/device/code", "/api/v1/device/token"


def begin(console: ConsoleUnderTest, client_id: str = "sf of ann on laptop") -> dict[str, Any]:
    answer = console.client().post(CODE, json={"client_id": client_id})
    assert answer.status_code == 200, answer.text
    begun: dict[str, Any] = answer.json()
    return begun


def poll(console: ConsoleUnderTest, begun: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    console.clock.ahead_s += INTERVAL_S
    answer = console.client().post(TOKEN, json={"device_code": begun["device_code"]})
    return answer.status_code, answer.json()


def decide(client: TestClient, code: str, do: str = "approve", **fields: object) -> str:
    key = form_key(client.get("/device").text)
    form = {"form_key": key, "code": code, "do": do, "days": "30", "scope": ["read", "submit"], **fields}
    return client.post("/device/decide", data=form).text


def test_a_code_is_approved_on_the_page_and_answered_with_a_token_once(console: ConsoleUnderTest) -> None:
    begun = begin(console)
    assert re.fullmatch("[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}", begun["user_code"])
    assert begun["verification_uri"] == "http://127.0.0.1:7080/device"
    assert begun["verification_uri_complete"].endswith(f"?code={begun['user_code']}")
    assert (begun["expires_in"], begun["interval"]) == (LIFE_S, INTERVAL_S)
    status, told = poll(console, begun)
    assert (status, told["error"], told["code"]) == (400, "authorization_pending", "authorization_pending")

    ann = sign_in(console, console.add_user("ann"))
    page = ann.post("/device", data={"form_key": form_key(ann.get("/device").text), "code": begun["user_code"]}).text
    assert "Sign in as ann?" in page
    assert "sf of ann on laptop" in page
    assert "testclient" in page
    assert "signs in within seconds" in decide(ann, begun["user_code"])

    status, told = poll(console, begun)
    assert (status, told["token_type"], told["scope"]) == (200, "Bearer", "read submit")
    assert told["expires_in"] == pytest.approx(30 * 86_400, abs=60)
    who = console.client({"Authorization": f"Bearer {told['access_token']}"}).get("/api/v1/whoami").json()
    assert (who["user"], who["scopes"]) == ("ann", ["read", "submit"])
    assert poll(console, begun)[1]["error"] == "expired_token"


@pytest.mark.parametrize("typed", ["{code}", "{bare}", " {lower} ", "{spaced}"])
def test_a_code_may_be_typed_as_people_type(console: ConsoleUnderTest, typed: str) -> None:
    code = begin(console)["user_code"]
    bare = code.replace("-", "")
    text = typed.format(code=code, bare=bare, lower=code.lower(), spaced=" ".join(bare))
    assert "signs in within seconds" in decide(sign_in(console, console.add_user("ann")), text)


def test_a_denied_sign_in_is_over_at_once(console: ConsoleUnderTest) -> None:
    begun = begin(console)
    ann = sign_in(console, console.add_user("ann"))
    assert "does not sign in" in decide(ann, begun["user_code"], "deny")
    status, told = poll(console, begun)
    assert (status, told["error"]) == (400, "access_denied")
    assert "no sign-in shows this code now" in decide(ann, begun["user_code"])


def test_a_command_that_polls_too_often_is_told_to_slow_down_more_each_time(console: ConsoleUnderTest) -> None:
    begun = begin(console)
    client = console.client()

    def ask() -> str:
        error: str = client.post(TOKEN, json={"device_code": begun["device_code"]}).json()["error"]
        return error

    assert ask() == "authorization_pending"
    assert ask() == "slow_down"
    console.clock.ahead_s += INTERVAL_S
    assert ask() == "slow_down"
    console.clock.ahead_s += 3 * INTERVAL_S
    assert ask() == "authorization_pending"
    sign_in_page = sign_in(console, console.add_user("ann"))
    decide(sign_in_page, begun["user_code"])
    assert ask() == "slow_down"
    console.clock.ahead_s += 4 * INTERVAL_S
    assert client.post(TOKEN, json={"device_code": begun["device_code"]}).status_code == 200


def test_a_code_is_good_for_ten_minutes(console: ConsoleUnderTest) -> None:
    begun = begin(console)
    ann = sign_in(console, console.add_user("ann"))
    console.clock.ahead_s += LIFE_S + 1
    assert "no sign-in shows this code now" in decide(ann, begun["user_code"])
    assert poll(console, begun)[1]["error"] == "expired_token"


def test_an_approval_that_nobody_fetches_in_time_gives_no_token(console: ConsoleUnderTest) -> None:
    begun = begin(console)
    decide(sign_in(console, console.add_user("ann")), begun["user_code"])
    console.clock.ahead_s += LIFE_S + 1
    assert poll(console, begun)[1]["error"] == "expired_token"


def test_codes_outlive_a_restart_for_they_are_kept_in_the_ledger_as_hashes(console: ConsoleUnderTest) -> None:
    begun = begin(console)
    stored = read_stored(console.services.settings.paths.console_state_dir)
    assert begun["device_code"].encode() not in stored
    assert begun["user_code"].replace("-", "").encode() not in stored
    assert b"sf of ann on laptop" in stored


def test_guessing_codes_is_slowed_down_for_whoever_guesses_and_for_nobody_else(console: ConsoleUnderTest) -> None:
    ann, bob = sign_in(console, console.add_user("ann")), sign_in(console, console.add_user("bob"))
    key = form_key(ann.get("/device").text)
    statuses = [
        ann.post("/device", data={"form_key": key, "code": "BCDFGHJK"}).status_code for _ in range(3 * FAILURES_AT_ONCE)
    ]
    assert set(statuses[:FAILURES_AT_ONCE]) == {404}
    assert set(statuses) == {404, 429}
    assert "signs in within seconds" in decide(bob, begin(console)["user_code"])


def test_guessing_what_commands_poll_with_is_slowed_down(console: ConsoleUnderTest) -> None:
    client = console.client()
    statuses = [client.post(TOKEN, json={"device_code": f"x{n}"}).status_code for n in range(3 * FAILURES_AT_ONCE)]
    assert set(statuses[:FAILURES_AT_ONCE]) == {400}
    assert set(statuses) == {400, 429}


def test_one_address_may_have_so_many_sign_ins_wait_and_no_more(console: ConsoleUnderTest) -> None:
    for _ in range(ROOM.of_source):
        begin(console)
    refused = console.client().post(CODE, json={})
    assert (refused.status_code, "Retry-After" in refused.headers) == (429, True)
    console.clock.ahead_s += LIFE_S + 1
    assert console.client().post(CODE, json={}).status_code == 200


def test_nobody_grants_more_than_their_role_and_session_may_do(console: ConsoleUnderTest) -> None:
    begun = begin(console)
    ann = sign_in(console, console.add_user("ann", scopes=["read"]))
    assert "cannot give a token the scope" in decide(ann, begun["user_code"], scope=["read", "admin"])
    decide(ann, begun["user_code"], scope=["read", "submit"])
    assert poll(console, begun)[1]["scope"] == "read"


def test_a_demotion_between_approval_and_token_counts(console: ConsoleUnderTest) -> None:
    root = console.client(console.add_user("root", "admin"))
    first, second = begin(console), begin(console)
    boss = sign_in(console, console.add_user("boss", "admin"))
    for begun in (first, second):
        decide(boss, begun["user_code"], scope=["read", "submit", "admin"])
    root.put("/api/v1/admin/users/boss/role", json={"role": "viewer"})
    assert poll(console, first)[1]["scope"] == "read"
    root.put("/api/v1/admin/users/boss/active", json={"active": False})
    assert poll(console, second)[1]["error"] == "access_denied"


@pytest.mark.parametrize("days", ["0", "4000", "x", ""])
def test_a_life_that_no_token_may_have_is_refused_and_can_be_mended(console: ConsoleUnderTest, days: str) -> None:
    begun = begin(console)
    ann = sign_in(console, console.add_user("ann"))
    page = decide(ann, begun["user_code"], days=days)
    assert "a token cannot live" in page
    assert "Sign in as ann?" in page
    assert "signs in within seconds" in decide(ann, begun["user_code"])


def test_the_page_asks_whoever_is_not_signed_in_to_do_so_and_comes_back_with_the_code(
    console: ConsoleUnderTest,
) -> None:
    begun = begin(console)
    ann, client = console.add_user("ann"), console.client()
    form = client.get(f"/device?code={begun['user_code']}")
    assert form.url.path == "/signin"
    (after,) = re.findall(r'name="next" value="([^"]+)"', form.text)
    token = ann["Authorization"].removeprefix("Bearer ")
    page = client.post("/signin", data={"form_key": form_key(form.text), "token": token, "next": after})
    assert (page.url.path, f'value="{begun["user_code"]}"' in page.text) == ("/device", True)


def test_opening_the_address_decides_nothing_and_another_sites_form_neither(console: ConsoleUnderTest) -> None:
    begun = begin(console)
    ann = sign_in(console, console.add_user("ann"))
    ann.get(f"/device?code={begun['user_code']}")
    assert ann.post("/device/decide", data={"code": begun["user_code"], "do": "approve"}).status_code == 403
    assert poll(console, begun)[1]["error"] == "authorization_pending"


def test_who_asks_is_shown_as_text(console: ConsoleUnderTest) -> None:
    begun = begin(console, "<script>alert(1)</script>\u202e\n" + "x" * 100)
    ann = sign_in(console, console.add_user("ann"))
    page = ann.post("/device", data={"form_key": form_key(ann.get("/device").text), "code": begun["user_code"]}).text
    assert "<script>alert" not in page
    assert "\u202e" not in page


def test_the_audit_log_tells_who_approved_what_without_any_code(console: ConsoleUnderTest) -> None:
    root = console.client(console.add_user("root", "admin"))
    first, second = begin(console), begin(console)
    ann = sign_in(console, console.add_user("ann"))
    decide(ann, first["user_code"])
    decide(ann, second["user_code"], "deny")
    token = poll(console, first)[1]["access_token"]
    answer = root.get("/api/v1/admin/audit", params={"user": "ann"})
    made, denied, approved, _ = answer.json()["items"]
    assert approved["what"] == "let sf of ann on laptop at testclient sign in by a code: read, submit"
    assert denied["what"] == "did not let sf of ann on laptop at testclient sign in by a code"
    assert (made["act"], made["via"]) == ("token_made", "api")
    for secret in (first["user_code"], first["device_code"], token):
        assert secret not in answer.text


def test_strangers_send_little_and_are_answered_with_a_problem(console: ConsoleUnderTest) -> None:
    client = console.client()
    assert client.post(CODE, content=b"x" * (1 << 20)).status_code == 413
    assert client.post(CODE, json={"client_id": "x" * 1000}).status_code == 422
    assert client.post(TOKEN, json={}).status_code == 422
    answer = client.post(TOKEN, json={"device_code": "x"})
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["cache-control"] == "no-store"


def test_what_was_approved_and_not_fetched_ends_with_all_other_sessions(console: ConsoleUnderTest) -> None:
    begun = begin(console)
    headers = console.add_user("ann")
    ann = sign_in(console, headers)
    decide(ann, begun["user_code"], scope=["read"])
    assert console.client(headers).post("/api/v1/tokens/revoke-others").status_code in {200, 204}
    assert poll(console, begun)[1]["error"] == "access_denied"

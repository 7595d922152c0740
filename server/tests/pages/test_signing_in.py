import re

import pytest
from starlette.testclient import TestClient

from server.tests.pages.support import form_key, sign_in
from server.tests.web.support import ConsoleUnderTest

TOKEN = re.compile(r"sfp_[A-Za-z0-9_-]{43}")
HOURS = 3600


def spend(client: TestClient, code: str) -> str:
    """What the button of the sign-in link shows."""
    key = form_key(client.get(f"/signin/{code}").text)
    return client.post(f"/signin/{code}", data={"form_key": key}).text


def token_of(headers: dict[str, str]) -> str:
    return headers["Authorization"].removeprefix("Bearer ")


def test_a_personal_token_opens_a_session(console: ConsoleUnderTest) -> None:
    client = sign_in(console, console.add_user("ann"))
    page = client.get("/jobs")
    assert page.status_code == 200
    assert "ann" in page.text


def test_the_sessions_cookie_is_out_of_reach_of_scripts_and_of_other_sites(console: ConsoleUnderTest) -> None:
    client = console.client()
    key = form_key(client.get("/signin").text)
    answer = client.post(
        "/signin", data={"form_key": key, "token": token_of(console.add_user("ann"))}, follow_redirects=False
    )
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Max-Age=43200" in cookie


def test_a_wrong_token_is_refused_at_its_field(console: ConsoleUnderTest) -> None:
    client = console.client()
    key = form_key(client.get("/signin").text)
    page = client.post("/signin", data={"form_key": key, "token": "sfp_wrong"})
    assert page.status_code == 401
    assert 'aria-invalid="true"' in page.text


def test_without_a_session_a_page_leads_to_sign_in_and_back(console: ConsoleUnderTest) -> None:
    token = token_of(console.add_user("ann"))
    client = console.client()
    form = client.get("/tokens")
    assert form.url.path == "/signin"
    data = {"form_key": form_key(form.text), "token": token, "next": "/tokens"}
    assert client.post("/signin", data=data).url.path == "/tokens"


@pytest.mark.parametrize("elsewhere", ["//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:1"])
def test_sign_in_never_leads_to_another_site(console: ConsoleUnderTest, elsewhere: str) -> None:
    client = console.client()
    data = {
        "form_key": form_key(client.get("/signin").text),
        "token": token_of(console.add_user("ann")),
        "next": elsewhere,
    }
    assert client.post("/signin", data=data, follow_redirects=False).headers["location"] == "/overview"


def test_a_session_ends_after_twelve_idle_hours_and_says_so(console: ConsoleUnderTest) -> None:
    client = sign_in(console, console.add_user("ann"))
    console.clock.ahead_s = 12 * HOURS + 1
    page = client.get("/jobs")
    assert page.url.path == "/signin"
    assert "Your session has ended" in page.text


def test_a_session_that_is_used_lives_on(console: ConsoleUnderTest) -> None:
    client = sign_in(console, console.add_user("ann"))
    for hour in (8, 16, 24):
        console.clock.ahead_s = hour * HOURS
        assert client.get("/jobs").url.path == "/jobs"


def test_a_session_does_not_outlive_the_token_that_opened_it(console: ConsoleUnderTest) -> None:
    console.add_user("ann")
    client = sign_in(console, console.add_token(1, frozenset({"read"}), days=1))
    for hour in (8, 16, 23):
        console.clock.ahead_s = hour * HOURS
        assert client.get("/jobs").url.path == "/jobs"
    console.clock.ahead_s = 24 * HOURS + 1
    assert client.get("/jobs").url.path == "/signin"


def test_signing_out_ends_the_session_also_for_who_kept_the_cookie(console: ConsoleUnderTest) -> None:
    client = sign_in(console, console.add_user("ann"))
    kept = dict(client.cookies)
    client.post("/signout", data={"form_key": form_key(client.get("/jobs").text)})
    thief = console.client()
    thief.cookies.update(kept)
    assert thief.get("/jobs").url.path == "/signin"


def test_revoking_a_token_ends_the_sessions_that_it_opened(console: ConsoleUnderTest) -> None:
    ann = console.add_user("ann")
    client = sign_in(console, ann)
    page = client.get("/tokens").text
    number = re.findall(r"/tokens/(\d+)/revoke", page)[0]
    client.post(f"/tokens/{number}/revoke", data={"form_key": form_key(page)})
    assert client.get("/jobs").url.path == "/signin"
    assert console.client(ann).get("/api/v1/whoami").status_code == 401


def test_a_session_may_not_do_more_than_the_token_that_opened_it(console: ConsoleUnderTest) -> None:
    client = sign_in(console, console.add_user("ann", scopes=["read"]))
    key = form_key(client.get("/jobs").text)
    assert client.post("/jobs/jaaaaaaaaa/stop", data={"form_key": key}).status_code == 403


def test_the_api_never_takes_the_cookie(console: ConsoleUnderTest) -> None:
    client = sign_in(console, console.add_user("ann", "admin"))
    assert client.get("/api/v1/whoami").status_code == 401
    assert client.post("/api/v1/jobs/jaaaaaaaaa/stop").status_code == 401


def test_the_links_button_shows_a_token_that_works_and_signs_in(console: ConsoleUnderTest) -> None:
    client = console.client()
    page = spend(client, console.add_sign_in_code("ann"))
    (token,) = set(TOKEN.findall(page))
    assert console.client({"Authorization": f"Bearer {token}"}).get("/api/v1/whoami").json()["user"] == "ann"
    assert "sf login --server http://127.0.0.1:7080" in page
    assert client.get("/jobs").url.path == "/jobs"


def test_looking_at_a_link_spends_nothing_and_its_button_works_once(console: ConsoleUnderTest) -> None:
    code = console.add_sign_in_code("ann")
    client = console.client()
    for _ in range(3):
        assert client.get(f"/signin/{code}").status_code == 200
    assert TOKEN.search(spend(client, code))
    assert not TOKEN.search(spend(console.client(), code))


def test_a_link_is_good_for_an_hour(console: ConsoleUnderTest) -> None:
    code = console.add_sign_in_code("ann")
    console.clock.ahead_s = HOURS + 1
    assert not TOKEN.search(spend(console.client(), code))


def test_guessing_tokens_is_slowed_down(console: ConsoleUnderTest) -> None:
    client = console.client()
    key = form_key(client.get("/signin").text)
    statuses = [
        client.post("/signin", data={"form_key": key, "token": f"sfp_{number}"}).status_code for number in range(40)
    ]
    assert set(statuses[:30]) == {401}
    assert statuses[-1] == 429


def test_what_stands_in_the_address_never_reaches_the_page(console: ConsoleUnderTest) -> None:
    assert "<script>alert" not in spend(console.client(), "%3Cscript%3Ealert")


@pytest.mark.parametrize("charset", ["utf-8", "punycode", "utf-7", "undefined", "idna"])
def test_a_form_that_none_of_our_pages_sends_so_is_refused_before_it_is_decoded(
    console: ConsoleUnderTest, charset: str
) -> None:
    body = b'--x\r\nContent-Disposition: form-data; name="form_key"\r\n\r\n+2AA-\r\n--x--\r\n'
    kind = f"multipart/form-data; boundary=x; charset={charset}"
    for path in ("/signin", "/signin/code", "/tokens", "/device"):
        answer = console.client().post(path, content=body, headers={"Content-Type": kind}, follow_redirects=False)
        assert answer.status_code in {303, 403, 404, 422}, path


def test_a_token_that_revokes_itself_ends_the_sessions_that_it_opened(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    client = sign_in(console, headers)
    assert client.get("/jobs").status_code == 200
    assert console.client(headers).post("/api/v1/tokens/revoke-self").status_code == 204
    assert client.get("/jobs", follow_redirects=False).status_code == 303

import re
from html import unescape
from urllib.parse import parse_qsl, urlsplit

import pytest

from server.tests.pages.support import form_key, sign_in
from server.tests.web.support import ConsoleUnderTest, submit
from starforge_console.ledger.views import load_job
from starforge_console.web.guard import FORM_BYTES

POSTS = [
    *("/preferences", "/signout", "/signin", "/signin/code", "/tokens", "/tokens/1/revoke", "/jobs/stop"),
    *("/secrets", "/secrets/A/remove"),
]


def state_of(console: ConsoleUnderTest, job: str) -> str:
    return console.ledger.read_now(lambda c: load_job(c, job)).state


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("key", [None, "", "0" * 64, "é"])
def test_a_form_without_this_sessions_key_is_refused(console: ConsoleUnderTest, path: str, key: str | None) -> None:
    client = sign_in(console, console.add_user("ann"))
    answer = client.post(path, data={} if key is None else {"form_key": key})
    assert answer.status_code == 403
    assert "the form was not accepted" in answer.text


def test_the_key_of_another_session_does_not_fit(console: ConsoleUnderTest) -> None:
    ann, bob = sign_in(console, console.add_user("ann")), sign_in(console, console.add_user("bob"))
    key = form_key(bob.get("/jobs").text)
    assert ann.post("/signout", data={"form_key": key}).status_code == 403


def test_a_form_that_another_site_sends_is_refused_even_with_the_key(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    client = sign_in(console, headers)
    key = form_key(client.get("/jobs").text)
    answer = client.post(f"/jobs/{job}/stop", data={"form_key": key}, headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 403
    assert console.ledger.read_now(lambda c: load_job(c, job)).state == "QUEUED"


@pytest.mark.parametrize("origin", ["https://evil.example", "http://testserver.evil.example", "http://testserver:81"])
def test_a_form_of_a_foreign_origin_is_refused_also_without_the_newer_header(
    console: ConsoleUnderTest, origin: str
) -> None:
    client = sign_in(console, console.add_user("ann"))
    key = form_key(client.get("/jobs").text)
    answer = client.post("/signout", data={"form_key": key}, headers={"Origin": origin})
    assert answer.status_code == 403
    assert origin in answer.text
    assert client.get("/jobs").url.path == "/jobs", "the session lives"


@pytest.mark.parametrize("origin", ["http://testserver", "https://testserver", "http://127.0.0.1:7080", "null"])
def test_a_form_of_our_own_is_taken_whichever_of_our_addresses_it_names(console: ConsoleUnderTest, origin: str) -> None:
    client = sign_in(console, console.add_user("ann"))
    key = form_key(client.get("/jobs").text)
    answer = client.post("/signout", data={"form_key": key}, headers={"Origin": origin})
    assert answer.url.path == "/signin"


MULTIPART = "multipart/form-data; boundary=b"
FORM = "application/x-www-form-urlencoded"
TOO_MUCH = b"x=" + b"y" * FORM_BYTES


@pytest.mark.parametrize("accept", ["text/html", "*/*"])
@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (TOO_MUCH, FORM, 413),
        (b"&".join([b"x=1"] * 1001), FORM, 422),
        (b"\xff", FORM, 422),
        (b"no part", "multipart/form-data; boundary=b", 422),
        (b"no boundary", "multipart/form-data", 422),
        (b'--b\r\nContent-Disposition: form-data; name="f"; filename="x"\r\n\r\n.\r\n--b--\r\n', MULTIPART, 422),
    ],
    ids=["too long", "too many fields", "no UTF-8", "no part", "no boundary", "a file"],
)
@pytest.mark.parametrize("path", ["/tokens", "/signin"])
def test_a_form_that_cannot_be_read_is_answered_with_a_page(  # noqa: PLR0913, PLR0917 - what is sent, and what comes
    console: ConsoleUnderTest, path: str, body: bytes, kind: str, status: int, accept: str
) -> None:
    client = sign_in(console, console.add_user("ann"))
    answer = client.post(path, content=body, headers={"Content-Type": kind, "Accept": accept})
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")


@pytest.mark.parametrize("number", ["0", "-1", "99999999999999999999999", "9" * 5000, "x"])
def test_a_token_of_no_possible_number_is_no_fault_of_the_console(console: ConsoleUnderTest, number: str) -> None:
    client = sign_in(console, console.add_user("ann"))
    key = form_key(client.get("/jobs").text)
    assert client.post(f"/tokens/{number}/revoke", data={"form_key": key}).status_code == 422


def test_stop_and_delete_work_for_the_owner(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    client = sign_in(console, headers)
    key = form_key(client.get(f"/jobs/{job}").text)
    assert "Stopped" in client.post(f"/jobs/{job}/stop", data={"form_key": key}).text
    assert "was deleted" in client.post(f"/jobs/{job}/delete", data={"form_key": key}).text
    assert client.get(f"/jobs/{job}").status_code == 404


def test_what_belongs_to_somebody_else_has_no_buttons_and_stays(console: ConsoleUnderTest) -> None:
    job = submit(console, console.add_user("ann"))
    client = sign_in(console, console.add_user("bob"))
    page = client.get(f"/jobs/{job}").text
    assert f"/jobs/{job}/stop" not in page
    assert client.post(f"/jobs/{job}/stop", data={"form_key": form_key(page)}).status_code == 403
    assert console.ledger.read_now(lambda c: load_job(c, job)).state == "QUEUED"


def test_bulk_stop_asks_first_and_leaves_out_what_is_not_ones_own(console: ConsoleUnderTest) -> None:
    ann, bob = console.add_user("ann"), console.add_user("bob")
    mine, theirs = submit(console, bob), submit(console, ann)
    client = sign_in(console, bob)
    data = {"form_key": form_key(client.get("/jobs").text), "job": [mine, theirs], "back": "/jobs"}
    question = client.post("/jobs/stop", data=data).text
    assert "Stop 1 job?" in question
    assert "1 chosen job belongs to somebody else" in question
    client.post("/jobs/stop", data={**data, "confirmed": "yes"})
    assert [state_of(console, job) for job in (mine, theirs)] == ["STOPPED", "QUEUED"]


@pytest.mark.parametrize("address", ["/jobs", "/jobs?done=deleted", "/jobs?state=QUEUED&q=j&group=none"])
def test_a_bulk_stop_says_so_on_the_list_it_began_from(console: ConsoleUnderTest, address: str) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    client = sign_in(console, headers)
    answer = client.get(address)
    back = back_of(answer.text)
    data = {"form_key": form_key(answer.text), "job": [job], "back": back}
    assert back_of(client.post("/jobs/stop", data=data).text) == back
    after = client.post("/jobs/stop", data={**data, "confirmed": "yes"})
    assert "Stop requested." in after.text
    assert "was deleted" not in after.text
    assert dict(after.url.params) == dict(parse_qsl(urlsplit(address).query)) | {"done": "stopped"}


def test_a_bulk_stop_goes_on_after_a_job_that_cannot_be_stopped_and_names_it(console: ConsoleUnderTest) -> None:
    ann, bob = console.add_user("ann"), console.add_user("bob")
    theirs, mine = submit(console, ann), [submit(console, bob) for _ in range(2)]
    client = sign_in(console, bob)
    key = form_key(client.get("/jobs").text)
    chosen = ["j0000000000", theirs, *mine]
    answer = client.post("/jobs/stop", data={"form_key": key, "job": chosen, "back": "/jobs", "confirmed": "yes"})
    assert [state_of(console, job) for job in (theirs, *mine)] == ["QUEUED", "STOPPED", "STOPPED"]
    assert "2 jobs were not asked to stop" in answer.text
    assert "2 other jobs were asked" in answer.text
    assert "there is no job &#39;j0000000000&#39;" in answer.text
    assert f"bob may not stop job {theirs}" in answer.text
    assert re.findall(r'name="job" value="(\w+)"', answer.text) == ["j0000000000", theirs]


def back_of(page: str) -> str:
    """Where the form on `page` that stops jobs leads back to."""
    found = re.search(r'action="/jobs/stop".*?name="back" value="([^"]*)"', page)
    assert found is not None, page
    return unescape(found[1])


def test_a_member_sees_and_revokes_only_its_own_tokens(console: ConsoleUnderTest) -> None:
    console.add_user("ann")
    client = sign_in(console, console.add_user("bob"))
    page = client.get("/tokens").text
    numbers = re.findall(r"/tokens/(\d+)/revoke", page)
    assert "1" not in numbers
    assert client.post("/tokens/1/revoke", data={"form_key": form_key(page)}).status_code == 403


def test_an_administrator_sees_everybodys_tokens_and_no_secret(console: ConsoleUnderTest) -> None:
    ann = console.add_user("ann")
    page = sign_in(console, console.add_user("root", "admin")).get("/tokens").text
    assert "<td>ann</td>" in page
    assert ann["Authorization"].removeprefix("Bearer ") not in page


@pytest.mark.parametrize(
    "days", ["0", "-1", "3651", "99999", "nan", "soon", "", "٣", "1_0", "1e-9", "0.5", "+1", "1e1"]
)
def test_a_life_that_a_token_cannot_have_is_refused_in_words(console: ConsoleUnderTest, days: str) -> None:
    client = sign_in(console, console.add_user("ann"))
    data = {"form_key": form_key(client.get("/tokens").text), "label": "x", "days": days, "scope": "read"}
    answer = client.post("/tokens", data=data)
    assert answer.status_code == 422
    assert 'role="alert"' in answer.text


def test_no_token_gets_a_scope_that_the_session_lacks(console: ConsoleUnderTest) -> None:
    client = sign_in(console, console.add_user("ann", "admin", scopes=["read", "submit"]))
    data = {"form_key": form_key(client.get("/tokens").text), "label": "x", "days": "1", "scope": ["admin", "read"]}
    page = client.post("/tokens", data=data).text
    token = re.search(r"sfp_[A-Za-z0-9_-]{43}", page)
    assert token is not None
    answer = console.client({"Authorization": f"Bearer {token[0]}"}).get("/api/v1/whoami").json()
    assert answer["scopes"] == ["read"]


@pytest.mark.parametrize("back", ["https://evil.example/", "//evil.example", "/\\evil.example", "/jobs\r\nX-Evil: 1"])
def test_preferences_never_lead_to_another_site(console: ConsoleUnderTest, back: str) -> None:
    client = console.client()
    data = {"form_key": form_key(client.get("/signin").text), "theme": "dark", "back": back}
    assert client.post("/preferences", data=data, follow_redirects=False).headers["location"] == "/overview"

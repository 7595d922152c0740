import re

import pytest

from server.tests.web.support import ConsoleUnderTest

TOKEN = re.compile(r"sfp_[A-Za-z0-9_-]{43}")


def test_the_button_shows_a_token_that_works(console: ConsoleUnderTest) -> None:
    code = console.add_sign_in_code("ann")
    page = console.client().post(f"/signin/{code}")
    (token,) = set(TOKEN.findall(page.text))
    client = console.client({"Authorization": f"Bearer {token}"})
    assert client.get("/api/v1/whoami").json()["user"] == "ann"
    assert "sf login --server http://127.0.0.1:7080" in page.text


def test_looking_at_the_page_spends_nothing_and_the_button_works_once(console: ConsoleUnderTest) -> None:
    code = console.add_sign_in_code("ann")
    client = console.client()
    for _ in range(3):
        assert client.get(f"/signin/{code}").status_code == 200
    assert client.post(f"/signin/{code}").status_code == 200
    again = client.post(f"/signin/{code}")
    assert again.status_code == 401
    assert not TOKEN.search(again.text)


def test_a_link_is_good_for_an_hour(console: ConsoleUnderTest) -> None:
    code = console.add_sign_in_code("ann")
    console.clock.ahead_s = 3601
    assert console.client().post(f"/signin/{code}").status_code == 401


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("", "en"),
        ("de", "en"),
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh-Hans"),
        ("en-GB,en;q=0.9,zh;q=0.8", "en"),
        ("fr, zh;q=0.5, en;q=0.3", "zh-Hans"),
        ("zh;q=wrong", "en"),
    ],
)
def test_the_page_speaks_the_readers_language(console: ConsoleUnderTest, accepted: str, language: str) -> None:
    page = console.client().get("/signin/x", headers={"Accept-Language": accepted})
    assert f"<html lang='{language}'>" in page.text


def test_the_page_runs_nothing_and_is_kept_nowhere(console: ConsoleUnderTest) -> None:
    page = console.client().get("/signin/x")
    assert "<script" not in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'; style-src 'sha256-")
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["referrer-policy"] == "no-referrer"


def test_what_stands_in_the_address_never_reaches_the_page(console: ConsoleUnderTest) -> None:
    page = console.client().post("/signin/%3Cscript%3E")
    assert "script" not in page.text


def test_guessing_codes_is_slowed_down(console: ConsoleUnderTest) -> None:
    client = console.client()
    statuses = [client.post(f"/signin/guess-{number}").status_code for number in range(40)]
    assert set(statuses[:30]) == {401}
    assert statuses[-1] == 429

"""What a machine that shall join fetches from the console, without signing in."""

from pathlib import Path

import httpx2
import pytest

from server.tests.web.support import ConsoleUnderTest
from server.tests.wheels.builders import make_wheel

JSON = "application/vnd.pypi.simple.v1+json"
PIP = f"{JSON}, application/vnd.pypi.simple.v1+html; q=0.1, text/html; q=0.01"


@pytest.fixture
def house(console: ConsoleUnderTest) -> Path:
    return console.services.settings.paths.console_state_dir / "wheelhouse"


def get(console: ConsoleUnderTest, path: str, accept: str = "*/*") -> httpx2.Response:
    return console.client().get(path, headers={"accept": accept}, follow_redirects=False)


def test_the_script_is_for_the_public_address_and_whole(console: ConsoleUnderTest) -> None:
    answer = get(console, "/install.sh")
    assert answer.status_code == 200
    lines = answer.text.splitlines()
    assert f"URL={console.services.settings.http.public_url}" in lines
    assert (lines[0], lines[-1]) == ("#!/bin/sh", "}")
    assert "@" not in "".join(line for line in lines if line.startswith(("URL=", "@")))


def test_a_browser_gets_links_and_pip_gets_json(console: ConsoleUnderTest, house: Path) -> None:
    wheel = make_wheel(house, "alpha-beta", "1.0+forge")
    shown = get(console, "/simple/alpha-beta/", "text/html")
    assert 'href="../../files/alpha_beta-1.0%2Bforge-py3-none-any.whl#sha256=' in shown.text
    told = get(console, "/simple/alpha-beta/", PIP)
    assert told.headers["content-type"] == JSON
    assert told.headers["vary"] == "accept"
    (file,) = told.json()["files"]
    assert (file["filename"], file["url"]) == (wheel.name, "../../files/alpha_beta-1.0%2Bforge-py3-none-any.whl")
    assert get(console, "/simple/", PIP).json() == {
        "meta": {"api-version": "1.0"},
        "projects": [{"name": "alpha-beta"}],
    }
    assert '<a href="alpha-beta/">' in get(console, "/simple/").text


@pytest.mark.parametrize(
    ("accept", "json"),
    [
        (PIP, True),
        (JSON, True),
        ("text/html", False),
        (f"{JSON};q=0.2, text/html;q=0.9", False),
        (f"{JSON};q=x", False),
    ],
)
def test_the_form_follows_what_is_accepted(console: ConsoleUnderTest, house: Path, accept: str, *, json: bool) -> None:
    make_wheel(house, "alpha", "1.0")
    assert (get(console, "/simple/", accept).headers["content-type"] == JSON) is json


def test_a_name_that_is_not_normal_leads_to_the_one_that_is(console: ConsoleUnderTest) -> None:
    answer = get(console, "/simple/Alpha_Beta/")
    assert (answer.status_code, answer.headers["location"]) == (301, "../alpha-beta/")


def test_a_wheel_is_sent_as_it_is(console: ConsoleUnderTest, house: Path) -> None:
    wheel = make_wheel(house, "alpha", "1.0+forge")
    answer = get(console, "/files/alpha-1.0%2Bforge-py3-none-any.whl")
    assert (answer.status_code, answer.content) == (200, wheel.read_bytes())


@pytest.mark.parametrize(
    "path",
    [
        "/files/ledger.db",
        "/files/..%2fledger.db",
        "/files/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/files/.adding-x",
        "/files/secret-1.0-py3-none-any.whl",
        "/simple/none/",
        "/locks/..%2fcp311-x86_64.txt",
        "/locks/cp311-x86_64",
    ],
)
def test_nothing_but_wheels_is_there(console: ConsoleUnderTest, house: Path, path: str) -> None:
    make_wheel(house, "alpha", "1.0")
    (house / "secret-1.0-py3-none-any.whl").symlink_to(house.parent / "ledger.db")
    assert get(console, path).status_code == 404


def test_a_missing_combination_names_the_command_that_supplies_it(console: ConsoleUnderTest) -> None:
    answer = get(console, "/locks/cp312-aarch64.txt")
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/plain")
    assert "starforge-console wheelhouse add --python 3.12 --arch aarch64" in answer.text


def test_a_machine_that_forgelet_does_not_run_on_is_told_so(console: ConsoleUnderTest) -> None:
    assert "it needs Python 3.11 to" in get(console, "/locks/cp310-x86_64.txt").text

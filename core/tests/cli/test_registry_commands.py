"""`sf admin registry`: logins are set without ever being an argument, listed without a password, and removed."""

import json

import pytest

from core.tests.cli.conftest import Sf
from core.tests.client.server import ConsoleState

pytestmark = pytest.mark.usefixtures("server")

PLACE = "/admin/registries"
KEPT = {"registry": "registry.test:5000", "username": "puller", "set_at": 0.0, "set_by": "root"}
PASSWORD = "a-long-password"  # noqa: S105 - made up


def test_a_login_is_set_with_the_first_line_of_what_is_piped_in(sf: Sf, state: ConsoleState) -> None:
    state.answers[f"PUT {PLACE}/registry.test%3A5000"] = KEPT
    words = ("admin", "registry", "set", "registry.test:5000", "--username", "puller")
    done = sf(*words, stdin=f"{PASSWORD}\r\nmore")
    assert (done.code, done.out) == (0, "the console signs in to registry.test:5000 as puller\n")
    (sent,) = [seen.body for seen in state.seen if seen.method == "PUT"]
    assert json.loads(sent) == {"username": "puller", "password": PASSWORD}
    assert sf(*words, "--json", stdin=PASSWORD).json == KEPT
    assert PASSWORD not in done.out + done.err


def test_without_a_password_nothing_is_sent(sf: Sf, state: ConsoleState) -> None:
    done = sf("admin", "registry", "set", "registry.test", "--username", "puller", stdin="")
    assert (done.code, "no password was given" in done.err) == (2, True)
    assert [seen for seen in state.seen if seen.path.startswith(PLACE)] == []


def test_a_password_is_no_argument(sf: Sf) -> None:
    done = sf("admin", "registry", "set", "registry.test", "--username", "puller", "--password", PASSWORD)
    assert done.code == 2


def test_logins_are_a_table_or_json(sf: Sf, state: ConsoleState) -> None:
    state.answers[f"GET {PLACE}"] = {"items": [KEPT]}
    head, row = sf("admin", "registry", "ls").out.splitlines()
    assert (head.split(), row.split()[:3]) == (
        ["REGISTRY", "USERNAME", "SET", "BY", "SET"],
        ["registry.test:5000", "puller", "root"],
    )
    assert sf("admin", "registry", "ls", "--json").json == {"items": [KEPT]}
    state.answers[f"GET {PLACE}"] = {"items": []}
    assert "sf admin registry set" in sf("admin", "registry", "ls").out


def test_a_login_is_removed(sf: Sf, state: ConsoleState) -> None:
    state.answers[f"DELETE {PLACE}/registry.test"] = {}
    assert sf("admin", "registry", "rm", "registry.test").out == "the console signs in to registry.test no more\n"
    assert sf("admin", "registry", "rm", "registry.test", "--json").json == {
        "registry": "registry.test",
        "removed": True,
    }

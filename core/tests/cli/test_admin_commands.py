"""`sf admin user` and `sf admin audit`: what is sent, and what is said."""

import json
from urllib.parse import parse_qsl

import pytest

from core.tests.cli.conftest import Sf
from core.tests.client.server import ConsoleState
from starforge.cli.admin_audit import parse_since
from starforge.errors import InputError

pytestmark = pytest.mark.usefixtures("server")

ANN = {"name": "ann", "role": "operator", "active": True, "team": "vision", "held": {"gpus": 1, "jobs": 2}}
ENTRY = {
    "number": 12,
    "at": 1_783_360_800.0,
    "user": "root",
    "via": "page",
    "peer": "192.0.2.7",
    "token": 3,
    "act": "user_team",
    "what": "put ann into team vision",
    "values": {"user": "ann", "team": "vision"},
}


def test_a_user_is_added_and_it_is_said_how_they_sign_in(sf: Sf, state: ConsoleState) -> None:
    state.answers["POST /admin/users"] = ANN
    done = sf("admin", "user", "add", "ann", "--role", "operator")
    assert (done.code, done.out, "sign in with" in done.err) == (0, "added ann as operator\n", True)
    assert [json.loads(seen.body) for seen in state.seen if seen.method == "POST"] == [
        {"name": "ann", "role": "operator"}
    ]
    assert sf("admin", "user", "add", "ann", "--json").json == ANN


def test_users_are_listed(sf: Sf, state: ConsoleState) -> None:
    state.answers["GET /admin/users"] = {"items": [ANN]}
    assert sf("admin", "user", "ls").out.splitlines()[1].split() == ["ann", "operator", "vision", "yes", "1", "2"]
    assert sf("admin", "user", "ls", "--json").json == {"items": [ANN]}


def test_only_what_is_named_of_a_user_is_changed(sf: Sf, state: ConsoleState) -> None:
    for part in ("role", "team", "active"):
        state.answers[f"PUT /admin/users/ann/{part}"] = ANN | {"active": False}
    done = sf("admin", "user", "set", "ann", "--role", "viewer", "--inactive", "--no-team")
    assert done.out == "ann is operator, in team vision, and may not sign in\n"
    assert [json.loads(seen.body) for seen in state.seen if seen.method == "PUT"] == [
        {"role": "viewer"},
        {"active": False},
        {"team": None},
    ]


@pytest.mark.parametrize("words", [(), ("--team", "a", "--no-team"), ("--role", "king")])
def test_no_change_or_a_contradiction_is_refused_before_anything_is_sent(
    sf: Sf, state: ConsoleState, words: tuple[str, ...]
) -> None:
    assert sf("admin", "user", "set", "ann", *words).code == 2
    assert [seen for seen in state.seen if seen.method == "PUT"] == []


def test_the_audit_log_is_shown_and_asked_for_by_who_what_and_when(sf: Sf, state: ConsoleState) -> None:
    state.answers["GET /admin/audit"] = {"items": [ENTRY], "next": None}
    done = sf("admin", "audit", "--user", "root", "--act", "user_team", "--text", "vision", "--since", "2026-07-01")
    assert "2026-07-06 18:00:00  root  page 192.0.2.7  put ann into team vision" in done.out
    (query,) = [seen.query for seen in state.seen if seen.path == "/admin/audit"]
    assert dict(parse_qsl(query)) == {
        "user": "root",
        "act": "user_team",
        "text": "vision",
        "since": "1782864000",
        "limit": "100",
    }
    assert sf("admin", "audit", "--json").json == {"items": [ENTRY]}
    state.answers["GET /admin/audit"] = {"items": [], "next": None}
    assert "nothing of that kind was done" in sf("admin", "audit").err


@pytest.mark.parametrize(("text", "ago_s"), [("30m", 1800), ("12h", 43_200), ("7d", 604_800)])
def test_a_span_is_counted_back_from_now(text: str, ago_s: int) -> None:
    assert parse_since(text, 1_000_000.0) == 1_000_000 - ago_s


@pytest.mark.parametrize("text", ["", "yesterday", "7", "2026-13-01", "-1h"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_since(text, 1_000_000.0)

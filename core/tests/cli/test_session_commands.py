"""`sf session`: what is listed, and what is ended."""

import pytest

from core.tests.cli.conftest import Sf
from core.tests.client.server import ConsoleState

pytestmark = pytest.mark.usefixtures("server")

TOKEN = {
    "id": 3,
    "kind": "personal",
    "user": "ann",
    "label": "laptop",
    "scopes": ["read"],
    "created_at": 0.0,
    "expires_at": 1.0,
    "used_at": None,
    "peer": None,
    "agent": None,
    "current": True,
}
SESSION = TOKEN | {"id": 4, "kind": "session", "peer": "192.0.2.7", "agent": "Mozilla/5.0", "current": False}


def test_tokens_and_sessions_are_listed(sf: Sf, state: ConsoleState) -> None:
    state.answers["GET /tokens"] = {"items": [SESSION, TOKEN, TOKEN | {"id": 2, "current": False}]}
    session, current, other = sf("session", "ls").out.splitlines()[1:]
    assert session.startswith("4   session  ann   from 192.0.2.7, Mozilla/5.0")
    assert "in use here" in current
    assert "laptop" in other
    assert sf("session", "ls", "--all", "--json").json["items"][0] == SESSION
    assert [seen.query for seen in state.seen if seen.path == "/tokens"] == ["", "everybody=true"]


def test_what_is_named_is_ended(sf: Sf, state: ConsoleState) -> None:
    for number in (3, 4):
        state.answers[f"DELETE /tokens/{number}"] = {}
    assert sf("session", "end", "3", "4", "3").err == "ended 2 sign-ins\n"
    assert [seen.path for seen in state.seen if seen.method == "DELETE"] == ["/tokens/3", "/tokens/4"]


def test_all_others_are_ended(sf: Sf, state: ConsoleState) -> None:
    state.answers["POST /tokens/revoke-others"] = {"ended": 1}
    assert sf("session", "end", "--others", "--json").json == {"ended": 1}
    assert sf("session", "end", "--others").err == "ended 1 sign-in\n"


@pytest.mark.parametrize("words", [(), ("3", "--others"), ("0",), ("x",)])
def test_nothing_or_a_contradiction_is_refused_before_anything_is_sent(
    sf: Sf, state: ConsoleState, words: tuple[str, ...]
) -> None:
    assert sf("session", "end", *words).code == 2
    assert [seen for seen in state.seen if "/tokens" in seen.path] == []

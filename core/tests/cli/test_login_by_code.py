"""`sf login` by a code: what is shown, and that the token is kept and never printed."""

import stat
from pathlib import Path

import pytest

from core.tests.cli.conftest import Sf
from core.tests.client.server import TOKEN, ConsoleState, serve

BEGUN = {
    "device_code": "secret-device-code",
    "user_code": "BCDF-GHJK",
    "verification_uri": "https://forge.test/device",
    "verification_uri_complete": "https://forge.test/device?code=BCDF-GHJK",
    "expires_in": 600,
    "interval": 0,
}
GRANTED = {"access_token": TOKEN, "token_type": "Bearer", "expires_in": 60, "scope": "read submit"}


@pytest.fixture
def state(state: ConsoleState) -> ConsoleState:
    state.answers["GET /meta"] = {
        "server": "0.1.0",
        "jobspec": ["forge/v2"],
        "min_client": "0.1.0",
        "features": ["device_login"],
    }
    state.answers["POST /device/code"] = BEGUN
    state.answers["POST /device/token"] = GRANTED
    return state


def test_the_code_and_the_address_are_shown_and_the_token_is_kept(sf: Sf, state: ConsoleState, tmp_path: Path) -> None:
    with serve(state) as url:
        done = sf("login", "--server", url, "--code")
        assert (done.code, done.out) == (0, f"signed in at {url} as ada (member)\n")
        assert "open https://forge.test/device in a browser" in done.err
        assert "\n    BCDF-GHJK\n" in done.err
        assert TOKEN not in done.out + done.err
        assert "secret-device-code" not in done.out + done.err
        assert stat.S_IMODE((tmp_path / "config/credential.json").stat().st_mode) == 0o600
        assert sf("status", "--json").json["user"] == "ada"
    paths = [seen.path for seen in state.seen][:3]
    assert paths == ["/meta", "/device/code", "/device/token"]
    assert all("authorization" not in seen.headers for seen in state.seen[:3])


def test_json_stays_json(sf: Sf, state: ConsoleState) -> None:
    with serve(state) as url:
        assert sf("login", "--server", url, "--code", "--json").json["user"] == "ada"


def test_a_piped_token_needs_no_code(sf: Sf, state: ConsoleState) -> None:
    with serve(state) as url:
        assert sf("login", "--server", url, stdin=f"{TOKEN}\n").code == 0
    assert [seen.path for seen in state.seen if "device" in seen.path] == []


def test_an_older_console_says_how_to_sign_in_there(sf: Sf, state: ConsoleState) -> None:
    state.answers["GET /meta"] = {"server": "0.0.9", "jobspec": ["forge/v2"], "min_client": "0.0.1", "features": []}
    with serve(state) as url:
        done = sf("login", "--server", url, "--code")
    assert (done.code, "does not sign in by a code" in done.err) == (2, True)
    assert "starforge-console token create" in done.err


def test_a_code_and_a_token_at_once_are_refused(sf: Sf) -> None:
    assert sf("login", "--server", "http://127.0.0.1:1", "--code", "--token").code == 2

"""Signing in at a console that serves: by a code, by a provider, slowed down for guessers, and ended at once."""

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.security.knocking import Knock, Street
from e2e.security.visitor import Visitor
from e2e.support.console import ConsoleProcess
from e2e.support.engines import PrivateEngine
from server.tests.accounts.provider import CLIENT_ID, CLIENT_SECRET, Provider, serve_provider
from starforge_console.accounts.throttle import FAILURES_AT_ONCE

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]  # the first test waits for what all of them look at

WHOAMI = "/api/v1/whoami"
_SF = Path(sys.executable).with_name("sf")
_CODE = re.compile(r"^ +([A-Z]{4}-[A-Z]{4})$", re.MULTILINE)
_MADE_UP = "sfp_" + "g" * 43


@pytest.fixture
def ada(console: ConsoleProcess) -> Visitor:
    """The administrator's browser."""
    visitor = Visitor(console.url)
    assert visitor.sign_in(console.token("--scopes", "read,submit,admin")).path == "/overview"
    return visitor


@contextlib.contextmanager
def login_by_code(console: ConsoleProcess, folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`sf login` of somebody in front of another machine; gives the process and the code that it shows."""
    environment = {**console.environment, "SF_CONFIG_DIR": str(folder)}
    argv = [str(_SF), "login", "--server", console.url, "--code", "--json"]
    with subprocess.Popen(
        argv, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            said = ""
            while (found := _CODE.search(said)) is None:
                line = process.stderr.readline()
                assert line, said
                said += line
            yield process, found[1]
        finally:
            process.kill()


def decide(visitor: Visitor, code: str, do: str, *scopes: str) -> str:
    shown = visitor.send(visitor.open("/device"), "/device", {"code": code})
    form = {"code": code, "do": do, "days": "7", "scope": list(scopes)}
    return visitor.send(shown, "/device/decide", form).text


def status_with(console: ConsoleProcess, token: str) -> int:
    return Street(console.port).knock("GET", WHOAMI, {"Authorization": f"Bearer {token}"}).status


def find_token(folder: Path) -> str:
    """The token that `sf` keeps there, for its user alone."""
    files = [file for file in folder.rglob("*") if file.is_file() and "sfp_" in file.read_text(errors="replace")]
    assert [oct(file.stat().st_mode & 0o777) for file in files] == ["0o600"]
    found = re.search(r"sfp_[A-Za-z0-9_-]+", files[0].read_text())
    assert found is not None
    return found[0]


def test_a_command_signs_in_by_a_code_that_somebody_approves_and_its_token_is_ended_there_at_once(
    console: ConsoleProcess, ada: Visitor, tmp_path: Path
) -> None:
    with login_by_code(console, tmp_path) as (process, code):
        assert "signs in within seconds" in decide(ada, code, "approve", "read", "submit")
        printed, _ = process.communicate(timeout=60)
    told = json.loads(printed)
    assert (process.returncode, told["user"], told["scopes"]) == (0, "ada", ["read", "submit"])
    token = find_token(tmp_path)
    assert token not in printed
    mine = console.get("/api/v1/tokens", token)["items"]
    (current,) = [one for one in mine if one["current"]]
    assert status_with(console, token) == 200
    console.sf("session", "end", str(current["id"]))
    assert status_with(console, token) == 401


def test_a_command_that_is_denied_ends_and_says_so(console: ConsoleProcess, ada: Visitor, tmp_path: Path) -> None:
    with login_by_code(console, tmp_path) as (process, code):
        assert "does not sign in" in decide(ada, code, "deny")
        _, said = process.communicate(timeout=60)
    assert process.returncode not in {0, None}
    assert "did not let this sign in" in said
    assert list(tmp_path.rglob("*token*")) == []


def test_a_session_is_listed_with_its_browser_and_ended_from_a_terminal_at_once(
    console: ConsoleProcess, ada: Visitor
) -> None:
    assert ada.open("/jobs").path == "/jobs"
    listed = json.loads(console.sf("session", "ls", "--json").stdout)["items"]
    sessions = [one for one in listed if one["kind"] == "session"]
    assert ada.session
    assert ada.session not in json.dumps(listed)
    assert all(one["agent"].startswith("Python-urllib") and one["peer"] == "127.0.0.1" for one in sessions)
    console.sf("session", "end", *(str(one["id"]) for one in sessions))
    assert ada.open("/jobs").path == "/signin"


def test_a_demotion_and_a_deactivation_count_at_once_for_whoever_is_signed_in(console: ConsoleProcess) -> None:
    console.sf("admin", "user", "add", "eve", "--role", "operator")
    token = console.admin("token", "create", "--user", "eve", "--scopes", "read,submit,admin").stdout.strip()
    eve = Visitor(console.url)
    eve.sign_in(token)
    assert eve.open("/admin").status == 200
    console.sf("admin", "user", "set", "eve", "--role", "viewer")
    assert eve.open("/admin").status == 403
    assert console.get(WHOAMI, token)["scopes"] == ["read"]
    console.sf("admin", "user", "set", "eve", "--inactive")
    assert eve.open("/overview").path == "/signin"
    assert status_with(console, token) == 401


def test_whoever_guesses_tokens_is_slowed_down_and_valid_ones_go_on(console: ConsoleProcess) -> None:
    token = console.token()
    street = Street(console.port, source="127.9.9.9")
    answers = [guess(street, number) for number in range(FAILURES_AT_ONCE)]
    while answers[-1].status == 401 and len(answers) < 2 * FAILURES_AT_ONCE:  # some were forgiven meanwhile
        answers.append(guess(street, len(answers)))
    assert {one.status for one in answers[:-1]} == {401}
    assert (answers[-1].status, int(answers[-1].headers["retry-after"]) > 0) == (429, True)
    assert street.knock("GET", WHOAMI, {"Authorization": f"Bearer {token}"}).status == 200
    elsewhere = Street(console.port, source="127.9.9.8")
    assert guess(elsewhere, 0).status == 401


def guess(street: Street, number: int) -> Knock:
    return street.knock("GET", WHOAMI, {"Authorization": f"Bearer {_MADE_UP}{number}"})


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serve_provider(Provider()) as served:
        yield served


@pytest.fixture
def connected(machine: PrivateEngine, tmp_path: Path, provider: Provider) -> Iterator[ConsoleProcess]:
    """A console whose people come from the provider."""
    settings = {
        "FORGE_OIDC_ISSUER": provider.issuer,
        "FORGE_OIDC_CLIENT_ID": CLIENT_ID,
        "FORGE_OIDC_CLIENT_SECRET": CLIENT_SECRET,
        "FORGE_OIDC_NEW_USERS": "member",
    }
    console = ConsoleProcess(tmp_path, machine.socket_path, settings)
    try:
        console.init()
        yield console
    finally:
        console.close()


def test_somebody_of_the_provider_signs_in_and_lets_a_command_of_theirs_sign_in(
    connected: ConsoleProcess, provider: Provider, tmp_path: Path
) -> None:
    ann = Visitor(connected.url)
    assert "Sign in with single sign-on" in ann.open("/signin?next=/queue").text
    page = ann.open("/oidc/start?next=/queue")
    assert (page.status, page.path, provider.refused) == (200, "/queue", [])
    folder = tmp_path / "of-ann"
    with login_by_code(connected, folder) as (process, code):
        assert "signs in within seconds" in decide(ann, code, "approve", "read")
        printed, _ = process.communicate(timeout=60)
    assert json.loads(printed)["user"] == "ann"
    connected.restart()
    assert ann.open("/queue").path == "/queue", "a restart ends no session"
    assert CLIENT_SECRET not in connected.read_log() + ann.open("/tokens").text
    connected.sf("login", "--server", connected.url, typed=connected.token("--scopes", "read,submit,admin"))
    connected.sf("admin", "user", "set", "ann", "--inactive")
    assert ann.open("/queue").path == "/signin"
    assert ann.open("/oidc/start").status == 403, "who is deactivated here stays out, whatever the provider says"
    assert status_with(connected, find_token(folder)) == 401

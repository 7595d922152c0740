"""Users from the command line of the console's machine, and what the audit log says of it."""

import getpass
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.support.owned import MEMORY, owned_folder
from server.tests.cli.test_console_command import Command
from starforge_console.ledger.audit import Asked, list_acts
from starforge_console.ledger.database import Database


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    with owned_folder(MEMORY) as secrets:
        made = Command(tmp_path, secrets)
        assert made("init").exit_code == 0
        yield made


def test_users_are_added_listed_and_changed(command: Command) -> None:
    assert "/signin/" in command("user", "add", "ann", "--role", "viewer").stdout
    done = command("user", "set", "ann", "--role", "operator", "--inactive")
    assert "user ann is operator" in done.stderr
    assert "user ann may not sign in" in done.stderr
    (_, ann) = json.loads(command("user", "ls", "--json").stdout)["items"]
    assert ann == {"name": "ann", "role": "operator", "active": False, "team": None, "gpus": 0, "jobs": 0}
    assert "operator" in command("user", "ls").stdout
    assert "user ann may sign in" in command("user", "set", "ann", "--active").stderr
    assert "/signin/" in command("user", "link", "ann").stdout


def test_nobody_is_linked_who_may_not_sign_in(command: Command) -> None:
    command("user", "add", "ann")
    command("user", "set", "ann", "--inactive")
    done = command("user", "link", "ann")
    assert (done.exit_code, done.stdout, "user ann may not sign in" in done.stderr) == (1, "", True)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("user", "set", "ann"), 2, "give --role, --active or --inactive"),
        (("user", "set", "nobody", "--inactive"), 1, "there is no user 'nobody'"),
        (("user", "set", "admin", "--role", "viewer"), 1, "no other active administrator"),
        (("user", "set", "admin", "--inactive"), 1, "no other active administrator"),
        (("user", "link", "nobody"), 1, "there is no user 'nobody'"),
        (("user", "add", "eve", "--role", "king"), 2, "'king' is not one of"),
    ],
)
def test_what_cannot_be_done_is_said(command: Command, arguments: tuple[str, ...], code: int, says: str) -> None:
    done = command(*arguments)
    assert (done.exit_code, says in done.stderr) == (code, True), done.stderr


def test_commands_on_the_consoles_machine_are_told_with_that_machines_user(command: Command, tmp_path: Path) -> None:
    token = command("token", "create", "--user", "admin", "--scopes", "read").stdout.strip()
    command("user", "add", "ann")
    command("user", "team", "ann", "ml")
    command("quota", "set", "--user", "ann", "--gpus", "4")
    command("quota", "rm", "--user", "ann")
    (file,) = tmp_path.rglob("ledger.db")
    ledger = Database(file, "ledger")
    try:
        entries = ledger.read_now(lambda c: list_acts(c, Asked(), 100))
    finally:
        ledger.close()
    assert {(one.user, one.via) for one in entries} == {(getpass.getuser(), "command")}
    assert [one.act for one in reversed(entries)] == [
        *("user_added", "link_made", "token_made", "user_added", "link_made", "user_team", "quota_set", "quota_removed")
    ]
    assert all(token not in one.what for one in entries)

"""A console that is killed between sealing a value and keeping it leaves a key that the next one goes on with."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.tests.clocks import HandClock
from server.tests.databases import open_database, read_stored
from starforge.contract.launch import Secret
from starforge_console.accounts.secrets import UserSecrets
from starforge_console.accounts.vault import Vault, open_vault
from starforge_console.ledger.accounts import Account, add_user
from starforge_console.ledger.database import Database
from starforge_console.ledger.sealed import list_sealed
from starforge_console.ledger.secrets import list_secrets

VALUE = "hf_a-value-of-a-user"

SEAL_AND_HANG = """
import asyncio, sys, threading
from pathlib import Path
from server.tests.clocks import HandClock
from starforge.contract.launch import Secret
from starforge_console.accounts.secrets import UserSecrets
from starforge_console.accounts.vault import open_vault
from starforge_console.ledger.accounts import Account
from server.tests.databases import place_of
from starforge_console.ledger.database import Database

root = Path(sys.argv[1])
ledger = Database(place_of(root / "ledger.db"), "ledger")
held = threading.Event()

def hold(connection):
    print("held", flush=True)
    held.wait()

async def put():
    # The ledger's one writer is busy: what is sealed waits to be kept.
    asyncio.ensure_future(ledger.write(hold))
    await asyncio.sleep(0)
    ann = Account(user_id=1, user="ann", role="member", active=True, scopes=frozenset(), expires_at=1e12)
    vault = open_vault(root / "vault-key", ledger)
    await UserSecrets(ledger, vault, HandClock()).put(ann, "HF_TOKEN", Secret(sys.argv[2]))

asyncio.run(put())
"""


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Database]:
    made = open_database(tmp_path, "ledger")
    try:
        made.write_now(lambda c: add_user(c, "ann", "member", 1.0))
        yield made
    finally:
        made.close()


def kill_while_it_seals(root: Path) -> None:
    """Run a process that seals a value and cannot keep it, and kill it once there is a key."""
    arguments = [sys.executable, "-c", SEAL_AND_HANG, str(root), VALUE]
    key = root / "vault-key"
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"held\n"
            watch = subprocess.run(
                ["sh", "-c", 'for _ in $(seq 300); do [ -e "$0" ] && exit 0; sleep 0.05; done; exit 1', str(key)],
                check=False,
            )
            assert watch.returncode == 0
        finally:
            os.kill(process.pid, signal.SIGKILL)


def put(ledger: Database, vault: Vault, name: str) -> None:
    ann = Account(user_id=1, user="ann", role="member", active=True, scopes=frozenset(), expires_at=1e12)
    asyncio.run(UserSecrets(ledger, vault, HandClock()).put(ann, name, Secret(VALUE)))


def test_a_first_key_that_sealed_nothing_that_was_kept_serves_the_next_console(
    ledger: Database, tmp_path: Path
) -> None:
    kill_while_it_seals(tmp_path)
    key = (tmp_path / "vault-key").read_bytes()
    assert ledger.read_now(lambda c: list_secrets(c, 1)) == []
    vault = open_vault(tmp_path / "vault-key", ledger)
    put(ledger, vault, "HF_TOKEN")
    assert (tmp_path / "vault-key").read_bytes() == key
    (row,) = ledger.read_now(list_sealed)
    assert vault.unseal(row.sealed, bound_to=row.bound_to).reveal() == VALUE
    assert sorted(file.name for file in tmp_path.iterdir() if "vault" in file.name) == ["vault-key"]


def test_what_was_kept_before_a_kill_opens_after_it(ledger: Database, tmp_path: Path) -> None:
    vault = open_vault(tmp_path / "vault-key", ledger)
    put(ledger, vault, "KEPT")
    kill_while_it_seals(tmp_path)
    assert [one.name for one in ledger.read_now(lambda c: list_secrets(c, 1))] == ["KEPT"]
    assert not vault.list_unreadable()
    put(ledger, vault, "ANOTHER")
    assert not vault.list_unreadable()


def test_a_value_that_waits_to_be_kept_is_in_no_file(ledger: Database, tmp_path: Path) -> None:
    kill_while_it_seals(tmp_path)
    assert ledger.read_now(list_sealed) == []
    assert VALUE.encode() not in read_stored(tmp_path)
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and VALUE.encode() in file.read_bytes()]

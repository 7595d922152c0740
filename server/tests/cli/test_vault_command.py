"""A key of the vault that is lost for good: what it sealed is listed and given up from the console's machine."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.support.owned import MEMORY, owned_folder
from server.tests.cli.test_console_command import Command
from server.tests.clocks import HandClock
from starforge.contract.launch import RegistryLogin, Secret
from starforge.errors import StarForgeError
from starforge_console.accounts.registry_logins import RegistryLogins
from starforge_console.accounts.secrets import UserSecrets
from starforge_console.accounts.vault import KEY_FILE, Vault, open_vault
from starforge_console.errors import SealBroken, VaultKeyLost
from starforge_console.ledger.accounts import Account
from starforge_console.ledger.database import Database
from starforge_console.ledger.webhooks import NewWebhook, add_webhook, binding_of, load_webhook

URL = "https://hooks.example.org/"
REGISTRY = "registry.test"
FORGET = ("vault", "forget-unreadable")


@dataclass
class Kept:
    command: Command
    ledger: Database
    vault: Vault
    logins: RegistryLogins
    ann: Account

    @property
    def key(self) -> Path:
        return self.command.state / KEY_FILE

    def put_secret(self, name: str) -> None:
        asyncio.run(UserSecrets(self.ledger, self.vault, HandClock()).put(self.ann, name, Secret("value-of-" + name)))


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    """An install whose user ann has a secret and a webhook, and which signs in to a registry."""
    with owned_folder(MEMORY) as secrets:
        command = Command(tmp_path, secrets)
        assert command("init").exit_code == 0
        assert command("user", "add", "ann").exit_code == 0
        ledger = Database(command.state / "ledger.db", "ledger")
        try:
            vault = open_vault(command.state / KEY_FILE, ledger)
            ann = Account(user_id=2, user="ann", role="member", scopes=frozenset(), active=True, expires_at=1e12)
            made = Kept(command, ledger, vault, RegistryLogins(ledger, vault, HandClock()), ann)
            made.put_secret("HF_TOKEN")
            asyncio.run(made.logins.put(REGISTRY, RegistryLogin(username="puller", password=Secret("pw")), "admin"))
            sealed = vault.seal(Secret("hook"), bound_to=binding_of(2, URL))
            hook = NewWebhook(user_id=2, url=URL, events=(), project=None, jobs="own", sealed=sealed)
            ledger.write_now(lambda c: add_webhook(c, hook, 10, 1.0))
            yield made
        finally:
            ledger.close()


def test_with_the_right_key_nothing_is_listed_and_nothing_given_up(kept: Kept) -> None:
    done = kept.command(*FORGET, "--apply")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "opens everything" in done.stderr
    kept.put_secret("ANOTHER")


@pytest.mark.parametrize("key", [None, b"k" * 32])
def test_what_a_lost_key_sealed_is_listed_and_stays_until_it_is_to_go(kept: Kept, key: bytes | None) -> None:
    right = kept.key.read_bytes()
    kept.key.unlink() if key is None else kept.key.write_bytes(key)
    done = kept.command(*FORGET)
    assert (done.exit_code, done.stdout.splitlines()) == (
        0,
        ["secret HF_TOKEN of ann", "login of puller for registry registry.test", "webhook 1 of ann"],
    )
    assert "nothing was changed" in done.stderr
    with pytest.raises(VaultKeyLost, match="3 values sealed that only the old key opens"):
        kept.put_secret("ANOTHER")
    kept.key.write_bytes(right)
    kept.put_secret("ANOTHER")
    assert not kept.vault.list_unreadable()


@pytest.mark.parametrize("key", [None, b"k" * 32])
def test_once_it_is_given_up_a_running_console_seals_again(kept: Kept, key: bytes | None) -> None:
    kept.key.unlink() if key is None else kept.key.write_bytes(key)
    assert kept.command(*FORGET, "--apply").exit_code == 0
    kept.put_secret("HF_TOKEN")
    assert asyncio.run(kept.logins.find_login(REGISTRY)) is None
    hook = kept.ledger.read_now(lambda c: load_webhook(c, 1))
    assert (hook.disabled_at is not None, "add it anew" in hook.disabled_why) == (True, True)
    with pytest.raises(SealBroken, match="given up"):
        kept.vault.unseal(hook.sealed, bound_to=hook.bound_to)
    assert not kept.vault.list_unreadable()


def test_a_key_that_cannot_be_used_now_gives_nothing_up(kept: Kept) -> None:
    right = kept.key.read_bytes()
    kept.key.write_bytes(right[:5])
    done = kept.command(*FORGET, "--apply")
    assert done.exit_code == 1
    assert "holds 5 bytes" in done.stderr
    kept.key.write_bytes(right)
    assert asyncio.run(_find(kept)) == "pw"


async def _find(kept: Kept) -> str:
    login = await kept.logins.find_login(REGISTRY)
    if login is None:
        raise StarForgeError("no login")
    return login.password.reveal()

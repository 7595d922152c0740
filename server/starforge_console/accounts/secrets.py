"""Users' own secrets: set, listed by name, removed. No value ever comes back out of here."""

import asyncio

import structlog

from starforge.contract.launch import Secret
from starforge.contract.secrets import SECRETS_OF_A_USER, check_name, check_value
from starforge.errors import NotFound
from starforge.said.sentence import say
from starforge_console.accounts.vault import Vault
from starforge_console.clock import Clock
from starforge_console.domain.nearest import say_nearest
from starforge_console.ledger.accounts import Account
from starforge_console.ledger.database import Database
from starforge_console.ledger.secrets import (
    SealedSecret,
    SecretRecord,
    binding_of,
    drop_secret,
    list_secrets,
    put_secret,
)

_log = structlog.get_logger("secrets")


class UserSecrets:
    """The secrets of every user; each sees and changes its own alone."""

    def __init__(self, ledger: Database, vault: Vault, clock: Clock) -> None:
        self._ledger = ledger
        self._vault = vault
        self._clock = clock

    async def put(self, account: Account, name: str, value: Secret) -> SecretRecord:
        """Keep `value` under `name`, in place of what was there.

        Raises:
            InputError: no secret may have that name or value.
            Conflict: the account has as many as a user may have.
            VaultUnusable: the key cannot be read or made.

        """
        check_name(name)
        check_value(name, value.reveal())
        bound_to = binding_of(account.user_id, name)
        sealed = await asyncio.to_thread(lambda: self._vault.seal(value, bound_to=bound_to))
        kept = SealedSecret(user_id=account.user_id, name=name, set_at=self._clock.now(), sealed=sealed)
        await self._ledger.write(lambda c: put_secret(c, kept, SECRETS_OF_A_USER))
        _log.info("a secret was set", user=account.user, name=name)
        return SecretRecord(name=name, set_at=kept.set_at)

    async def list_for(self, account: Account) -> list[SecretRecord]:
        """The account's secrets, by name."""
        return list(await self._ledger.read(lambda c: list_secrets(c, account.user_id)))

    async def remove(self, account: Account, name: str) -> None:
        """Forget a secret; jobs that run keep what they were given. Raises NotFound with the nearest name."""
        if not await self._ledger.write(lambda c: drop_secret(c, account.user_id, name)):
            names = [one.name for one in await self.list_for(account)]
            raise NotFound(
                say("form.no_secret", name=f"{name!r:.80}"),
                next_step=say_nearest(name, names) if names else say("form.no_secret_next"),
            )
        _log.info("a secret was removed", user=account.user, name=name)

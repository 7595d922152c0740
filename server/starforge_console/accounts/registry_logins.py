"""How this console signs in to registries of images: kept by administrators, sealed, used and never shown again."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog

from starforge.contract.launch import RegistryLogin
from starforge.contract.registries import LONGEST_PASSWORD
from starforge.errors import InputError, NotFound
from starforge.said.sentence import say
from starforge_console.accounts.vault import Vault
from starforge_console.clock import Clock
from starforge_console.domain.images import parse_registry
from starforge_console.errors import SealBroken, VaultUnusable
from starforge_console.ledger.audit import audited
from starforge_console.ledger.database import Database
from starforge_console.ledger.registry_credentials import (
    RegistryCredential,
    binding_of_login,
    list_credentials,
    put_credential,
    remove_credential,
)

_LONGEST_NAME: Final = 255

_log = structlog.get_logger("registries")


class RegistryLogins:
    """The logins of one console; what is set counts for the next question and the next launch."""

    def __init__(self, ledger: Database, vault: Vault, clock: Clock) -> None:
        self._ledger = ledger
        self._vault = vault
        self._clock = clock
        self._changed: Callable[[str], None] = lambda _registry: None
        self._kept: Mapping[str, RegistryCredential] = {}

    async def load(self) -> None:
        """Read what is kept."""
        self._kept = {one.registry: one for one in await self._ledger.read(list_credentials)}

    def tell(self, changed: Callable[[str], None]) -> None:
        """Tell `changed` of each registry whose login changes from now on."""
        self._changed = changed

    def list_kept(self) -> Sequence[RegistryCredential]:
        """All of them, by registry."""
        return list(self._kept.values())

    def has_login(self, registry: str) -> bool:
        """Whether there is a login for the registry."""
        return registry in self._kept

    async def find_login(self, registry: str) -> RegistryLogin | None:
        """The login for the registry, or None. Raises SealBroken, VaultUnusable."""
        try:
            return await self._find_opened(registry)
        except (SealBroken, VaultUnusable) as error:
            _log.error("a login of a registry cannot be used", registry=registry, why=error.why, next=error.next_step)
            raise

    async def put(self, registry: str, login: RegistryLogin, by: str) -> RegistryCredential:
        """Keep the login; one that was kept for the registry before is replaced.

        Raises:
            InputError: registry, name or password cannot be one.
            VaultUnusable: nothing can be sealed now.

        """
        named = parse_registry(registry)
        _check(login)
        sealed = await asyncio.to_thread(
            self._vault.seal, login.password, bound_to=binding_of_login(named, login.username)
        )
        kept = RegistryCredential(
            registry=named, username=login.username, sealed=sealed, set_at=self._clock.now(), set_by=by
        )
        told = say("did.registry_set", registry=named, name=login.username)
        await self._ledger.write(audited(lambda c: put_credential(c, kept), told))
        _log.info("a login of a registry was set", registry=named, username=login.username, user=by)
        await self._reload(named)
        return kept

    async def remove(self, registry: str, by: str) -> None:
        """Forget the login of the registry. Raises InputError, NotFound."""
        named = parse_registry(registry)
        told = say("did.registry_removed", registry=named)
        removing = audited(lambda c: remove_credential(c, named), lambda done: told if done else None)
        if not await self._ledger.write(removing):
            raise NotFound(say("form.no_login", registry=str(named)), next_step=say("form.no_login_next"))
        _log.info("a login of a registry was removed", registry=named, user=by)
        await self._reload(named)

    async def _find_opened(self, registry: str) -> RegistryLogin | None:
        try:
            return await self._open(registry)
        except SealBroken:
            await self.load()  # it may have been given up meanwhile, by a command beside this process
            return await self._open(registry)

    async def _open(self, registry: str) -> RegistryLogin | None:
        kept = self._kept.get(registry)
        if kept is None:
            return None
        bound_to = binding_of_login(registry, kept.username)
        password = await asyncio.to_thread(self._vault.unseal, kept.sealed, bound_to=bound_to)
        return RegistryLogin(username=kept.username, password=password)

    async def _reload(self, registry: str) -> None:
        await self.load()
        self._changed(registry)


def _check(login: RegistryLogin) -> None:
    name, password = login.username, login.password.reveal()
    if not name or len(name) > _LONGEST_NAME or ":" in name or not name.isprintable():
        raise InputError(
            say("form.no_login_name", name=f"{name!r:.80}"),
            why=say("form.no_login_name_why", most=_LONGEST_NAME),
            next_step=say("form.no_login_name_next"),
        )
    if not password or len(password) > LONGEST_PASSWORD or not password.isprintable():
        # What it is stays unsaid.
        raise InputError(
            say("form.no_password"),
            why=say("form.no_password_why", most=LONGEST_PASSWORD),
            next_step=say("form.no_password_next"),
        )

"""What the tests of questions to registries share: who asks, and logins that are there without a ledger."""

import asyncio
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from server.tests.clocks import HandClock
from starforge.contract.launch import RegistryLogin, Secret
from starforge.trust.resolving import Address
from starforge_console.domain.images import ImageAnswer
from starforge_console.registries.asking import Registries
from starforge_console.registries.leads import Resolve
from starforge_console.settings.registries import RegistrySettings

LOGIN = RegistryLogin(username="puller", password=Secret("a-long-password"))
DIGEST = "sha256:" + "1" * 64
OTHER_DIGEST = "sha256:" + "2" * 64


@dataclass
class Logins:
    """Logins by registry."""

    kept: Mapping[str, RegistryLogin] = field(default_factory=dict)

    async def find_login(self, registry: str) -> RegistryLogin | None:
        return self.kept.get(registry)

    def has_login(self, registry: str) -> bool:
        return registry in self.kept


async def resolve_nothing(host: str, port: int) -> Sequence[Address]:
    """No name but an address says where it lies, as on a machine whose proxy alone resolves names."""
    del port
    try:
        return [ipaddress.ip_address(host)]
    except ValueError as error:
        raise OSError(str(error)) from error


def build_registries(
    login: Mapping[str, RegistryLogin] | None = None,
    clock: HandClock | None = None,
    resolve: Resolve = resolve_nothing,
    **settings: Any,
) -> Registries:
    return Registries(RegistrySettings(**settings), Logins(login or {}), clock or HandClock(), resolve)


def ask(image: str, login: Mapping[str, RegistryLogin] | None = None, **settings: Any) -> ImageAnswer | None:
    """What becomes of one question; settings may hold `resolve` too."""
    return asyncio.run(build_registries(login, **settings).ask(image))

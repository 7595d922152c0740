"""What the tests of questions to registries share: who asks, and logins that are there without a ledger."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from server.tests.clocks import HandClock
from starforge.contract.launch import RegistryLogin, Secret
from starforge_console.domain.images import ImageAnswer
from starforge_console.registries.asking import Registries
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


def build_registries(
    login: Mapping[str, RegistryLogin] | None = None, clock: HandClock | None = None, **settings: Any
) -> Registries:
    return Registries(RegistrySettings(**settings), Logins(login or {}), clock or HandClock())


def ask(image: str, login: Mapping[str, RegistryLogin] | None = None, **settings: Any) -> ImageAnswer | None:
    """What becomes of one question."""
    return asyncio.run(build_registries(login, **settings).ask(image))

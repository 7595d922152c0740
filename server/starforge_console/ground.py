"""What every part of the console stands on: its databases, its clock, and what is one for the whole process."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry

from starforge_console.accounts.registry_logins import RegistryLogins
from starforge_console.accounts.vault import KEY_FILE as VAULT_KEY_FILE
from starforge_console.accounts.vault import Vault, open_vault
from starforge_console.assembly.capsule import store_runner
from starforge_console.assembly.layout import StorageLayout
from starforge_console.assembly.secrets import AttemptSecrets
from starforge_console.clock import SystemClock
from starforge_console.errors import VaultUnusable
from starforge_console.fleets.directory import Directory
from starforge_console.fleets.hardware import HardwareRegistry
from starforge_console.fleets.install import Install, load_install, locate, prepare_state
from starforge_console.inputs.hub import Hub
from starforge_console.ledger.database import Database
from starforge_console.registries.asking import Registries
from starforge_console.settings.console import ConsoleSettings
from starforge_console.telemetry.metrics import LoopFigures
from starforge_console.wakeups import Wakeups

_log = structlog.get_logger("vault")
_databases_log = structlog.get_logger("console")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What everything else stands on."""

    settings: ConsoleSettings
    storage: StorageLayout
    ledger: Database
    series: Database
    clock: SystemClock
    wakeups: Wakeups
    registry: CollectorRegistry
    loops: LoopFigures
    install: Install
    hardware: HardwareRegistry
    directory: Directory
    hub: Hub
    runner: Path
    vault: Vault
    secrets: AttemptSecrets
    registry_logins: RegistryLogins
    registries: Registries


@contextlib.asynccontextmanager
async def open_ground(settings: ConsoleSettings) -> AsyncIterator[Ground]:
    """Open the databases of an install and read what changes while it serves; both are closed in the end."""
    state_dir = settings.paths.console_state_dir
    prepare_state(settings)
    wakeups = Wakeups()
    wakeups.bind()
    ledger = Database(locate(settings, "ledger"), "ledger", lead_lost=_end)
    series = Database(locate(settings, "series"), "series", lead_lost=_end)
    figures = CollectorRegistry()
    clock, vault = SystemClock(), open_vault(state_dir / VAULT_KEY_FILE, ledger)
    try:
        hardware, directory = HardwareRegistry(ledger, clock), Directory(ledger, clock)
        await hardware.load()
        await directory.load()
        logins = RegistryLogins(ledger, vault, clock)
        await logins.load()
        registries = Registries(settings.registry, logins, clock)
        logins.tell(registries.forget)
        await asyncio.to_thread(_check_vault, vault)
        yield Ground(
            settings=settings,
            storage=StorageLayout(settings.storage_root),
            ledger=ledger,
            series=series,
            clock=clock,
            wakeups=wakeups,
            registry=figures,
            loops=LoopFigures(figures),
            install=load_install(ledger, settings.storage_root),
            hardware=hardware,
            directory=directory,
            hub=Hub(settings.hub, clock),
            runner=store_runner(StorageLayout(settings.storage_root)),
            vault=vault,
            secrets=AttemptSecrets(ledger, vault, clock),
            registry_logins=logins,
            registries=registries,
        )
    finally:
        ledger.close()
        series.close()


def _end() -> None:
    """Another console leads: what this one remembers is past, and it writes no more."""
    _databases_log.error("another console leads the database: this one ends")
    os.kill(os.getpid(), signal.SIGTERM)


def _check_vault(vault: Vault) -> None:
    """Say at the start what would otherwise show at somebody's launch; without the vault all else is served."""
    try:
        vault.check()
    except VaultUnusable as error:
        _log.error(error.what, why=error.why, next_step=error.next_step)

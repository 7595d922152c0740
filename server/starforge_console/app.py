"""The composition root: builds every object of the console, starts the loops and serves. Only it knows them all."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final, NamedTuple

import structlog
import uvloop

from starforge.contract.ids import AttemptId
from starforge.recipes.catalog import load_catalog
from starforge.recipes.model import Recipe
from starforge_console.accounts.secrets import UserSecrets
from starforge_console.accounts.sign_in import Accounts
from starforge_console.admission.admit import Admission
from starforge_console.admission.published import build_published
from starforge_console.admission.snapshot import AdmissionSources
from starforge_console.admission.sweeps import SweepAdmission
from starforge_console.assembling import build_assembler, load_token_key
from starforge_console.assembly.assembler import Assembler
from starforge_console.assembly.tokens import attempt_token
from starforge_console.backends import Backends
from starforge_console.blobs.store import BlobStore
from starforge_console.diagnosis.diagnoser import DiagnosedRecords, Diagnoser
from starforge_console.domain.retention import Kind
from starforge_console.fleets.administration import Administration, AdministrationParts
from starforge_console.fleets.console_key import KEY_FILE
from starforge_console.fleets.install import require_ledger
from starforge_console.fleets.readiness import load_job_user
from starforge_console.fleets.registration import JoinTerms, Registration, RegistrationParts
from starforge_console.fleets.rehearsals import Rehearsals
from starforge_console.fleets.served import ServedFleets
from starforge_console.fleets.views import KnownFleets
from starforge_console.ground import Ground, open_ground
from starforge_console.ingest.backfill import Backfill
from starforge_console.ingest.bounds import Bounds
from starforge_console.ingest.curves import Curves
from starforge_console.ingest.finalise import Finaliser
from starforge_console.ingest.logs import Logs
from starforge_console.ingest.masking import Masker
from starforge_console.ingest.presence import Presence
from starforge_console.ingest.receive import Receiver
from starforge_console.ingest.streams import Stores
from starforge_console.ingest.tokens import IngestTokens
from starforge_console.inputs.cache import HubCache
from starforge_console.inputs.shelf import Shelf, ShelfParts
from starforge_console.inputs.stored import StoredInputs
from starforge_console.jobs.deleted import DeletedRuns
from starforge_console.ledger.database import lock_state
from starforge_console.retention.collector import Collector, CollectorParts
from starforge_console.retention.disk import Disk
from starforge_console.scheduler.control import Scheduler
from starforge_console.scheduler.deps import SchedulerDeps
from starforge_console.scheduler.explain import Explainer
from starforge_console.scheduler.loop import Loop
from starforge_console.settings.console import ConsoleSettings
from starforge_console.telemetry.metrics import IngestCounters
from starforge_console.wakeups import DELETIONS, INPUTS, JOBS, RETENTION, WEBHOOKS
from starforge_console.web.api import build_api
from starforge_console.web.deps import ApiServices
from starforge_console.web.fleet_views import FleetServices
from starforge_console.web.ingest import IngestServices, build_ingest
from starforge_console.web.nodes import build_desk
from starforge_console.web.server import Listening, serve
from starforge_console.webhooks.dispatcher import Dispatcher
from starforge_console.webhooks.registration import Webhooks
from starforge_console.webhooks.sending import Sender, WebhookParts

BACKFILL_TOPIC: Final = "backfill"

_log = structlog.get_logger("console")


def run(settings: ConsoleSettings) -> int:
    """Serve until SIGTERM or SIGINT; gives the exit code.

    Raises:
        SettingsError: the console cannot start like this.

    """
    with contextlib.closing(_StateLock(settings)):
        uvloop.run(_run(settings))
    return 0


class _StateLock:
    def __init__(self, settings: ConsoleSettings) -> None:
        require_ledger(settings)
        self._descriptor = lock_state(settings.paths.console_state_dir)

    def close(self) -> None:
        os.close(self._descriptor)


class _Backing(NamedTuple):
    """The fleets' executors, what they said last, and who makes attempts ready for them."""

    served: ServedFleets
    known: KnownFleets
    assembler: Assembler


async def _run(settings: ConsoleSettings) -> None:
    async with open_ground(settings) as ground:
        served = ServedFleets(ground.ledger, _build_backends(ground).build, ground.wakeups, ground.clock)
        await served.load()
        known = KnownFleets(served)
        counters = IngestCounters(ground.registry)
        stores = _build_stores(ground)
        receiver = Receiver(stores, ground.wakeups, ground.clock, counters)
        presence = Presence(ground.clock)
        diagnoser = Diagnoser(ledger=ground.ledger, logs=Logs(stores), clock=ground.clock)
        records = DiagnosedRecords(Finaliser(receiver, stores, ground.storage, ground.clock, served), diagnoser)
        shelf = _build_shelf(ground)
        backing = _Backing(served, known, build_assembler(ground, served.fleets, shelf.find_refusal))
        deps = _scheduler_deps(ground, backing, records, shelf)
        scheduler, explainer = Scheduler(deps), Explainer(deps.snapshot_sources, known.views)
        fleet_services = _fleet_services(ground, served)
        desk = build_desk(_build_registration(ground), ground.clock)
        services, dispatcher = _api_services(ground, backing, stores, presence, explainer), _build_dispatcher(ground)
        api = build_api(services, fleet_services, desk)
        ingest = build_ingest(
            IngestServices(
                receiver=receiver,
                tokens=IngestTokens(ground.ledger, ground.clock),
                presence=presence,
                wakeups=ground.wakeups,
                counters=counters,
            )
        )
        backfill = Backfill(receiver, stores, ground.storage, presence)
        deleted = DeletedRuns(ground.storage, services.blobs)
        loops = (
            Loop("backfill", BACKFILL_TOPIC, ground.wakeups, backfill.run_once, ground.loops),
            Loop("deletions", DELETIONS, ground.wakeups, deleted.run_once, ground.loops),
            Loop("inputs", INPUTS, ground.wakeups, shelf.run_once, ground.loops),
            Loop("retention", RETENTION, ground.wakeups, services.retention.run_once, ground.loops),
            Loop("webhooks", (JOBS, WEBHOOKS), ground.wakeups, dispatcher.run_once, ground.loops),
        )
        try:
            async with _running(scheduler, served, loops) as start:
                await serve(api, ingest, settings.http, start, asyncio.Event())
        finally:
            deleted.close()
            await dispatcher.close()
            await shelf.close()
            await fleet_services.administration.close()
            await receiver.close()  # what it has begun is finished before the databases close


@contextlib.asynccontextmanager
async def _running(scheduler: Scheduler, served: ServedFleets, loops: Sequence[Loop]) -> AsyncIterator["_Start"]:
    start = _Start(scheduler, served, loops)
    try:
        yield start
    finally:
        await start.close()


class _Start:
    """Starts the loops once both addresses listen: what a job reports at once must find somebody."""

    def __init__(self, scheduler: Scheduler, served: ServedFleets, loops: Sequence[Loop]) -> None:
        self._scheduler = scheduler
        self._served = served
        self._loops = loops
        self._tasks: list[asyncio.Task[None]] = []

    async def __call__(self, listening: Listening) -> None:
        await self._scheduler.start()
        self._served.begin()
        self._tasks += [asyncio.create_task(loop.run()) for loop in self._loops]
        _log.info("ready", api_port=listening.api_port, ingest_port=listening.ingest_port)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._scheduler.close()


def _build_backends(ground: Ground) -> Backends:
    return Backends(
        settings=ground.settings,
        install=ground.install,
        storage=ground.storage,
        directory=ground.directory,
        hardware=ground.hardware,
    )


def _build_registration(ground: Ground) -> Registration:
    settings = ground.settings
    terms = JoinTerms(
        install=ground.install.id,
        storage_root=str(ground.storage.root),
        storage_id=ground.install.storage_id,
        ingest_url=settings.http.ingest_url,
        job_user=load_job_user(settings),
        key_file=settings.paths.console_state_dir / KEY_FILE,
        heartbeat_s=settings.node.node_heartbeat_s,
    )
    return Registration(
        RegistrationParts(
            ledger=ground.ledger,
            directory=ground.directory,
            hardware=ground.hardware,
            terms=terms,
            clock=ground.clock,
            wakeups=ground.wakeups,
        )
    )


def _fleet_services(ground: Ground, served: ServedFleets) -> FleetServices:
    administration = Administration(
        AdministrationParts(
            ledger=ground.ledger,
            directory=ground.directory,
            fleets=served,
            clock=ground.clock,
            wakeups=ground.wakeups,
        )
    )
    return FleetServices(
        ledger=ground.ledger,
        fleets=served,
        directory=ground.directory,
        hardware=ground.hardware,
        administration=administration,
    )


def _build_stores(ground: Ground) -> Stores:
    policy, key = ground.settings.policy, load_token_key(ground)

    async def find_words(attempt: AttemptId) -> Sequence[str]:
        return (attempt_token(key, attempt), *await ground.secrets.find_words(attempt))

    return Stores(
        ledger=ground.ledger,
        series=ground.series,
        logs_dir=ground.settings.paths.console_state_dir / "logs",
        masker=Masker(find_words),
        bounds=Bounds(log_max_bytes=policy.log_max_bytes, reserve_bytes=policy.state_reserve_bytes),
    )


def _scheduler_deps(ground: Ground, backing: _Backing, records: DiagnosedRecords, shelf: Shelf) -> SchedulerDeps:
    return SchedulerDeps(
        ledger=ground.ledger,
        executors=backing.served,
        assembly=backing.assembler,
        records=records,
        wakeups=ground.wakeups,
        clock=ground.clock,
        views_seen=backing.known.note,
        find_series=backing.known.find_series,
        figures=ground.loops,
        explain_inputs=shelf.explain_missing,
        reconcile_s=ground.settings.policy.reconcile_s,
        container_retention_s=ground.settings.policy.container_retention_s,
    )


def _api_services(
    ground: Ground, backing: _Backing, stores: Stores, presence: Presence, explainer: Explainer
) -> ApiServices:
    settings = ground.settings
    catalog = build_published(load_catalog(), settings.policy.methods)
    blobs = BlobStore(ground.storage.root, settings.policy.workspace_max_bytes, ground.install.storage_id)
    sources = AdmissionSources(
        ledger=ground.ledger,
        blobs=blobs,
        fleets=backing.known,
        rehearsals=Rehearsals(backing.served, backing.assembler.build_trial),
        catalog=catalog,
        image_allow=settings.policy.image_allow,
        images=ground.registries,
        image_unanswered="refuse" if settings.registry.image_resolve == "refuse" else "warn",
        hub=ground.hub,
        hub_unanswered=settings.hub.hf_unanswered,
        stored=StoredInputs(ground.storage, settings.data_roots, ground.ledger),
        clock=ground.clock,
        wakeups=ground.wakeups,
    )
    curves = Curves(ground.series)
    disk = Disk(ground.storage, stores.logs_dir)
    return ApiServices(
        ledger=ground.ledger,
        series=ground.series,
        logs=Logs(stores),
        curves=curves,
        presence=presence,
        retention=_build_collector(ground, blobs, disk, curves, catalog),
        blobs=blobs,
        accounts=Accounts(ground.ledger, ground.clock),
        admission=Admission(sources),
        sweeps=SweepAdmission(sources),
        registry_logins=ground.registry_logins,
        secrets=UserSecrets(ground.ledger, ground.vault, ground.clock),
        catalog=catalog,
        views=backing.known.views,
        explainer=explainer,
        find_native=backing.known.find_native,
        clock=ground.clock,
        wakeups=ground.wakeups,
        settings=settings,
        metrics=ground.registry,
        webhooks=Webhooks(_webhook_parts(ground)),
    )


def _build_shelf(ground: Ground) -> Shelf:
    """What keeps the inputs that the console fetches."""
    return Shelf(
        ShelfParts(
            ledger=ground.ledger,
            storage=ground.storage,
            storage_id=ground.install.storage_id,
            hub=ground.hub,
            settings=ground.settings.hub,
            wakeups=ground.wakeups,
            clock=ground.clock,
        )
    )


def _build_dispatcher(ground: Ground) -> Dispatcher:
    return Dispatcher(_webhook_parts(ground), ground.settings.webhooks, ground.settings.http.public_url)


def _webhook_parts(ground: Ground) -> WebhookParts:
    sender = Sender(ground.settings.webhooks, ground.clock)
    return WebhookParts(
        ledger=ground.ledger, vault=ground.vault, sender=sender, clock=ground.clock, wakeups=ground.wakeups
    )


def _build_collector(
    ground: Ground, blobs: BlobStore, disk: Disk, curves: Curves, catalog: Mapping[str, Recipe]
) -> Collector:
    kept = ground.settings.retention
    return Collector(
        CollectorParts(
            ledger=ground.ledger,
            series=ground.series,
            blobs=blobs,
            disk=disk,
            curves=curves,
            catalog=catalog,
            terms=kept.build_terms(ground.settings.policy.container_retention_s),
            clock=ground.clock,
            wakeups=ground.wakeups,
            runner=f"sha256:{ground.runner.name}",
            period_s=kept.retention_period_s,
            works_alone=kept.retention == "on",
            more={Kind.MODEL: HubCache(ground.storage, ground.ledger, ground.settings.hub.hf_cache_max_bytes)},
        )
    )

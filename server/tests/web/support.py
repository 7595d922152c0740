"""A console's API over a real ledger in a temporary folder, with fleets and logs that a test lays out by hand."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from sqlalchemy import Connection, update
from starlette.testclient import TestClient

from server.tests.databases import open_database
from server.tests.web.fleets import build_fleets
from starforge.containers.storage import MARK_FILE
from starforge.contract.canonical import digest_bytes
from starforge.contract.executor import Capabilities, FleetView, NodeView
from starforge.contract.ids import AttemptId, JobId
from starforge.contract.jobspec import JobSpec
from starforge.contract.launch import Network, PoolRequest
from starforge.recipes.catalog import load_catalog
from starforge_console.accounts.registry_logins import RegistryLogins
from starforge_console.accounts.secrets import UserSecrets
from starforge_console.accounts.sign_in import Accounts
from starforge_console.accounts.tokens import make_personal_token, make_sign_in_code
from starforge_console.accounts.vault import Vault, open_vault
from starforge_console.admission.admit import Admission
from starforge_console.admission.published import build_published
from starforge_console.admission.snapshot import AdmissionSources
from starforge_console.admission.sweeps import SweepAdmission
from starforge_console.assembly.layout import StorageLayout
from starforge_console.blobs.places import locate_blob
from starforge_console.blobs.store import BlobStore
from starforge_console.clock import SystemClock
from starforge_console.domain.images import ImageAnswer
from starforge_console.domain.inputs import HubAnswer, HubRef, HubStanding
from starforge_console.domain.roles import scopes_of_role
from starforge_console.ingest.curves import Curves
from starforge_console.ingest.logs import LinePlace, LogPart
from starforge_console.ingest.presence import Presence
from starforge_console.inputs.stored import StoredInputs
from starforge_console.ledger.accounts import add_token, add_user
from starforge_console.ledger.database import Database
from starforge_console.ledger.fleets import Fleet, add_fleet
from starforge_console.ledger.pools import write_pools
from starforge_console.ledger.tables import jobs
from starforge_console.ledger.views import load_documents
from starforge_console.retention.collector import Collector, CollectorParts
from starforge_console.retention.disk import Disk
from starforge_console.scheduler.deps import SnapshotSources
from starforge_console.scheduler.explain import Explainer
from starforge_console.settings.console import (
    ConsoleSettings,
    HttpSettings,
    LocalSettings,
    PathSettings,
    PolicySettings,
)
from starforge_console.settings.webhooks import WebhookSettings
from starforge_console.wakeups import Wakeups
from starforge_console.web.api import build_api
from starforge_console.web.deps import ApiServices
from starforge_console.web.fleet_views import FleetServices
from starforge_console.webhooks.registration import Webhooks
from starforge_console.webhooks.sending import Sender, WebhookParts

STORAGE_ID = "0123456789abcdef"
WORKSPACE = b"a packed workspace"
ONE_NODE = Capabilities(multi_node=False, pools=False, live_logs=True)


class ShiftedClock(SystemClock):
    """The machine's clocks, moved on by hand."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def now(self) -> float:
        return super().now() + self.ahead_s

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s


@dataclass
class Fleets:
    """What admission is told of executors."""

    capabilities: dict[str, Capabilities] = field(default_factory=lambda: {"local": ONE_NODE})
    views: dict[str, FleetView] = field(default_factory=dict)
    natives: dict[tuple[str, AttemptId], str] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)

    def capabilities_of(self, fleet: str) -> Capabilities | None:
        return self.capabilities.get(fleet)

    def last_view_of(self, fleet: str) -> FleetView | None:
        return self.views.get(fleet)

    async def find_native(self, fleet: str, attempt: AttemptId) -> str | None:
        return self.natives.get((fleet, attempt))

    async def ask(self, spec: JobSpec, owner: str, fleet: str) -> str:
        del spec, owner
        return self.refusals.get(fleet, "")

    def all_views(self) -> Sequence[FleetView]:
        return list(self.views.values())


@dataclass
class ToldHub:
    """A hub that answers what a test has told it; it knows of nothing else."""

    answers: dict[HubRef, HubAnswer] = field(default_factory=dict)
    asked: list[HubRef] = field(default_factory=list)
    endpoint: str = "https://hub.test"

    async def ask(self, ref: HubRef) -> HubAnswer:
        self.asked.append(ref)
        return self.answers.get(ref, HubAnswer(HubStanding.NOT_FOUND, why="404"))


@dataclass
class ToldRegistries:
    """Registries that answer what a test has told them; nobody is asked about any other image."""

    answers: dict[str, ImageAnswer] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def ask(self, image: str) -> ImageAnswer | None:
        self.asked.append(image)
        return self.answers.get(image)


@dataclass(frozen=True)
class Slice:
    content: bytes
    received_to: int
    ended: bool


@dataclass
class Logs:
    """Logs of attempts as a test wrote them."""

    written: dict[str, bytes] = field(default_factory=dict)
    lost: dict[str, tuple[int, int]] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    removed: list[str] = field(default_factory=list)
    nodes: dict[int, "Logs"] = field(default_factory=dict)

    def of_node(self, rank: int) -> "Logs":
        return self if rank == 0 else self.nodes.setdefault(rank, Logs())

    async def read_log(self, attempt: str, from_byte: int, limit_bytes: int) -> Slice:
        whole = self.written.get(attempt, b"")
        return Slice(whole[from_byte : from_byte + limit_bytes], len(whole), attempt in self.ended)

    async def read_part(self, attempt: str, from_byte: int, limit_bytes: int) -> LogPart:
        whole, (begin, end) = self.written.get(attempt, b""), self.lost.get(attempt, (0, 0))
        is_lost = begin <= from_byte < end
        stop = min(begin, from_byte + limit_bytes) if from_byte < begin else from_byte + limit_bytes
        content = b"" if is_lost else whole[from_byte:stop]
        return LogPart(
            content=content,
            next_offset=end if is_lost else from_byte + len(content),
            received_to=len(whole),
            ended=attempt in self.ended,
            gap=(from_byte, end) if is_lost else None,
        )

    async def find_line(self, attempt: str, number: int) -> LinePlace | None:
        whole, at = self.written.get(attempt, b""), 0
        for _ in range(number - 1):
            at = whole.find(b"\n", at) + 1
            if at == 0:
                return None
        begin, end = self.lost.get(attempt, (0, 0))
        return LinePlace(await self.number_of(attempt, end), end) if begin <= at < end else LinePlace(number, at)

    async def number_of(self, attempt: str, offset: int) -> int:
        return self.written.get(attempt, b"")[:offset].count(b"\n") + 1

    async def find_missing(self, attempt: str, produced_bytes: int | None = None) -> tuple[tuple[int, int], ...]:
        here = len(self.written.get(attempt, b""))
        lost = (self.lost[attempt],) if attempt in self.lost else ()
        return (*lost, (here, produced_bytes)) if produced_bytes is not None and produced_bytes > here else lost

    async def remove_logs(self, attempts: Sequence[str]) -> None:
        self.removed += attempts


@dataclass
class ConsoleUnderTest:
    """The application and everything that a test may turn."""

    app: FastAPI
    services: ApiServices
    fleets: Fleets
    logs: Logs
    clock: ShiftedClock
    root: Path
    hub: ToldHub
    registries: ToldRegistries

    @property
    def ledger(self) -> Database:
        return self.services.ledger

    def add_user(self, name: str, role: str = "member", scopes: Sequence[str] | None = None) -> dict[str, str]:
        """A new user's headers."""
        now = self.clock.now()
        user_id = self.ledger.write_now(lambda c: add_user(c, name, role, now))
        return self.add_token(user_id, scopes_of_role(role) if scopes is None else frozenset(scopes))

    def add_token(self, user_id: int, scopes: frozenset[str], days: float = 90) -> dict[str, str]:
        issued = make_personal_token(user_id, scopes, "test", self.clock.now(), days)
        self.ledger.write_now(lambda c: add_token(c, issued.kept, self.clock.now()))
        return {"Authorization": f"Bearer {issued.text.reveal()}"}

    def add_sign_in_code(self, name: str) -> str:
        now = self.clock.now()
        user_id = self.ledger.write_now(lambda c: add_user(c, name, "member", now))
        issued = make_sign_in_code(user_id, now)
        self.ledger.write_now(lambda c: add_token(c, issued.kept, now))
        return issued.text.reveal()

    def client(self, headers: dict[str, str] | None = None) -> TestClient:
        return TestClient(self.app, headers=headers, raise_server_exceptions=False)

    def local_client(self) -> TestClient:
        return TestClient(self.app, client=("127.0.0.1", 50000), raise_server_exceptions=False)

    def keep_workspace(self) -> None:
        path = locate_blob(self.services.settings.storage_root, digest_bytes(WORKSPACE))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(WORKSPACE)

    def run_folder(self, job: str) -> Path:
        return self.root / "storage" / "runs" / job


def _add_local_fleet(ledger: Database, fleets: Fleets, clock: ShiftedClock) -> None:
    fleets.views["local"] = FleetView(fleet="local", nodes=(build_node(),))
    local = Fleet(name="local", kind="local", network=Network.BRIDGE, user=None)
    ledger.write_now(lambda c: add_fleet(c, local, clock.now()))


def build_console(root: Path, *, image_allow: str = "*", methods: str = "*") -> ConsoleUnderTest:
    """A console with a fleet `local` of one node without GPUs, and nobody signed up."""
    settings = _build_settings(root, image_allow, methods)
    state, storage = settings.paths.console_state_dir, settings.storage_root
    ledger, series = open_database(state, "ledger"), open_database(state, "series")
    clock, wakeups, fleets, logs = ShiftedClock(), Wakeups(), Fleets(), Logs()
    _add_local_fleet(ledger, fleets, clock)
    catalog, hub = build_published(load_catalog(), settings.policy.methods), ToldHub()
    registries, vault = ToldRegistries(), open_vault(root / "vault-key", ledger)
    sources = AdmissionSources(
        ledger=ledger,
        blobs=BlobStore(storage, settings.policy.workspace_max_bytes, STORAGE_ID),
        fleets=fleets,
        rehearsals=fleets,
        catalog=catalog,
        image_allow=image_allow,
        hub=hub,
        images=registries,
        image_unanswered="warn",
        hub_unanswered="refuse",
        stored=StoredInputs(StorageLayout(storage), settings.data_roots, ledger),
        clock=clock,
        wakeups=wakeups,
    )
    fleet_services, desk = build_fleets(ledger, clock, wakeups, root)
    services = ApiServices(
        ledger=ledger,
        series=series,
        logs=logs,
        curves=Curves(series),
        presence=Presence(clock),
        blobs=sources.blobs,
        accounts=Accounts(ledger, clock),
        secrets=UserSecrets(ledger, vault, clock),
        registry_logins=RegistryLogins(ledger, vault, clock),
        admission=Admission(sources),
        sweeps=SweepAdmission(sources),
        catalog=catalog,
        retention=_build_collector(sources, series, settings),
        views=fleets.all_views,
        explainer=_build_explainer(fleet_services, fleets, clock),
        find_native=fleets.find_native,
        clock=clock,
        wakeups=wakeups,
        settings=settings,
        metrics=CollectorRegistry(),
        webhooks=Webhooks(build_webhook_parts(ledger, vault, clock, wakeups, settings.webhooks)),
    )
    app = build_api(services, fleet_services, desk)
    return ConsoleUnderTest(app, services, fleets, logs, clock, root, hub, registries)


def build_webhook_parts(
    ledger: Database, vault: Vault, clock: SystemClock, wakeups: Wakeups, settings: WebhookSettings
) -> WebhookParts:
    """What webhooks are built on."""
    sender = Sender(settings, clock)
    return WebhookParts(ledger=ledger, vault=vault, sender=sender, clock=clock, wakeups=wakeups)


def _build_explainer(served: FleetServices, fleets: Fleets, clock: SystemClock) -> Explainer:
    return Explainer(
        SnapshotSources(ledger=served.ledger, executors=served.fleets, clock=clock), views=fleets.all_views
    )


def _build_settings(root: Path, image_allow: str, methods: str) -> ConsoleSettings:
    """Settings of a console in `root`, with its folders."""
    state, storage = root / "state", root / "storage"
    state.mkdir()
    storage.mkdir()
    (storage / MARK_FILE).write_text(STORAGE_ID)
    return ConsoleSettings(
        paths=PathSettings(console_state_dir=state, storage_root=storage),
        http=HttpSettings(),
        local=LocalSettings(),
        policy=PolicySettings(image_allow=image_allow, methods=methods),
    )


def _build_collector(sources: AdmissionSources, series: Database, settings: ConsoleSettings) -> Collector:
    return Collector(
        CollectorParts(
            ledger=sources.ledger,
            series=series,
            blobs=sources.blobs,
            disk=Disk(StorageLayout(settings.storage_root), settings.paths.console_state_dir / "logs"),
            curves=Curves(series),
            catalog=sources.catalog,
            terms=settings.retention.build_terms(settings.policy.container_retention_s),
            clock=sources.clock,
            wakeups=sources.wakeups,
            runner="sha256:" + "0" * 64,
            period_s=3600.0,
        )
    )


def close_console(console: ConsoleUnderTest) -> None:
    console.services.ledger.close()
    console.services.series.close()


def build_node(name: str = "here", cpus: float = 8, memory_bytes: int = 16 << 30) -> NodeView:
    return NodeView(name=name, gpus=(), cpus=cpus, memory_bytes=memory_bytes)


def build_submission(**spec: object) -> dict[str, object]:
    """A submission that every gate passes; `spec` replaces members of the spec."""
    recipe = load_catalog()["custom/custom"]
    whole = {
        "recipe": {"name": recipe.name, "version": recipe.version, "digest": recipe.digest},
        "framework": {"kind": recipe.framework, "image": "python:3.11"},
        "resources": {"pools": [{"gpus_per_node": 0}]},
        "entry": {"kind": recipe.entry.kind, "value": "experiments/first"},
        "workspace": {"digest": digest_bytes(WORKSPACE), "bytes": len(WORKSPACE), "files": 1},
        "provenance": {"commit": "0" * 40},
    }
    document = {
        "apiVersion": "forge/v2",
        "kind": "TrainingJob",
        "metadata": {"name": "first", "project": "demo"},
        "spec": whole | spec,
    }
    JobSpec.model_validate(document)
    return {"spec": document}


def submit(console: ConsoleUnderTest, headers: dict[str, str]) -> JobId:
    """A queued job of whoever `headers` speak for."""
    console.keep_workspace()
    answer = console.client(headers).post("/api/v1/jobs", json=build_submission())
    assert answer.status_code == 201, answer.text
    return JobId(answer.json()["job"])


def spread(console: ConsoleUnderTest, job: JobId, nodes: int) -> None:
    """Let the job be one over so many nodes, which no fleet here would take."""

    def _write(connection: Connection) -> None:
        document = json.loads(load_documents(connection, job).spec)
        document["spec"]["resources"]["pools"][0]["nodes"] = nodes
        pools = (PoolRequest(name="main", nodes=nodes, gpus_per_node=0),)
        values = {"spec": json.dumps(document), "pools": write_pools(pools)}
        connection.execute(update(jobs).where(jobs.c.id == job).values(values))

    console.ledger.write_now(_write)


def first_attempt(job: JobId) -> AttemptId:
    return AttemptId(f"{job}-1-abcdef")

"""An assembler over a real ledger and a storage in a temporary folder, with one admitted job."""

import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from server.tests.clocks import HandClock
from server.tests.databases import open_database
from starforge.contract.canonical import digest_bytes
from starforge.contract.executor import Target
from starforge.contract.ids import AttemptId, Digest, JobId, job_of, number_of
from starforge.contract.launch import Network, PoolRequest, RegistryLogin
from starforge.contract.states import DesiredState, JobState, Reason
from starforge.errors import StarForgeError
from starforge.recipes.catalog import load_catalog
from starforge_console.accounts.vault import open_vault
from starforge_console.assembly.assembler import Assembler, AssemblySettings
from starforge_console.assembly.capsule import store_runner
from starforge_console.assembly.images import AttemptImages
from starforge_console.assembly.layout import AttemptLayout, StorageLayout
from starforge_console.assembly.secrets import AttemptSecrets
from starforge_console.domain.inputs import CheckpointInput, HubInput, HubRef, JobInputs
from starforge_console.domain.job import AttemptState, JobInFlight
from starforge_console.ledger.accounts import add_user
from starforge_console.ledger.database import Database
from starforge_console.ledger.fleets import Fleet
from starforge_console.ledger.jobs import NewJob, admit

ATTEMPT = AttemptId("j234567abc-3-abcdef")
INGEST_URL = "http://console.test:7081"
SPEC: dict[str, Any] = {
    "apiVersion": "forge/v2",
    "kind": "TrainingJob",
    "metadata": {"name": "iris", "project": "demo"},
    "spec": {
        "recipe": {"name": "custom/custom", "version": "1", "digest": "sha256:" + "1" * 64},
        "framework": {"kind": "custom", "image": "registry.test/train:1"},
        "resources": {
            "pools": [{"gpus_per_node": 2, "series": "h200", "cpus": 8, "memory_bytes": 1 << 34}],
            "roles": {"train": "main"},
        },
        "model": "hf://qwen/qwen3-0.6b@main",
        "hyperparameters": {"learning_rate": 1e-05},
        "entry": {"kind": "experiment", "value": "experiments/iris"},
        "workspace": {"digest": "sha256:" + "2" * 64, "bytes": 1024, "files": 3},
        "lifecycle": {"max_runtime_s": 3600, "grace_s": 45, "retries": 2},
    },
}
COMMIT = "c" * 40
INPUTS: JobInputs = {"model": HubInput(HubRef("model", "qwen/qwen3-0.6b", "main"), COMMIT)}
OWNER = (os.getuid(), os.getgid())


@dataclass
class KnownRegistries:
    """Registries of which all are asked, and logins for some of them, by image."""

    logins: dict[str, RegistryLogin] = field(default_factory=dict)
    fault: StarForgeError | None = None

    def is_asked(self, registry: str) -> bool:
        return registry != "docker.io"

    async def find_login(self, image: str) -> RegistryLogin | None:
        if self.fault is not None:
            raise self.fault
        return self.logins.get(image)


@dataclass
class Yard:
    """One console's assembly."""

    assembler: Assembler
    settings: AssemblySettings
    ledger: Database

    @property
    def storage(self) -> StorageLayout:
        return self.settings.storage

    @property
    def layout(self) -> AttemptLayout:
        return self.storage.attempt(ATTEMPT)

    def change(self, fleet: Fleet | None = None, **settings: Any) -> None:
        """Let a console with other settings, or another fleet, follow."""
        self.settings = replace(self.settings, **settings)
        self.assembler = build_assembler(self.settings, self.ledger, fleet)


def build_assembler(
    settings: AssemblySettings,
    ledger: Database,
    fleet: Fleet | None = None,
    find_refusal: Callable[[HubInput], str] = lambda _: "",
) -> Assembler:
    fleet = fleet or Fleet(name="lab", kind="local", network=Network.BRIDGE, user=None)
    return Assembler(settings, load_catalog(), {fleet.name: fleet}, ledger, find_refusal)


def in_flight(attempt: AttemptId = ATTEMPT) -> JobInFlight:
    return JobInFlight(
        id=JobId(job_of(attempt)),
        state=JobState.SUBMITTED,
        reason=Reason.DEQUEUED,
        desired=DesiredState.RUN,
        version=2,
        attempt=AttemptState(
            id=attempt,
            number=number_of(attempt),
            target=Target(fleet="lab", node="n1", name=f"sf-{attempt}"),
            dequeued_at=1.0,
        ),
        grace_s=45.0,
        max_runtime_s=3600.0,
        pools=(PoolRequest(name="main", nodes=1, gpus_per_node=2, series="h200", cpus=8.0, memory_bytes=1 << 34),),
    )


@asynccontextmanager
async def open_yard(
    folder: Path, spec: dict[str, Any] | None = None, inputs: JobInputs | None = None
) -> AsyncIterator[Yard]:
    ledger = open_database(folder, "ledger")
    storage = StorageLayout(folder / "storage")
    storage.root.mkdir()
    storage.mark.write_text("storage-1\n")
    workspace = storage.blob(Digest((spec or SPEC)["spec"]["workspace"]["digest"]))
    workspace.parent.mkdir(parents=True)
    workspace.write_bytes(b"tar")
    storage.hub_snapshot("model", "qwen/qwen3-0.6b", COMMIT).mkdir(parents=True)
    settings = AssemblySettings(
        install="install-1",
        storage=storage,
        storage_id="storage-1",
        runner=store_runner(storage),
        ingest_url=INGEST_URL,
        job_user=OWNER,
        token_key=b"k" * 32,
        secrets=AttemptSecrets(ledger, open_vault(folder / "vault-key", ledger), HandClock()),
        images=AttemptImages(KnownRegistries()),
    )
    try:
        await ledger.write(lambda connection: _admit(connection, spec or SPEC, inputs))
        yield Yard(build_assembler(settings, ledger), settings, ledger)
    finally:
        ledger.close()


def _admit(connection: Connection, spec: dict[str, Any], inputs: JobInputs | None) -> None:
    text = json.dumps(spec)
    job = NewJob(
        id=JobId(job_of(ATTEMPT)),
        user_id=add_user(connection, "ada", "member", 1.0),
        name="iris",
        project="demo",
        spec=text,
        spec_digest=digest_bytes(text.encode()),
        admission="{}",
        fleet=None,
        priority=0,
        pools=in_flight().pools,
        gpus=2,
        grace_s=45.0,
        max_runtime_s=3600.0,
        retries=2,
        inputs=INPUTS if inputs is None else inputs,
    )
    for one in job.inputs.values():
        if isinstance(one, CheckpointInput):
            admit(connection, replace(job, id=JobId(one.job), inputs={}), None, 1.0)
    admit(connection, job, None, 1.0)

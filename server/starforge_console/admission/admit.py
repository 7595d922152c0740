"""Admission as a whole: takes the snapshot, asks the gates, and keeps what passed as a queued job."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from starforge.contract.api import AdmissionRecord, SubmitRequest
from starforge.contract.canonical import digest_bytes
from starforge.contract.executor import Capabilities, FleetView
from starforge.contract.ids import Digest, JobId, new_job_id
from starforge.contract.jobspec import JobSpec, digest_of
from starforge.recipes.model import Recipe
from starforge_console.admission.decide import decide_admission, seal_record
from starforge_console.admission.gate import FleetState, Snapshot, Submission
from starforge_console.admission.images import parse_patterns
from starforge_console.blobs.store import BlobStore
from starforge_console.clock import Clock
from starforge_console.domain.pools import build_pools
from starforge_console.errors import AdmissionRefused
from starforge_console.ledger.accounts import Account
from starforge_console.ledger.database import Database
from starforge_console.ledger.fleets import Fleet, list_fleets
from starforge_console.ledger.jobs import NewJob, SubmitKey, admit, find_submission
from starforge_console.ledger.views import load_documents
from starforge_console.wakeups import QUEUE, Wakeups

PRIORITIES: Final[Mapping[str, int]] = {"low": -1, "normal": 0, "high": 1}


class FleetSource(Protocol):
    """What admission may know of executors."""

    def capabilities_of(self, fleet: str) -> Capabilities | None:
        """What the fleet's backend can do at all, or None when no backend serves it."""

    def last_view_of(self, fleet: str) -> FleetView | None:
        """The fleet's capacity as last heard, or None when its backend never answered or is away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionSources:
    """Where a snapshot comes from."""

    ledger: Database
    blobs: BlobStore
    fleets: FleetSource
    catalog: Mapping[str, Recipe]
    image_allow: str
    clock: Clock
    wakeups: Wakeups


class Admission:
    """Decides on submissions and keeps those that every gate passes."""

    def __init__(self, sources: AdmissionSources) -> None:
        self._sources = sources
        self._images = parse_patterns(sources.image_allow)

    async def decide(self, account: Account, request: SubmitRequest) -> AdmissionRecord:
        """What every gate would say of `request` once its workspace is here; keeps nothing."""
        fleets = await self._sources.ledger.read(list_fleets)
        snapshot = await self._snapshot(request.spec, tuple(fleets))
        submission = Submission(account=account, spec=request.spec, allow_dirty=request.allow_dirty, is_trial=True)
        return seal_record(self._decide(submission, snapshot, digest_of(request.spec)), None)

    async def submit(self, account: Account, request: SubmitRequest, key: str | None) -> AdmissionRecord:
        """Admit `request` as a queued job; the same `key` with the same request gives the record of the first time.

        Raises:
            AdmissionRefused: at least one gate refused.
            Conflict: the key was used for another request.
            LedgerBusy: too many writes wait.

        """
        spec_digest = digest_of(request.spec)
        submit_key = None if key is None else _build_key(account, key, spec_digest, allow_dirty=request.allow_dirty)
        ledger = self._sources.ledger
        known, fleets = await ledger.read(
            lambda c: (None if submit_key is None else find_submission(c, submit_key), tuple(list_fleets(c)))
        )
        if known is not None:
            return await self._load_record(known)
        snapshot = await self._snapshot(request.spec, fleets)
        submission = Submission(account=account, spec=request.spec, allow_dirty=request.allow_dirty)
        decided = self._decide(submission, snapshot, spec_digest)
        if decided.refusals:
            raise AdmissionRefused(decided.refusals)
        record = seal_record(decided, new_job_id())
        job = _build_job(account, request.spec, record)
        admitted = await ledger.write(lambda c: admit(c, job, submit_key, record.decided_at))
        if admitted != job.id:
            return await self._load_record(admitted)
        self._sources.wakeups.notify(QUEUE)
        return record

    def _decide(self, submission: Submission, snapshot: Snapshot, spec_digest: Digest) -> AdmissionRecord:
        return decide_admission(submission, snapshot, spec_digest, self._sources.clock.now())

    async def _snapshot(self, spec: JobSpec, fleets: tuple[Fleet, ...]) -> Snapshot:
        sources = self._sources
        return Snapshot(
            catalog=sources.catalog,
            blob_bytes=await sources.blobs.find_size(Digest(spec.spec.workspace.digest)),
            fleets=tuple(
                FleetState(
                    fleet=fleet,
                    capabilities=sources.fleets.capabilities_of(fleet.name),
                    view=sources.fleets.last_view_of(fleet.name),
                )
                for fleet in fleets
            ),
            images=self._images,
        )

    async def _load_record(self, job: JobId) -> AdmissionRecord:
        documents = await self._sources.ledger.read(lambda c: load_documents(c, job))
        return AdmissionRecord.model_validate_json(documents.admission)


def _build_key(account: Account, key: str, spec_digest: Digest, *, allow_dirty: bool) -> SubmitKey:
    body = digest_bytes(f"{spec_digest} allow_dirty={allow_dirty}".encode())
    return SubmitKey(user_id=account.user_id, key=key, body_digest=body)


def _build_job(account: Account, spec: JobSpec, record: AdmissionRecord) -> NewJob:
    return NewJob(
        id=JobId(record.job or ""),
        user_id=account.user_id,
        name=spec.metadata.name,
        project=spec.metadata.project,
        spec=spec.model_dump_json(),
        spec_digest=Digest(record.spec_digest),
        admission=record.model_dump_json(),
        fleet=spec.spec.placement.fleet,
        priority=PRIORITIES[spec.spec.placement.priority],
        pools=build_pools(spec),
        gpus=spec.gpus,
        grace_s=spec.spec.lifecycle.grace_s,
        max_runtime_s=spec.spec.lifecycle.max_runtime_s,
        retries=spec.spec.lifecycle.retries,
    )

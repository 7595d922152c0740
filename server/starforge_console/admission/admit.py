"""Admission as a whole: takes the snapshot, asks the gates, and keeps what passed as a queued job."""

from collections.abc import Mapping
from typing import Final

from starforge.contract.api import AdmissionRecord, SubmitRequest
from starforge.contract.canonical import digest_bytes
from starforge.contract.ids import Digest, JobId, new_job_id
from starforge.contract.jobspec import JobSpec, digest_of
from starforge_console.admission.decide import decide_admission, seal_record
from starforge_console.admission.gate import Snapshot, Submission
from starforge_console.admission.inputs import pin_inputs
from starforge_console.admission.snapshot import AdmissionSources, Snapshots
from starforge_console.domain.inputs import JobInputs
from starforge_console.domain.pools import build_pools
from starforge_console.errors import AdmissionRefused
from starforge_console.ledger.accounts import Account
from starforge_console.ledger.jobs import NewJob, SubmitKey, admit, find_submission
from starforge_console.ledger.views import load_documents
from starforge_console.wakeups import INPUTS, QUEUE

PRIORITIES: Final[Mapping[str, int]] = {"low": -1, "normal": 0, "high": 1}


class Admission:
    """Decides on submissions and keeps those that every gate passes."""

    def __init__(self, sources: AdmissionSources) -> None:
        self._sources = sources
        self._snapshots = Snapshots(sources)

    async def decide(self, account: Account, request: SubmitRequest) -> AdmissionRecord:
        """What every gate would say of `request` once its workspace is here; keeps nothing."""
        snapshot = await self._snapshots.take(account, request.spec)
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
        known = None if submit_key is None else await ledger.read(lambda c: find_submission(c, submit_key))
        if known is not None:
            return await self._load_record(known)
        snapshot = await self._snapshots.take(account, request.spec)
        submission = Submission(account=account, spec=request.spec, allow_dirty=request.allow_dirty)
        decided = self._decide(submission, snapshot, spec_digest)
        if decided.refusals:
            raise AdmissionRefused(decided.refusals)
        record = seal_record(decided, new_job_id())
        job = _build_job(account, request.spec, record, pin_inputs(request.spec, snapshot))
        admitted = await ledger.write(lambda c: admit(c, job, submit_key, record.decided_at))
        if admitted != job.id:
            return await self._load_record(admitted)
        self._sources.wakeups.notify(QUEUE, INPUTS)
        return record

    def _decide(self, submission: Submission, snapshot: Snapshot, spec_digest: Digest) -> AdmissionRecord:
        return decide_admission(submission, snapshot, spec_digest, self._sources.clock.now())

    async def _load_record(self, job: JobId) -> AdmissionRecord:
        documents = await self._sources.ledger.read(lambda c: load_documents(c, job))
        return AdmissionRecord.model_validate_json(documents.admission)


def _build_key(account: Account, key: str, spec_digest: Digest, *, allow_dirty: bool) -> SubmitKey:
    body = digest_bytes(f"{spec_digest} allow_dirty={allow_dirty}".encode())
    return SubmitKey(user_id=account.user_id, key=key, body_digest=body)


def _build_job(account: Account, spec: JobSpec, record: AdmissionRecord, inputs: JobInputs) -> NewJob:
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
        inputs=inputs,
    )

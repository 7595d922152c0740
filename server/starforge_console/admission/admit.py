"""Admission as a whole: takes the snapshot, asks the gates, and keeps what passed as a queued job."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from starforge.contract.api import AdmissionRecord, SubmitRequest
from starforge.contract.canonical import digest_bytes
from starforge.contract.ids import Digest, JobId, new_job_id
from starforge.contract.jobspec import JobSpec, digest_of, parse_jobspec
from starforge.contract.remotes import strip_credentials
from starforge_console.admission.decide import decide_admission, seal_record
from starforge_console.admission.gate import Snapshot, Submission
from starforge_console.admission.inputs import pin_inputs
from starforge_console.admission.said import write_sentences
from starforge_console.admission.snapshot import AdmissionSources, Snapshots
from starforge_console.domain.images import find_pin
from starforge_console.domain.inputs import JobInputs
from starforge_console.domain.pools import build_pools
from starforge_console.errors import AdmissionRefused
from starforge_console.ledger.accounts import Account
from starforge_console.ledger.jobs import NewJob, SubmitKey, admit, find_submission
from starforge_console.ledger.lineages import Lineage, load_lineage, pack_difference
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
        submission = build_submitted(account, request, is_trial=True)
        snapshot = await self._snapshots.take(account, submission.spec)
        return seal_record(self._decide(submission, snapshot, digest_of(submission.spec)), None)

    async def submit(self, account: Account, request: SubmitRequest, key: str | None) -> AdmissionRecord:
        """Admit `request` as a queued job; the same `key` with the same request gives the record of the first time.

        Raises:
            AdmissionRefused: at least one gate refused.
            Conflict: the key was used for another request.
            LedgerBusy: too many writes wait.

        """
        submission = build_submitted(account, request)
        return await self._admit(submission, build_lineage(submission), key)

    async def rerun(self, account: Account, job_id: str, key: str | None) -> AdmissionRecord:
        """Admit the spec of job `job_id` once more, as it is and with what is kept beside it, as a job of `account`.

        What was allowed then (a dirty tree) is allowed again.

        Raises:
            NotFound: there is no such job.
            AdmissionRefused, Conflict, LedgerBusy: as `submit` does.

        """
        documents, kept = await self._sources.ledger.read(
            lambda c: (load_documents(c, job_id), load_lineage(c, job_id))
        )
        spec, again = parse_jobspec(json.loads(documents.spec)), JobId(job_id)
        dirty = spec.spec.provenance.dirty
        submission = Submission(account=account, spec=spec, allow_dirty=dirty, again=again)
        return await self._admit(submission, replace(kept, rerun_of=again), key)

    async def _admit(self, submission: Submission, lineage: Lineage, key: str | None) -> AdmissionRecord:
        account, spec, ledger = submission.account, submission.spec, self._sources.ledger
        spec_digest = digest_of(spec)
        submit_key = None if key is None else _build_key(submission, key, spec_digest)
        known = None if submit_key is None else await ledger.read(lambda c: find_submission(c, submit_key))
        if known is not None:
            return await self._load_record(known)
        snapshot = await self._snapshots.take(account, spec)
        decided = self._decide(submission, snapshot, spec_digest)
        if decided.refusals:
            raise AdmissionRefused(decided.refusals)
        record = seal_record(decided, new_job_id())
        job = replace(
            build_job(account, spec, record, pin_inputs(spec, snapshot)),
            lineage=lineage,
            image_digest=find_pin(spec.spec.framework.image, snapshot.image),
        )
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


def build_submitted(account: Account, request: SubmitRequest, *, is_trial: bool = False) -> Submission:
    """What was sent, with nothing secret in the address of its remote: a client may not be ours."""
    spec = request.spec
    remote = spec.spec.provenance.remote
    shown = None if remote is None else strip_credentials(remote) or None
    if shown != remote:
        origin = spec.spec.provenance.model_copy(update={"remote": shown})
        spec = spec.model_copy(update={"spec": spec.spec.model_copy(update={"provenance": origin})})
    return Submission(
        account=account,
        spec=spec,
        allow_dirty=request.allow_dirty,
        is_trial=is_trial,
        difference=request.difference,
        config=request.config,
        lost_credentials=shown != remote,
    )


def build_lineage(submission: Submission, alike: Lineage | None = None) -> Lineage:
    """What is kept beside the job; the difference is that of `alike` where there is one, which has the same."""
    difference, config = submission.difference, submission.config
    if alike is not None:
        packed = alike.difference
    else:
        packed = None if difference is None else pack_difference(difference.text, is_cut=difference.is_cut)
    return Lineage(
        difference=packed,
        config=None if config is None else json.dumps(config, ensure_ascii=False),
    )


def _build_key(submission: Submission, key: str, spec_digest: Digest) -> SubmitKey:
    again = f" again={submission.again}" if submission.again else ""
    body = digest_bytes(f"{spec_digest} allow_dirty={submission.allow_dirty}{again}".encode())
    return SubmitKey(user_id=submission.account.user_id, key=key, body_digest=body)


def build_job(account: Account, spec: JobSpec, record: AdmissionRecord, inputs: JobInputs) -> NewJob:
    """The job that `record` admitted, without its lineage and its image's digest. Pure."""
    return NewJob(
        id=JobId(record.job or ""),
        user_id=account.user_id,
        name=spec.metadata.name,
        project=spec.metadata.project,
        spec=spec.model_dump_json(),
        spec_digest=Digest(record.spec_digest),
        admission=record.model_dump_json(),
        admission_said=write_sentences(record),
        fleet=spec.spec.placement.fleet,
        priority=PRIORITIES[spec.spec.placement.priority],
        pools=build_pools(spec),
        gpus=spec.gpus,
        grace_s=spec.spec.lifecycle.grace_s,
        max_runtime_s=spec.spec.lifecycle.max_runtime_s,
        retries=spec.spec.lifecycle.retries,
        inputs=inputs,
    )

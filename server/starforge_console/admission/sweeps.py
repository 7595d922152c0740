"""Admission of a sweep: every combination is asked of every gate, and all of them become jobs or none does."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from starforge.contract.api import AdmissionRecord, RefusalView
from starforge.contract.canonical import Json, digest_bytes
from starforge.contract.combinations import describe_some
from starforge.contract.ids import Digest, SweepId, new_job_ids, new_sweep_id
from starforge.contract.jobspec import count_settings, digest_of
from starforge.contract.sweeps import SweepRecord, SweepRequest, SweptJob, build_submission
from starforge.wording import count_of, describe_bytes
from starforge_console.admission.admit import build_job, build_lineage, build_submitted
from starforge_console.admission.decide import decide_admission, seal_record
from starforge_console.admission.gate import Snapshot, Submission
from starforge_console.admission.inputs import pin_inputs
from starforge_console.admission.snapshot import AdmissionSources, Snapshots
from starforge_console.domain.images import find_pin
from starforge_console.errors import AdmissionRefused, TooLarge
from starforge_console.ledger.accounts import Account
from starforge_console.ledger.jobs import NewJob, SubmitKey
from starforge_console.ledger.listing import load_lines
from starforge_console.ledger.sweeps import NewSweep, admit_sweep, find_swept, list_swept_jobs, load_sweep
from starforge_console.ledger.views import load_digests
from starforge_console.wakeups import INPUTS, QUEUE

KEPT_BYTES: Final = 32 << 20
KEPT_VALUES: Final = 200_000
"""What all specs of a sweep hold together, with what is kept beside them."""


class _Swept(NamedTuple):
    """One combination, and what becomes of it."""

    combination: Mapping[str, Json]
    submission: Submission
    spec_digest: Digest


class SweepAdmission:
    """Decides on sweeps, and keeps those all of whose combinations every gate passes."""

    def __init__(self, sources: AdmissionSources) -> None:
        self._sources = sources
        self._snapshots = Snapshots(sources)

    async def decide(self, account: Account, request: SweepRequest) -> SweepRecord:
        """What every gate would say of every combination once the workspace is here; keeps nothing."""
        swept = await asyncio.to_thread(_list_swept, account, request, is_trial=True)
        snapshot = await self._snapshots.take(account, swept[0].submission.spec)
        _, told = await asyncio.to_thread(self._decide_all, request, swept, snapshot)
        return told

    async def submit(self, account: Account, request: SweepRequest, key: str | None) -> SweepRecord:
        """Admit every combination as a queued job; the same `key` with the same request gives the same sweep.

        Raises:
            AdmissionRefused: at least one gate refused at least one combination; nothing was kept.
            Conflict: the key was used for another request.
            LedgerBusy: too many writes wait.

        """
        # Hundreds of specs are built and judged: not where everybody else's requests wait.
        ledger, swept = self._sources.ledger, await asyncio.to_thread(_list_swept, account, request)
        submit_key = None if key is None else _build_key(account, request, swept, key)
        known = None if submit_key is None else await ledger.read(lambda c: find_swept(c, submit_key, len(swept)))
        if known is not None:
            return await self._load_record(known)
        snapshot = await self._snapshots.take(account, swept[0].submission.spec)
        decided, told = await asyncio.to_thread(self._decide_all, request, swept, snapshot)
        if told.refusals:
            raise AdmissionRefused(told.refusals)
        jobs = await asyncio.to_thread(_build_jobs, swept, decided, snapshot)
        sweep = _build_sweep(account, request, jobs)
        admitted = await ledger.write(lambda c: admit_sweep(c, sweep, submit_key, decided[0].decided_at))
        if admitted != sweep.id:
            return await self._load_record(admitted)
        self._sources.wakeups.notify(QUEUE, INPUTS)
        named = tuple(one.model_copy(update={"job": job.id}) for one, job in zip(told.jobs, jobs, strict=True))
        return told.model_copy(update={"sweep": sweep.id, "jobs": named})

    def _decide_all(
        self, request: SweepRequest, swept: Sequence[_Swept], snapshot: Snapshot
    ) -> tuple[list[AdmissionRecord], SweepRecord]:
        """The combinations share everything that a snapshot is about."""
        now = self._sources.clock.now()
        decided = [decide_admission(one.submission, snapshot, one.spec_digest, now) for one in swept]
        return decided, _build_record(request, swept, decided)

    async def _load_record(self, sweep: SweepId) -> SweepRecord:
        kept, ids = await self._sources.ledger.read(lambda c: (load_sweep(c, sweep), list_swept_jobs(c, sweep)))
        lines, digests = await self._sources.ledger.read(lambda c: (load_lines(c, ids), load_digests(c, ids)))
        jobs = tuple(
            SweptJob(job=one, combination=part.combination, spec_digest=digests[one])
            for one in ids
            if one in lines and (part := lines[one].sweep) is not None
        )
        return SweepRecord(sweep=kept.id, name=kept.name, jobs=jobs, repeated=True)


def _list_swept(account: Account, request: SweepRequest, *, is_trial: bool = False) -> list[_Swept]:
    _check_size(request)
    swept = []
    for combination in request.combinations:
        submission = build_submitted(account, build_submission(request, combination), is_trial=is_trial)
        swept.append(_Swept(combination, submission, digest_of(submission.spec)))
    return swept


def _check_size(request: SweepRequest) -> None:
    """One small request must not make the console judge and keep hundreds of times as much. Raises TooLarge."""
    count = len(request.combinations)
    whole = request.model_dump_json(exclude={"combinations"})
    values = count_settings(request.spec.spec.hyperparameters)
    if count * len(whole) <= KEPT_BYTES and count * values <= KEPT_VALUES:
        return
    raise TooLarge(
        "the sweep would keep too much",
        why=f"{count_of(count, 'job')} of {describe_bytes(len(whole))} with {count_of(values, 'value')} each; "
        f"the most is {describe_bytes(KEPT_BYTES)} and {KEPT_VALUES} values in all",
        next_step="sweep over fewer values, commit what differs, or put what is large into a file of the project",
    )


def _build_key(account: Account, request: SweepRequest, swept: Sequence[_Swept], key: str) -> SubmitKey:
    digests = " ".join(one.spec_digest for one in swept)
    body = digest_bytes(f"sweep={request.name} allow_dirty={request.allow_dirty} {digests}".encode())
    return SubmitKey(user_id=account.user_id, key=key, body_digest=body)


def _build_record(request: SweepRequest, swept: Sequence[_Swept], decided: Sequence[AdmissionRecord]) -> SweepRecord:
    return SweepRecord(
        sweep=None,
        name=request.name or request.spec.metadata.name,
        jobs=tuple(SweptJob(job=None, combination=dict(one.combination), spec_digest=one.spec_digest) for one in swept),
        checks=tuple(dict.fromkeys(check for record in decided for check in record.checks)),
        warnings=tuple(_gather_warnings(swept, decided)),
        refusals=tuple(_gather_refusals(swept, decided)),
    )


def _gather_warnings(swept: Sequence[_Swept], decided: Sequence[AdmissionRecord]) -> Iterable[str]:
    of: dict[str, list[_Swept]] = {}
    for one, record in zip(swept, decided, strict=True):
        for warning in record.warnings:
            of.setdefault(warning, []).append(one)
    return (text + _name_some(found, len(swept)) for text, found in of.items())


def _gather_refusals(swept: Sequence[_Swept], decided: Sequence[AdmissionRecord]) -> Iterable[RefusalView]:
    of: dict[RefusalView, list[_Swept]] = {}
    for one, record in zip(swept, decided, strict=True):
        for refusal in record.refusals:
            of.setdefault(refusal, []).append(one)
    return (one.model_copy(update={"what": one.what + _name_some(found, len(swept))}) for one, found in of.items())


def _name_some(found: Sequence[_Swept], count: int) -> str:
    """Which combinations something is said of; nothing where it is all of them."""
    some = describe_some([one.combination for one in found], count)
    return f" ({some})" if some else ""


def _build_jobs(swept: Sequence[_Swept], decided: Sequence[AdmissionRecord], snapshot: Snapshot) -> tuple[NewJob, ...]:
    first = build_lineage(swept[0].submission)  # the difference, which all have, is packed once
    jobs = []
    for one, record, job_id in zip(swept, decided, new_job_ids(len(swept)), strict=True):
        submission, spec = one.submission, one.submission.spec
        sealed = seal_record(record, job_id)
        job = build_job(submission.account, spec, sealed, pin_inputs(spec, snapshot))
        pin = find_pin(spec.spec.framework.image, snapshot.image)
        jobs.append(replace(job, lineage=build_lineage(submission, first), image_digest=pin))
    return tuple(jobs)


def _build_sweep(account: Account, request: SweepRequest, jobs: tuple[NewJob, ...]) -> NewSweep:
    metadata = request.spec.metadata
    return NewSweep(
        id=new_sweep_id(),
        user_id=account.user_id,
        name=request.name or metadata.name,
        experiment=metadata.name,
        project=metadata.project,
        keys=request.keys,
        jobs=jobs,
    )

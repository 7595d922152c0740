"""Stops and deletes jobs for whoever may do that."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from starforge.contract.api import StopRequest
from starforge.contract.ids import JobId
from starforge.contract.states import DesiredState, has_ended_for_good
from starforge.errors import StarForgeError, Unavailable
from starforge.said.sentence import Said, say
from starforge_console.accounts.sign_in import check_owner, check_scope
from starforge_console.assembly.layout import StorageLayout
from starforge_console.blobs.store import BlobStore
from starforge_console.clock import Clock
from starforge_console.domain.roles import Scope
from starforge_console.domain.wishes import Wish
from starforge_console.jobs.deleted import put_aside
from starforge_console.jobs.many import ask_each
from starforge_console.jobs.one_by_one import OneByOne
from starforge_console.ledger.accounts import Account
from starforge_console.ledger.audit import audited
from starforge_console.ledger.database import Database
from starforge_console.ledger.endings import hurry_cleanup, list_unclean_of
from starforge_console.ledger.jobs import delete_job, find_workspace, list_deletable
from starforge_console.ledger.moves import Guard
from starforge_console.ledger.series import delete_series
from starforge_console.ledger.views import JobRecord, load_job
from starforge_console.ledger.wishes import wish
from starforge_console.wakeups import BACKEND, DELETIONS, ENDINGS, QUEUE, Wakeups, job_topic

CLEANUP_S: Final = 3.0
"""How long a deletion waits for what is left of the job to be removed from its machine."""


class LogRemover(Protocol):
    """Where the logs lie."""

    async def remove_logs(self, attempts: Sequence[str]) -> None:
        """Remove the files that hold the logs of these attempts; fine when there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobControl:
    """Stops and deletes the jobs of one console."""

    ledger: Database
    series: Database
    logs: LogRemover
    blobs: BlobStore
    clock: Clock
    wakeups: Wakeups
    storage_root: Path
    one_by_one: OneByOne

    async def stop(self, account: Account, job_id: str, request: StopRequest | None = None) -> None:
        """Ask for the job's end; fine when it has ended or is stopping.

        Raises:
            NotFound: there is no such job.
            Forbidden: it belongs to somebody else, or the token may not stop jobs.
            Unavailable: the job was being moved at that moment.

        """
        check_scope(account, Scope.SUBMIT)
        request = request or StopRequest()
        record = await self.ledger.read(lambda c: load_job(c, job_id))
        check_owner(account, record.user_id, say("act.stop_job", job=job_id))
        note = request.note or say("note.stopped_by", user=account.user)
        wished = Wish(desired=DesiredState.STOP, grace_s=request.grace_s, note=note)
        guard = Guard(now=self.clock.now(), monotonic=self.clock.monotonic())
        told = tell_if_other(account, record, say("did.job_stopped", job=job_id, user=record.user))
        await self.ledger.write(audited(lambda c: wish(c, JobId(job_id), wished, guard), lambda _: told))
        self.wakeups.notify(job_topic(job_id), BACKEND, QUEUE)

    async def stop_all(
        self, account: Account, job_ids: Sequence[str], request: StopRequest | None = None
    ) -> Mapping[str, StarForgeError]:
        """Ask for the end of every one of the jobs; those that could not be asked, each with the reason."""
        return await ask_each(job_ids, lambda job_id: self.stop(account, job_id, request))

    async def delete(self, account: Account, job_id: str) -> None:
        """Remove an ended job with its logs, curves, work and checkpoints.

        Its folder is put aside at once and emptied afterwards (`jobs.deleted`), which may take a while.

        Raises:
            NotFound: there is no such job.
            Forbidden: it belongs to somebody else, or the token may not delete jobs.
            Conflict: it has not ended, will be retried, or is not cleaned up yet.
            Unavailable: its folder cannot be put aside now.

        """
        check_scope(account, Scope.SUBMIT)
        record = await self.ledger.read(lambda c: load_job(c, job_id))
        check_owner(account, record.user_id, say("act.delete_job", job=job_id))
        if has_ended_for_good(record.state, record.retry_at):
            await self._clean_up_now(JobId(job_id))
        told = tell_if_other(account, record, say("did.job_deleted", job=job_id, user=record.user))
        async with self.one_by_one.of(job_id):
            await self._delete(JobId(job_id), told)
        self.wakeups.notify(job_topic(job_id), DELETIONS, QUEUE)  # a quota of storage may have room now

    async def _delete(self, job_id: JobId, told: Said | None) -> None:
        attempts = await self.ledger.read(lambda c: list_deletable(c, job_id))
        workspace = await self.ledger.read(lambda c: find_workspace(c, job_id))
        # The record goes last: where anything before it fails, the job is still there to be deleted again.
        await self._put_aside(job_id)
        await self.series.write(lambda c: delete_series(c, job_id, attempts))
        await self.logs.remove_logs(attempts)
        if workspace is not None:
            await self.blobs.find_size(workspace)  # from now on nothing may refer to it: its time begins
        await self.ledger.write(audited(lambda c: delete_job(c, job_id), lambda _: told))

    async def _clean_up_now(self, job_id: JobId) -> None:
        """Let the job's ended containers be kept no longer, and wait a moment until they are gone."""
        hurried = await self.ledger.write(lambda c: hurry_cleanup(c, job_id))
        self.wakeups.notify(ENDINGS)
        deadline = self.clock.monotonic() + (CLEANUP_S if hurried else 0.0)
        while (left_s := deadline - self.clock.monotonic()) > 0:
            waiter = self.wakeups.subscribe(job_topic(job_id))
            try:
                if not await self.ledger.read(lambda c: list_unclean_of(c, job_id)):
                    return
                await waiter.wait(left_s)
            finally:
                self.wakeups.forget(waiter)

    async def _put_aside(self, job_id: JobId) -> None:
        storage = StorageLayout(self.storage_root)
        # Below the mount of a share that is not mounted there is nothing, and the record would go without its files.
        await asyncio.to_thread(self.blobs.require_storage)
        try:
            await asyncio.to_thread(put_aside, storage, job_id)
        except OSError as error:
            raise Unavailable(
                say("form.folder_kept", folder=str(storage.run(job_id)), job=job_id),
                why=str(error),
                next_step=say("form.folder_kept_next"),
            ) from None


def tell_if_other(account: Account, record: JobRecord, told: Said) -> Said | None:
    """What the audit log says of an act on a job; nothing where it is the account's own."""
    return None if record.user_id == account.user_id else told

"""Pauses jobs, lets them go on and starts them again, for whoever may do that."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starforge.contract.ids import JobId
from starforge.contract.jobspec import JobSpec, parse_jobspec
from starforge.contract.states import DesiredState
from starforge.contract.turns import GoOnRequest, PauseRequest
from starforge.errors import ProgressAtRisk, StarForgeError
from starforge.recipes.model import Recipe
from starforge.said.sentence import say
from starforge_console.accounts.sign_in import check_owner, check_scope
from starforge_console.clock import Clock
from starforge_console.domain.progress import Loss, find_loss
from starforge_console.domain.roles import Scope
from starforge_console.domain.wishes import Wish
from starforge_console.jobs.control import tell_if_other
from starforge_console.jobs.many import ask_each
from starforge_console.jobs.one_by_one import OneByOne
from starforge_console.ledger.accounts import Account
from starforge_console.ledger.audit import audited
from starforge_console.ledger.database import Database
from starforge_console.ledger.jobs import load_spec
from starforge_console.ledger.moves import Guard
from starforge_console.ledger.views import JobRecord, load_job
from starforge_console.ledger.wishes import wish, wish_resume, wish_retry
from starforge_console.ledger.work import load_work
from starforge_console.wakeups import BACKEND, QUEUE, Wakeups, job_topic


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTurns:
    """Whose turn it is to run is the scheduler's; whether a job wants one is said here."""

    ledger: Database
    catalog: Mapping[str, Recipe]
    clock: Clock
    wakeups: Wakeups
    one_by_one: OneByOne

    async def pause(self, account: Account, job_id: str, request: PauseRequest) -> None:
        """Ask for the job's pause; fine when it is paused or pausing.

        Raises:
            NotFound: there is no such job.
            Forbidden: it belongs to somebody else, or the token may not pause jobs.
            ProgressAtRisk: it has kept nothing to go on from, and the request does not say that it may be lost.
            Conflict: it has ended or is being stopped.
            Unavailable: the job was being moved at that moment.

        """
        record = await self._check(account, job_id, say("act.pause_job", job=job_id))
        loss = None if request.lose_progress else await self.find_loss(job_id)
        if loss is not None:
            raise ProgressAtRisk(say("fault.at_risk", job=job_id), why=loss.said, next_step=say("fault.at_risk_next"))
        note = request.note or say("note.paused_by", user=account.user)
        wished = Wish(desired=DesiredState.PAUSE, grace_s=request.grace_s, note=note)
        told = tell_if_other(account, record, say("did.job_paused", job=job_id, user=record.user))
        await self.ledger.write(audited(lambda c: wish(c, JobId(job_id), wished, self._guard()), lambda _: told))
        self._notify(job_id)

    async def resume(self, account: Account, job_id: str, request: GoOnRequest) -> None:
        """Let a paused job go on; fine when it runs, or waits for its turn.

        Raises:
            NotFound: there is no such job.
            Forbidden: it belongs to somebody else, or the token may not let jobs go on.
            Conflict: it has ended or is being stopped.
            Unavailable: the job was being moved at that moment.

        """
        record = await self._check(account, job_id, say("act.resume_job", job=job_id))
        note = request.note or say("note.resumed_by", user=account.user)
        told = tell_if_other(account, record, say("did.job_resumed", job=job_id, user=record.user))
        await self.ledger.write(audited(lambda c: wish_resume(c, JobId(job_id), self._guard(), note), lambda _: told))
        self._notify(job_id)

    async def pause_all(self, account: Account, requests: Mapping[str, PauseRequest]) -> Mapping[str, StarForgeError]:
        """Ask for the pause of each of the jobs; those that could not be asked, each with the reason."""
        return await ask_each(requests, lambda job_id: self.pause(account, job_id, requests[job_id]))

    async def resume_all(
        self, account: Account, job_ids: Sequence[str], request: GoOnRequest
    ) -> Mapping[str, StarForgeError]:
        """Let each of the jobs go on; those that could not, each with the reason."""
        return await ask_each(job_ids, lambda job_id: self.resume(account, job_id, request))

    async def retry(self, account: Account, job_id: str, request: GoOnRequest) -> None:
        """Queue a failed or stopped job again, with all the retries that it was submitted with.

        Raises:
            NotFound: there is no such job.
            Forbidden: it belongs to somebody else, or the token may not start jobs.
            Conflict: it neither failed nor was stopped.
            Unavailable: the job was being moved at that moment.

        """
        async with self.one_by_one.of(job_id):
            record = await self._check(account, job_id, say("act.retry_job", job=job_id))
            retries = (await self._load_spec(job_id)).spec.lifecycle.retries
            note = request.note or say("note.retried_by", user=account.user)
            told = tell_if_other(account, record, say("did.job_retried", job=job_id, user=record.user))
            await self.ledger.write(
                audited(lambda c: wish_retry(c, JobId(job_id), retries, self._guard(), note), lambda _: told)
            )
        self._notify(job_id)

    async def find_loss(self, job_id: str) -> Loss | None:
        """What the job would lose by a pause now; None where it would lose nothing that it keeps. Raises NotFound."""
        spec = await self._load_spec(job_id)
        work = await self.ledger.read(lambda c: load_work(c, job_id, self.clock.now()))
        recipe = await asyncio.to_thread(self.catalog.get, spec.spec.recipe.name)
        writes = recipe is None or recipe.checkpoints.kind != "none"
        return find_loss(work, writes_checkpoints=writes, resumes=spec.spec.lifecycle.resume == "auto")

    async def _check(self, account: Account, job_id: str, act: str) -> JobRecord:
        check_scope(account, Scope.SUBMIT)
        record = await self.ledger.read(lambda c: load_job(c, job_id))
        check_owner(account, record.user_id, act)
        return record

    async def _load_spec(self, job_id: str) -> JobSpec:
        text = await self.ledger.read(lambda c: load_spec(c, JobId(job_id)))
        return parse_jobspec(json.loads(text))

    def _notify(self, job_id: str) -> None:
        self.wakeups.notify(job_topic(job_id), BACKEND, QUEUE)

    def _guard(self) -> Guard:
        return Guard(now=self.clock.now(), monotonic=self.clock.monotonic())

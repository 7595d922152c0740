"""An attempt that came further than those before gives its job back what it may spend on retries."""

import dataclasses
from pathlib import Path

import pytest

from server.tests.ledger.builders import guard
from server.tests.scheduler.support import Site, make_record, open_site, run
from starforge.contract.capsule import CheckpointMark
from starforge.contract.ids import AttemptId, JobId
from starforge.contract.states import JobState
from starforge_console.domain.retry import FREE_RETRIES
from starforge_console.ledger.queue import load_budget
from starforge_console.ledger.reports import Output, ReportingAttempt, Reports, note_reports
from starforge_console.ledger.wishes import wish_retry


async def tell(site: Site, attempt: AttemptId, step: int) -> None:
    """Let the attempt have told of a committed checkpoint, while it ran."""
    output = Output(kind="checkpoint", path=f"ckpt/step-{step}", step=step, bytes=1, sha256=None)
    reporting = ReportingAttempt(id=attempt, job=JobId(attempt.partition("-")[0]), number=1)
    reports = Reports(before=0, to=1, notes=(), outputs=(output,))
    assert await site.ledger.write(lambda c: note_reports(c, reporting, reports, site.clock.now()))


def record(site: Site, attempt: AttemptId, step: int) -> None:
    """Let the runner's record name the checkpoint, of which nobody told."""
    made = make_record(attempt, 1, site.clock.now())
    site.records.exits[attempt] = dataclasses.replace(made, checkpoint=CheckpointMark(step=step, path="ckpt"))


async def fail(site: Site, job: JobId, recorded: int | None = None) -> float | None:
    """Let the running attempt fail by itself; gives when the job comes back."""
    attempt = await site.attempt(job)
    site.end(attempt, 1)
    if recorded is not None:
        record(site, attempt, recorded)
    await site.reconcile()
    row = await site.job(job)
    assert row.state == JobState.FAILED
    return row.retry_at


async def come_back(site: Site, at: float) -> None:
    site.clock.at = at
    await site.dequeue()
    await site.reconcile()


@pytest.mark.parametrize("by", ["events", "record"])
def test_a_job_that_comes_further_each_time_is_repeated_beyond_its_budget(tmp_path: Path, by: str) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job, _ = await site.running(retries=1)
            for step in (10, 20, 30, 40):
                if by == "events":
                    await tell(site, await site.attempt(job), step)
                at = await fail(site, job, recorded=step if by == "record" else None)
                assert at is not None
                await come_back(site, at)
            assert await fail(site, job) is None  # what it was given back last is spent
            assert len(await site.attempts(job)) == 5

    run(go())


def test_the_same_checkpoint_again_gives_nothing_back(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job, attempt = await site.running(retries=1)
            await tell(site, attempt, 10)
            at = await fail(site, job)
            assert at is not None
            await come_back(site, at)
            await tell(site, await site.attempt(job), 10)
            assert await fail(site, job) is None

    run(go())


@pytest.mark.parametrize("step", [-1, 2**63])
def test_a_step_that_nobody_can_have_counted_to_gives_nothing_back(tmp_path: Path, step: int) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job, _ = await site.running(retries=1)
            at = await fail(site, job)
            assert at is not None
            await come_back(site, at)
            assert await fail(site, job, recorded=step) is None

    run(go())


def test_faults_of_machines_are_counted_anew_too(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job, _ = await site.running(retries=0)
            for turn in range(2 * FREE_RETRIES - 1):
                attempt = await site.attempt(job)
                if turn == FREE_RETRIES - 1:
                    await tell(site, attempt, 10)
                site.fleet.restart_engine(code=255)
                await site.reconcile()
                row = await site.job(job)
                assert row.reason == "interrupted"
                assert row.retry_at is not None
                await come_back(site, row.retry_at)
            assert not any(one.costs_retry for one in await site.attempts(job))

    run(go())


def test_a_retry_by_a_user_counts_what_that_user_gave(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job, attempt = await site.running(retries=0)
            await tell(site, attempt, 10)
            assert await fail(site, job) is None
            await site.ledger.write(lambda c: wish_retry(c, job, 2, guard(site.clock.now()), "again"))
            await come_back(site, site.clock.now())
            await tell(site, await site.attempt(job), 20)
            await fail(site, job)
            assert (await site.ledger.read(lambda c: load_budget(c, job))).retries_left == 1
            await come_back(site, site.clock.now() + 600)
            await tell(site, await site.attempt(job), 30)
            await fail(site, job)
            assert (await site.ledger.read(lambda c: load_budget(c, job))).retries_left == 1

    run(go())

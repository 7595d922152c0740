"""Fleets that take only jobs with a time limit: what waits is promised a start, and nothing delays it."""

from pathlib import Path

from server.tests.scheduler.support import FLEET, Site, open_site, run
from starforge.contract.ids import JobId
from starforge.contract.launch import Network
from starforge.contract.states import JobState
from starforge_console.executors.scripting import FakeNode
from starforge_console.ledger.fleets import Fleet, add_fleet, require_limit
from starforge_console.ledger.waits import read_waits


async def make_strict(site: Site) -> None:
    strict = Fleet(name=FLEET, kind="local", network=Network.BRIDGE, user=None, requires_limit=True)
    await site.ledger.write(lambda c: add_fleet(c, strict, 0.0))


async def state(site: Site, job: JobId) -> str:
    return (await site.state(job))[0]


def test_a_job_that_waits_is_promised_a_start_and_passed_only_by_what_ends_before(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            await make_strict(site)
            running = await site.submit(max_runtime_s=1000.0)
            await site.dequeue()
            await site.reconcile()
            site.clock.at += 1.0
            large = await site.submit(gpus=2, max_runtime_s=1000.0)
            site.clock.at += 1.0
            long = await site.submit(max_runtime_s=760.0)
            site.clock.at += 1.0
            short = await site.submit(max_runtime_s=100.0)
            await site.dequeue()
            assert "n1: has room for it by 1970-01-01 00:34 UTC at the latest" in (await site.job(large)).note
            assert [wait.starts_by for wait in read_waits((await site.job(large)).waiting)][-1] == 34 * 60.0
            assert f"kept for {large}" in (await site.job(long)).note
            assert [await state(site, job) for job in (large, long)] == [JobState.QUEUED, JobState.QUEUED]
            assert await state(site, short) == JobState.PENDING
            await site.reconcile()
            for job in (running, short):
                site.end(await site.attempt(job))
            await site.reconcile()
            await site.dequeue()
            assert await state(site, large) == JobState.PENDING

    run(go())


def test_what_has_no_limit_is_not_placed_where_one_is_required_unless_it_was_admitted_there(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, FakeNode(name="n1", gpus=1)) as site:
            await make_strict(site)
            anywhere = await site.submit()
            site.clock.at += 1.0
            named = await site.submit(fleet=FLEET)
            await site.dequeue()
            assert (await site.job(anywhere)).note == f"{FLEET}: takes only jobs that have a time limit (max_runtime)"
            assert await state(site, named) == JobState.PENDING
            await site.reconcile()
            site.end(await site.attempt(named))
            await site.reconcile()
            await site.ledger.write(lambda c: require_limit(c, FLEET, requires=False))
            await site.dequeue()
            assert await state(site, anywhere) == JobState.PENDING

    run(go())

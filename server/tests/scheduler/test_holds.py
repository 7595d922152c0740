"""What keeps a queued job from starting although there is room: quotas, and inputs that are not here yet."""

from pathlib import Path

from sqlalchemy import update

from server.tests.ledger.builders import guard, wish_stop
from server.tests.scheduler.support import Loops, Site, open_site, run
from starforge.contract.ids import JobId
from starforge.contract.states import JobState
from starforge.errors import LaunchRefused
from starforge_console.domain.gpu_hours import HOUR_S
from starforge_console.domain.inputs import HubInput, HubRef
from starforge_console.domain.quota import GIB, Holder
from starforge_console.domain.waiting import WaitReason
from starforge_console.executors.scripting import FakeNode
from starforge_console.ledger.accounts import find_user
from starforge_console.ledger.inputs import write_inputs
from starforge_console.ledger.quotas import change_parts, set_team
from starforge_console.ledger.stored import Store, note_stored
from starforge_console.ledger.tables import jobs

ADA = Holder("user", "ada")
MODEL = HubInput(HubRef("model", "a/b", "main"), "1" * 40)


async def limit(site: Site, holder: Holder = ADA, **parts: int | None) -> None:
    await site.ledger.write(lambda c: change_parts(c, holder, parts))


async def states(site: Site, found: list[JobId]) -> list[str]:
    return [(await site.job(job)).state for job in found]


def test_no_more_start_than_the_quota_allows_and_the_rest_is_told_why(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, FakeNode(name="n1", gpus=8)) as site:
            await limit(site, gpus=3)
            found = [await site.submit() for _ in range(5)]
            await site.dequeue()
            assert (await states(site, found)).count(JobState.QUEUED) == 2
            rows = [await site.job(job) for job in found]
            note = next(row.note for row in rows if row.state == JobState.QUEUED)
            assert note.startswith("quota of user ada: 3 of 3 GPUs in use (")
            assert note.endswith("1 asked for: it can start once 1 of them is given back")

    run(go())


def test_an_attempt_counts_until_it_has_ended_whether_or_not_its_machine_answers(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, FakeNode(name="n1", gpus=8)) as site:
            await limit(site, jobs=1)
            first, attempt = await site.running()
            second = await site.submit()
            await site.ledger.write(lambda c: wish_stop(c, first, 30.0, guard(site.clock.now(), lease=None)))
            await site.dequeue()
            assert (await site.job(second)).state == JobState.QUEUED
            site.end(attempt)
            await site.reconcile()
            await site.dequeue()
            assert (await site.job(second)).state == JobState.PENDING

    run(go())


def test_once_the_hours_of_a_day_are_used_nothing_starts_until_enough_of_them_is_a_day_ago(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, FakeNode(name="n1", gpus=8)) as site:
            await limit(site, gpu_hours=2)
            first, attempt = await site.running()
            site.clock.at += 2.5 * HOUR_S
            second = await site.submit()
            await site.dequeue()
            assert (await site.job(second)).state == JobState.QUEUED
            assert "2.5 of 2 GPU-hours of the last 24 hours used" in (await site.job(second)).note
            assert (await site.job(first)).state == JobState.RUNNING, "what runs goes on"
            site.end(attempt)
            await site.reconcile()
            site.clock.at += 21.5 * HOUR_S
            await site.dequeue()
            assert "0.6 of them have come free" in (await site.job(second)).note
            site.clock.at += 0.6 * HOUR_S
            await site.dequeue()
            assert (await site.job(second)).state == JobState.PENDING

    run(go())


def test_nothing_starts_while_storage_is_full_until_some_is_freed_and_what_runs_goes_on(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, FakeNode(name="n1", gpus=8)) as site:
            await limit(site, storage_gib=1)
            first, _ = await site.running()
            await site.ledger.write(lambda c: note_stored(c, first, {(Store.CHECKPOINTS, 1): 2 * GIB}))
            second = await site.submit()
            for _ in range(2):  # the second of them rests
                await site.dequeue()
                assert "2.0 GiB of 1 GiB on the storage held" in (await site.job(second)).note
            assert await states(site, [first, second]) == [JobState.RUNNING, JobState.QUEUED]
            await site.ledger.write(lambda c: note_stored(c, first, {(Store.CHECKPOINTS, 1): GIB - 1}))
            await site.dequeue()
            assert await states(site, [first, second]) == [JobState.RUNNING, JobState.PENDING]

    run(go())


def test_a_quota_that_is_raised_counts_at_the_next_look(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            await limit(site, gpus=0)
            job = await site.submit()
            await site.dequeue()
            assert "at most 0 may be held" in (await site.job(job)).note
            await limit(site, gpus=None)
            await site.dequeue()
            assert (await site.job(job)).state == JobState.PENDING

    run(go())


def test_the_quota_of_the_team_binds_its_members(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            found = [await site.submit() for _ in range(2)]
            user = await site.ledger.read(lambda c: find_user(c, "ada"))
            await site.ledger.write(lambda c: set_team(c, user or 0, "ml"))
            await limit(site, Holder("team", "ml"), jobs=1)
            await site.dequeue()
            assert sorted(await states(site, found)) == [JobState.PENDING, JobState.QUEUED]

    run(go())


def test_a_job_whose_model_is_not_here_waits_with_how_far_it_is(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            missing = [WaitReason("hf://a/b@main is being fetched: 1.0 GiB of 2.0 GiB")]
            site.loops = Loops(site.new_deps(explain_inputs=lambda inputs: missing if MODEL in inputs.values() else []))
            job, other = await site.submit(), await site.submit()
            column = write_inputs({"model": MODEL})
            await site.ledger.write(lambda c: c.execute(update(jobs).where(jobs.c.id == job).values(inputs=column)))
            await site.dequeue()
            row = await site.job(job)
            assert (row.state, row.note) == (JobState.QUEUED, missing[0].reason)
            assert (await site.job(other)).state == JobState.PENDING
            missing.clear()
            await site.dequeue()
            assert (await site.job(job)).state == JobState.PENDING

    run(go())


def test_a_job_whose_input_can_never_be_had_fails_with_the_reason(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            site.assembly.errors.append(LaunchRefused("an input cannot be had: hf://a/b@main: gated: 403"))
            job = await site.submit()
            await site.dequeue()
            row = await site.job(job)
            assert (row.state, row.reason) == (JobState.FAILED, "launch_refused")
            assert "gated: 403" in row.note

    run(go())

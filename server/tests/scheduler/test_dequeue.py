"""What leaves the queue, where to, and what is said of what stays."""

import json
from dataclasses import replace
from pathlib import Path

from sqlalchemy import Connection, func, select, update

from server.tests.scheduler.support import FLEET, GatedFleet, Loops, Site, open_site, run
from starforge.contract.executor import FleetView
from starforge.contract.ids import JobId
from starforge.contract.observation import Failure, NoSignal
from starforge.contract.states import JobState
from starforge.errors import NodeFault
from starforge_console.domain.claims import UNKNOWN_HOLDER
from starforge_console.domain.reservation import PASSED_AT_MOST
from starforge_console.domain.tokens import hash_token
from starforge_console.domain.waiting import WaitReason
from starforge_console.executors.scripting import FakeNode, Script
from starforge_console.fleets.views import KnownFleets
from starforge_console.ledger.in_flight import list_in_flight
from starforge_console.ledger.queue import list_queued, note_waiting
from starforge_console.ledger.queue_order import list_places
from starforge_console.ledger.queue_places import put_in_queue
from starforge_console.ledger.share_tables import shares
from starforge_console.ledger.tables import attempts, events, jobs
from starforge_console.ledger.views import list_attempts, load_job
from starforge_console.scheduler.snapshots import FAULT_KNOWN_S
from starforge_console.wakeups import job_topic
from starforge_console.web.views import build_waits


def test_a_pass_places_what_fits_and_says_why_the_rest_waits(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            jobs = [await site.submit() for _ in range(3)]
            await site.dequeue()
            assert [(await site.job(job)).state for job in jobs].count(JobState.PENDING) == 2
            left = [job for job in jobs if (await site.job(job)).state == JobState.QUEUED]
            assert "n1: 0 of 2 GPUs free, 1 asked for" in (await site.job(left[0])).note
            assert len(site.fleet.calls("launch")) == 2

    run(go())


def test_what_the_fleets_offer_is_seen_without_a_job_that_waits_for_it(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            site.views.clear()
            await site.loops.dequeue.run_once()
            ((view,),) = site.views
            assert [node.name for node in view.nodes] == ["n1"]

    run(go())


def test_the_series_of_the_gpus_that_an_attempt_got_is_kept(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            known = KnownFleets({})
            await site.die()
            site.loops = Loops(site.new_deps(views_seen=known.note, find_series=known.find_series))
            job, _ = await site.running()
            (attempt,) = await site.ledger.read(lambda c: list_attempts(c, job))
            assert attempt.series == (FakeNode(name="n1").series,)

    run(go())


def test_a_place_that_became_free_takes_the_next_job(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, FakeNode(name="n1", gpus=1)) as site:
            first, attempt = await site.running()
            second = await site.submit()
            await site.dequeue()
            assert (await site.job(second)).state == JobState.QUEUED
            site.end(attempt)
            await site.reconcile()
            await site.dequeue()
            assert (await site.job(first)).state == JobState.SUCCEEDED
            assert (await site.job(second)).state == JobState.PENDING

    run(go())


def test_the_target_stands_in_the_ledger_before_anything_is_launched(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job = await site.submit()
            site.fleet.before_launch.is_closed = True
            await site.loops.dequeue.run_once()
            await site.fleet.before_launch.reached.wait()
            held = (await site.ledger.read(list_in_flight))[0]
            assert (held.id, held.state) == (job, JobState.SUBMITTED)
            assert (held.attempt.target.fleet, held.attempt.target.node) == (FLEET, "n1")
            assert held.attempt.target.name.endswith(held.attempt.id)
            assert site.fleet.starts == {}
            site.fleet.before_launch.opened.set()
            await site.loops.settle_launches()
            assert site.fleet.starts == {held.attempt.id: 1}

    run(go())


def test_the_token_is_kept_as_its_hash(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            _, attempt = await site.running()
            kept = await site.ledger.read(lambda c: c.execute(attempts.select()).one().token_hash)
            assert kept == hash_token(site.assembly.token(attempt))

    run(go())


def test_an_attempt_that_its_machine_does_not_list_yet_keeps_its_place(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, FakeNode(name="n1", gpus=1)) as site:
            site.fleet.before_launch.is_closed = True
            first = await site.submit()
            await site.loops.dequeue.run_once()
            await site.fleet.before_launch.reached.wait()
            second = await site.submit()
            await site.loops.dequeue.run_once()
            assert (await site.job(first)).state == JobState.SUBMITTED
            assert (await site.job(second)).state == JobState.QUEUED
            site.fleet.before_launch.opened.set()
            await site.loops.settle_launches()

    run(go())


def test_a_fleet_that_does_not_answer_gets_nothing_and_is_named(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            site.fleet.make_unreachable("no route to n1")
            job = await site.submit()
            await site.dequeue()
            row = await site.job(job)
            assert (row.state, row.note) == (JobState.QUEUED, f"{FLEET}: no route to n1")
            site.fleet.make_reachable()
            await site.dequeue()
            assert (await site.job(job)).state == JobState.PENDING

    run(go())


def test_whoever_watches_the_fleets_is_told_at_each_look(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            await site.loops.dequeue.look()
            assert [view.fleet for view in site.views[-1]] == [FLEET]
            assert [node.name for node in site.views[-1][0].nodes] == ["n1"]

    run(go())


def test_a_job_whose_machine_is_at_fault_waits_longer_each_time(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job = await site.submit()
            site.assembly.errors += [NodeFault("the storage is not mounted") for _ in range(20)]
            for _ in range(50):
                await site.dequeue()
            assert len(await site.attempts(job)) == 2, "the first fault is tried again at once, the next one is not"
            row = await site.job(job)
            assert (row.state, row.note) == (JobState.QUEUED, "the storage is not mounted")
            begun = []
            for _ in range(120):
                site.clock.at += 1.0
                before = len(await site.attempts(job))
                wait_s = await site.loops.dequeue.run_once()
                assert wait_s <= 15.0
                await site.loops.settle_launches()
                if len(await site.attempts(job)) > before:
                    begun.append(site.clock.at - 1_000.0)
            assert begun == [5, 15, 35, 75]
            site.assembly.errors.clear()
            site.clock.at += 60.0
            await site.dequeue()
            assert (await site.job(job)).state == JobState.PENDING

    run(go())


class BlindFleet(GatedFleet):
    """A fleet that does not know its GPUs until it does."""

    is_blind = True

    async def capacity(self) -> FleetView | NoSignal:
        view = await super().capacity()
        if isinstance(view, NoSignal) or not self.is_blind:
            return view
        return replace(view, nodes=tuple(replace(node, gpus=(), gpus_unknown="driver away") for node in view.nodes))


def test_a_job_that_waited_for_gpus_to_be_known_is_told_when_there_are_too_few(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, FakeNode(name="n1", gpus=0), fleet_kind=BlindFleet) as site:
            job = await site.submit()
            await site.dequeue()
            assert (await site.job(job)).note == "n1: driver away"
            site.fleet.is_blind = False  # type: ignore[attr-defined]  # the site's fleet is a BlindFleet
            await site.dequeue()
            row = await site.job(job)
            assert row.state == JobState.QUEUED
            assert row.note == (
                f"n1: 0 of 0 GPUs free, 1 asked for; {FLEET}: could not run it if it were empty: stop the job and"
                " ask for less, or wait until a larger machine joins"
            )

    run(go())


class LeavingFleet(GatedFleet):
    """A fleet that machine n1 leaves and joins again."""

    has_left = False

    async def capacity(self) -> FleetView | NoSignal:
        view = await super().capacity()
        if isinstance(view, NoSignal) or not self.has_left:
            return view
        return replace(view, nodes=tuple(node for node in view.nodes if node.name != "n1"))


def test_a_job_that_nothing_left_can_hold_is_told_so_when_the_largest_machine_leaves(tmp_path: Path) -> None:
    hopeless = f"{FLEET}: could not run it if it were empty"

    async def go() -> None:
        nodes = (FakeNode(name="n1", gpus=1), FakeNode(name="n2", gpus=0))
        async with open_site(tmp_path, *nodes, fleet_kind=LeavingFleet) as site:
            await site.running()
            job = await site.submit()
            for has_left in (False, True, False):
                site.fleet.has_left = has_left  # type: ignore[attr-defined]  # the site's fleet is a LeavingFleet
                await site.dequeue()
                row = await site.job(job)
                assert (row.state, hopeless in row.note) == (JobState.QUEUED, has_left)

    run(go())


def test_gpus_of_a_container_that_no_job_stands_for_are_named_so(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, FakeNode(name="n1", gpus=1)) as site:
            first, attempt = await site.running()
            await site.ledger.write(lambda c: c.execute(update(jobs).values(state=JobState.FAILED.value)))
            second = await site.submit()
            await site.dequeue()
            assert UNKNOWN_HOLDER in (await site.job(second)).note
            assert [gpu.attempt for gpu in site.views[-1][0].nodes[0].gpus] == [attempt]
            assert (await site.job(first)).state == JobState.FAILED

    run(go())


def test_a_large_fleet_says_each_reason_once_with_the_first_machines_that_give_it(tmp_path: Path) -> None:
    nodes = [FakeNode(name=f"n{number}", gpus=0) for number in range(1, 6)]

    async def go() -> None:
        async with open_site(tmp_path, *nodes, FakeNode(name="small", gpus=1, cpus=0.01)) as site:
            job, _ = await site.running(), await site.submit()
            await site.dequeue()
            waiting = (await site.ledger.read(list_queued))[0]
            assert waiting.id != job[0]
            assert waiting.note == (
                "n1, n2, n3 and 2 more: 0 of 0 GPUs free, 1 asked for; small: 0 of 1 GPUs free, 1 asked for"
                " (1 held by jobs of this console)"
            )
            record = await site.ledger.read(lambda c: load_job(c, waiting.id))
            assert [(row.places, row.more) for row in build_waits(record)] == [(("n1", "n2", "n3"), 2), (("small",), 0)]

    run(go())


def test_a_job_of_another_shape_is_placed_behind_one_that_finds_no_room(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, FakeNode(name="n1", gpus=1)) as site:
            large = [await site.submit() for _ in range(2)]
            wide = {"name": "main", "nodes": 1, "gpus_per_node": 2, "series": None, "cpus": None, "memory_bytes": None}
            await site.ledger.write(lambda c: c.execute(update(jobs).values(pools=json.dumps([wide]))))
            small = await site.submit()
            await site.dequeue()
            assert [(await site.job(job)).state for job in large] == [JobState.QUEUED, JobState.QUEUED]
            assert (await site.job(small)).state == JobState.PENDING

    run(go())


def test_what_was_said_of_a_waiting_job_is_not_written_again(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, FakeNode(name="n1", gpus=0)) as site:
            job = await site.submit()
            await site.dequeue()
            waiter = site.wakeups.subscribe(job_topic(job))
            await site.dequeue()
            assert not await waiter.wait(0)
            assert (await site.job(job)).note.startswith("n1: 0 of 0 GPUs free, 1 asked for; ")

    run(go())


def test_a_full_fleet_writes_no_event_and_moves_no_job(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, FakeNode(name="n1", gpus=2)) as site:
            await site.running()
            waiting = [await site.submit(gpus=1 + number % 3) for number in range(20)]
            await site.dequeue()  # one of them has room
            await site.reconcile()
            before = await site.ledger.read(count_changes)
            for _ in range(5):
                site.clock.at += 61.0
                await site.dequeue()
            assert await site.ledger.read(count_changes) == before
            states = [(await site.job(job)).state for job in waiting]
            assert states.count(JobState.QUEUED) == len(waiting) - 1

    run(go())


def count_changes(connection: Connection) -> tuple[int, int]:
    """How many events there are, and how often jobs have changed."""
    told = connection.execute(select(func.count()).select_from(events)).scalar_one()
    return told, connection.execute(select(func.sum(jobs.c.version))).scalar_one()


def test_a_note_comes_too_late_for_a_job_that_has_moved_on(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            await site.submit()
            seen = (await site.ledger.read(list_queued))[0]
            await site.dequeue()
            await site.ledger.write(lambda c: note_waiting(c, [(seen, [WaitReason("too late")])]))
            assert (await site.job(seen.id)).note != "too late"

    run(go())


def test_a_job_prefers_machines_that_have_not_failed_it(tmp_path: Path) -> None:
    async def go() -> None:
        machines = [FakeNode(name=name, gpus=2) for name in ("n1", "n2", "n3")]
        async with open_site(tmp_path, *machines) as site:
            job = await site.submit()
            site.assembly.errors += [NodeFault("its disk is full") for _ in range(3)]
            for _ in range(60):
                await site.dequeue()
                site.clock.at += 1.0
            # All of them were at fault: then it may be any again.
            assert [one.node for one in await site.attempts(job)] == ["n1", "n2", "n3", "n1"]
            assert (await site.job(job)).state == JobState.PENDING
            other = await site.submit()
            await site.dequeue()
            assert [one.node for one in await site.attempts(other)] == ["n2"], "one job's fault moves no other"

    run(go())


def test_a_job_prefers_machines_that_have_not_ended_it_however_long_it_ran_before(tmp_path: Path) -> None:
    async def go() -> None:
        machines = [FakeNode(name=name, gpus=2) for name in ("n1", "n2")]
        async with open_site(tmp_path, *machines, script=Script(prepare_steps=None)) as site:
            job = await site.submit(retries=3)
            await site.dequeue()
            site.clock.at += 2 * FAULT_KNOWN_S  # its pull stood still
            site.fleet.fail(await site.attempt(job), Failure.NODE_FAULT)
            await go_on(site, job)
            site.fleet.begin(await site.attempt(job))
            await site.reconcile()
            site.clock.at += 2 * FAULT_KNOWN_S
            site.fleet.restart_engine(code=255)
            await go_on(site, job)
            assert [one.reason for one in (await site.attempts(job))[:2]] == ["node_fault", "interrupted"]
            assert [one.node for one in await site.attempts(job)] == ["n1", "n2", "n1"]

    run(go())


async def go_on(site: Site, job: JobId) -> None:
    """The failed job's next attempt is launched, once its wait is over."""
    await site.reconcile()
    retry_at = (await site.job(job)).retry_at
    assert retry_at is not None
    site.clock.at = max(site.clock.at, retry_at)
    await site.dequeue()


def test_a_fault_of_long_ago_is_forgotten(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, FakeNode(name="n1", gpus=2), FakeNode(name="n2", gpus=1)) as site:
            job = await site.submit()
            site.assembly.errors += [NodeFault("its disk is full"), NodeFault("its disk is full")]
            await site.dequeue()
            await site.dequeue()
            site.clock.at += FAULT_KNOWN_S
            await site.dequeue()
            assert [one.node for one in await site.attempts(job)] == ["n1", "n2", "n1"]

    run(go())


def test_whoever_has_used_less_of_late_comes_first_also_after_a_restart(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, FakeNode(name="n1", gpus=1)) as site:
            _, attempt = await site.running()
            older, newer = await site.submit(user="ada"), await site.submit(user="bob")
            site.clock.at += 600.0
            await site.dequeue()
            places = await site.ledger.read(lambda c: list_places(c, 10))
            assert [place.job for place in places] == [newer, older]
            await site.restart()
            assert await site.ledger.read(lambda c: list_places(c, 10)) == places
            site.end(attempt)
            await site.reconcile()
            await site.dequeue()
            assert (await site.state(newer))[0] == JobState.PENDING
            assert (await site.state(older))[0] == JobState.QUEUED

    run(go())


def test_what_a_runner_ended_while_nobody_looked_is_charged_until_it_ended(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            _, attempt = await site.running()
            site.clock.at += 60.0
            site.end(attempt)
            site.clock.at += 3600.0
            await site.reconcile()
            (used,) = (await site.ledger.read(lambda c: c.execute(select(shares.c.gpu_s)).all()))[0]
            assert 59.0 < used <= 60.0

    run(go())


def test_a_job_that_was_passed_often_enough_has_a_machine_kept_also_over_a_restart(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            await site.running()
            large = await site.submit(gpus=2)
            site.clock.at += 1.0
            for turn in range(PASSED_AT_MOST):
                small = await site.submit()
                await site.dequeue()
                assert (await site.state(small))[0] == JobState.PENDING, turn
                await site.reconcile()
                site.end(await site.attempt(small))
                await site.reconcile()
                site.clock.at += 1.0
                if turn == PASSED_AT_MOST // 2:
                    await site.restart()
            late = await site.submit()
            await site.dequeue()
            assert (await site.state(late))[0] == JobState.QUEUED
            assert f"kept for {large}" in (await site.job(late)).note

    run(go())


def test_a_job_that_an_administrator_put_first_is_placed_first(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, FakeNode(name="n1", gpus=1)) as site:
            older = await site.submit()
            site.clock.at += 10.0
            newer = await site.submit()
            await site.ledger.write(lambda c: put_in_queue(c, newer, "first", "root", site.clock.now()))
            await site.dequeue()
            assert [(await site.state(job))[0] for job in (older, newer)] == [JobState.QUEUED, JobState.PENDING]

    run(go())

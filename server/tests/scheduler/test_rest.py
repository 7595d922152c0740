"""A pass in which nothing is different asks nobody for room; whatever is different is decided on at once."""

from collections.abc import Awaitable, Callable
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import update

from server.tests.ledger.builders import guard
from server.tests.scheduler.support import FLEET, GatedFleet, Loops, Site, open_site, run
from starforge.contract.executor import FleetView, NoRoom, PlacementAsk, Target
from starforge.contract.states import JobState
from starforge_console.domain.inputs import HubInput, HubRef
from starforge_console.domain.opening import KeptWindow, WindowOf, Windows
from starforge_console.domain.quota import USER, Holder
from starforge_console.domain.schedule import Snapshot
from starforge_console.domain.waiting import WaitReason
from starforge_console.domain.window_syntax import parse_window
from starforge_console.ledger.inputs import write_inputs
from starforge_console.ledger.maintenance import begin_maintenance, end_maintenance
from starforge_console.ledger.queue_places import put_in_queue
from starforge_console.ledger.quotas import change_parts
from starforge_console.ledger.tables import jobs
from starforge_console.ledger.windows import WindowLine, put_window
from starforge_console.scheduler.rest import RESTS_AT_MOST_S, build_basis

MODEL = HubInput(HubRef("model", "a/b", "main"), "0" * 40)


BESIDE_THE_SNAPSHOT = {"now", "name_attempt", "explain_hold", "find_closed"}
"""The time; how attempts are named; and what windows, maintenance and inputs say, which the basis has as they are."""


class AskedFleet(GatedFleet):
    """Counts how often it was asked for room."""

    asked = 0

    def place(self, ask: PlacementAsk, view: FleetView) -> Target | NoRoom:
        self.asked += 1
        return super().place(ask, view)


class Unlike(list[object]):
    """Is empty, and equal to nothing but itself."""

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:  # type: ignore[override]  # a list has none
        return id(self)


async def count_asked(site: Site) -> int:
    """How often the fleet is asked in the next pass."""
    assert isinstance(site.fleet, AskedFleet)
    before = site.fleet.asked
    await site.loops.dequeue.run_once()
    return site.fleet.asked - before


async def rest(site: Site) -> None:
    """Passes until one has changed nothing."""
    for _ in range(3):
        await site.dequeue()
    assert await count_asked(site) == 0


async def limit(site: Site) -> None:
    await site.ledger.write(lambda c: change_parts(c, Holder(USER, "ada"), {"jobs": 9}))


async def submit(site: Site) -> None:
    await site.submit(gpus=1)


async def put_first(site: Site) -> None:
    waiting = await site.submit(gpus=2)
    await rest(site)
    await site.ledger.write(lambda c: put_in_queue(c, waiting, "first", "root", site.clock.now()))


async def end_running(site: Site) -> None:
    (running,) = await site.in_flight()
    site.end(running.attempt.id)
    await site.reconcile()


async def wait_long(site: Site) -> None:
    site.clock.at += RESTS_AT_MOST_S


async def set_clock_back(site: Site) -> None:
    site.clock.at -= 1.0


CHANGES: list[Callable[[Site], Awaitable[None]]] = [limit, submit, put_first, end_running, wait_long, set_clock_back]


@pytest.mark.parametrize("change", CHANGES, ids=[change.__name__ for change in CHANGES])
def test_a_pass_decides_again_once_anything_is_different(
    tmp_path: Path, change: Callable[[Site], Awaitable[None]]
) -> None:
    async def go() -> None:
        async with open_site(tmp_path, fleet_kind=AskedFleet) as site:
            await site.running()
            await site.submit(gpus=2)
            await rest(site)
            await change(site)
            assert await count_asked(site) > 0

    run(go())


@pytest.mark.parametrize("part", sorted({one.name for one in fields(Snapshot)} - BESIDE_THE_SNAPSHOT))
def test_every_part_of_a_snapshot_is_compared(part: str) -> None:
    def basis(snapshot: Snapshot) -> object:
        return build_basis(snapshot, Windows(), None, lambda _inputs: ())

    snapshot = Snapshot(queued=[], views={}, place={})
    assert basis(replace(snapshot)) == basis(snapshot)
    assert basis(replace(snapshot, **{part: Unlike()})) != basis(snapshot)  # type: ignore[arg-type]  # any part


def test_a_job_that_finds_no_room_is_asked_about_once_while_nothing_changes(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, fleet_kind=AskedFleet) as site:
            _, attempt = await site.running()
            waiting = await site.submit(gpus=2)
            await rest(site)
            told = (await site.job(waiting)).note
            assert "GPU" in told
            site.clock.at += 15.0
            assert await count_asked(site) == 0
            assert (await site.job(waiting)).note == told
            site.end(attempt)
            await site.reconcile()
            await site.dequeue()
            assert (await site.job(waiting)).state == JobState.PENDING

    run(go())


def test_a_window_that_opens_ends_the_rest_on_the_second(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, fleet_kind=AskedFleet) as site:
            site.clock.at = datetime(2026, 7, 1, 7, 59, 30, tzinfo=UTC).timestamp()
            kept = KeptWindow(WindowOf("fleet", FLEET), parse_window("UTC", ["mon-sun 08:00-20:00"]))
            line = WindowLine(kept=kept, set_by="root", set_at=site.clock.at)
            await site.ledger.write(lambda c: put_window(c, line))
            job = await site.submit()
            for _ in range(3):
                assert await site.loops.dequeue.run_once() <= 30.0
            assert (await site.job(job)).state == JobState.QUEUED
            site.clock.at += 30.0
            await site.dequeue()
            assert (await site.job(job)).state == JobState.PENDING

    run(go())


def test_a_maintenance_that_ends_ends_the_rest(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, fleet_kind=AskedFleet) as site:
            now = guard(site.clock.now())
            await site.ledger.write(lambda c: begin_maintenance(c, "root", "new cables", now))
            job = await site.submit()
            await rest(site)
            await site.ledger.write(end_maintenance)
            await site.dequeue()
            assert (await site.job(job)).state == JobState.PENDING

    run(go())


def test_an_input_that_arrives_ends_the_rest(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, fleet_kind=AskedFleet) as site:
            missing = [WaitReason("it is being fetched")]
            site.loops = Loops(site.new_deps(explain_inputs=lambda _inputs: missing))
            job = await site.submit()
            await site.ledger.write(lambda c: c.execute(update(jobs).values(inputs=write_inputs({"model": MODEL}))))
            await rest(site)
            missing.clear()
            await site.dequeue()
            assert (await site.job(job)).state == JobState.PENDING

    run(go())

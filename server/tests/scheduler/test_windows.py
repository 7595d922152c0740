"""Windows: what is queued waits, what runs ends in time and goes on by itself; each edge works once."""

from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from server.tests.ledger.builders import guard
from server.tests.scheduler.support import FLEET, Site, open_site, run
from starforge.contract.ids import JobId
from starforge.contract.states import DesiredState, JobState, has_ended_for_good
from starforge_console.domain.opening import KeptWindow, WindowKind, WindowOf
from starforge_console.domain.window_syntax import parse_window
from starforge_console.domain.wishes import Wish
from starforge_console.executors.scripting import Script
from starforge_console.ledger.accounts import find_user
from starforge_console.ledger.quotas import set_team
from starforge_console.ledger.views import list_events
from starforge_console.ledger.window_tables import windows
from starforge_console.ledger.windows import WindowLine, put_window, remove_window
from starforge_console.ledger.wishes import wish

ZONE = "Europe/Berlin"
GRACE_S = 30.0
"""Of every job that `Site.submit` makes."""
CLOSED = (JobState.STOPPED, "window_closed")


def at(text: str) -> float:
    """The instant of a local time of July 2026: the day of the month, and the time."""
    day, time = text.split()
    return datetime.fromisoformat(f"2026-07-{day}T{time}").replace(tzinfo=ZoneInfo(ZONE)).timestamp()


async def set_window(
    site: Site, *spans: str, kind: WindowKind = "fleet", name: str = FLEET, goes_on: bool = True
) -> None:
    kept = KeptWindow(WindowOf(kind, name), parse_window(ZONE, spans), goes_on=goes_on)
    line = WindowLine(kept=kept, set_by="root", set_at=site.clock.at)
    await site.ledger.write(lambda c: put_window(c, line))


async def drop_window(site: Site, kind: WindowKind = "fleet", name: str = FLEET) -> None:
    assert await site.ledger.write(lambda c: remove_window(c, WindowOf(kind, name), site.clock.at))


async def turn(site: Site) -> None:
    """A pass of the queue and what backends say of it."""
    await site.dequeue()
    await site.reconcile()
    await site.reconcile()


async def closings(site: Site, job: JobId) -> int:
    """How often its timeline tells of a closing."""
    events = await site.ledger.read(lambda c: list_events(c, job, limit=1_000))
    return sum(event.kind == "timeline" and "closes" in event.note for event in events)


@pytest.mark.parametrize(
    ("kind", "name"), [("fleet", FLEET), ("team", "vision"), ("profile", "any")], ids=["fleet", "team", "profile"]
)
def test_a_queued_job_waits_for_its_window_and_says_which_and_until_when(
    tmp_path: Path, kind: WindowKind, name: str
) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            site.clock.at = at("06 12:00:00")  # a Monday
            await set_window(site, "mon-fri 20:00-08:00", kind=kind, name=name)
            job = await site.submit()
            user = await site.ledger.read(lambda c: find_user(c, "ada"))
            assert user is not None
            await site.ledger.write(lambda c: set_team(c, user, "vision"))
            await site.dequeue()
            told = (await site.job(job)).note
            assert f"the window of {kind} {name}: is closed: it may start Mon 2026-07-06 20:00 {ZONE}" in told
            site.clock.at = at("06 19:59:58.5")
            assert await site.loops.dequeue.run_once() == pytest.approx(1.5)
            assert (await site.job(job)).state == JobState.QUEUED
            assert (await site.job(job)).note == told
            site.clock.at = at("06 20:00:00")
            await turn(site)
            assert (await site.job(job)).state == JobState.RUNNING

    run(go())


def test_windows_of_others_hold_nothing(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            site.clock.at = at("06 12:00:00")
            await set_window(site, "mon-fri 20:00-08:00", name="other")
            await set_window(site, "mon-fri 20:00-08:00", kind="team", name="speech")
            await set_window(site, "mon-fri 20:00-08:00", kind="profile", name="h200")
            await set_window(site, "mon-fri 20:00-08:00", kind="profile", name="cpu")
            job = await site.submit()
            await turn(site)
            assert (await site.job(job)).state == JobState.RUNNING

    run(go())


def test_nothing_starts_where_its_end_would_begin_before_it_could(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            await set_window(site, "mon-fri 08:00-20:00")
            site.clock.at = at("06 20:00:00") - GRACE_S - 1
            early = await site.submit()
            await site.dequeue()
            assert (await site.job(early)).state in {JobState.SUBMITTED, JobState.PENDING}
            site.clock.at += 1
            late = await site.submit()
            await site.dequeue()
            row = await site.job(late)
            assert row.state == JobState.QUEUED
            assert "closes Mon 2026-07-06 20:00" in row.note
            assert "it may start Tue 2026-07-07 08:00" in row.note

    run(go())


def test_a_job_ends_in_time_and_goes_on_at_the_next_opening(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            await set_window(site, "mon-fri 08:00-20:00")
            site.clock.at = at("06 12:00:00")
            job, attempt = await site.running()
            site.clock.at = at("06 20:00:00") - GRACE_S - 1
            assert await site.loops.dequeue.run_once() == pytest.approx(1.0)
            assert site.assembly.told == []
            site.clock.at += 1
            await site.dequeue()
            (held,) = await site.in_flight()
            assert (held.state, held.desired, held.stop_by) == (JobState.RUNNING, DesiredState.STOP, at("06 20:00:00"))
            await site.reconcile()
            assert site.assembly.told == [(attempt, "stop")]
            await site.reconcile()
            row = await site.job(job)
            assert (row.state, row.reason, row.retry_at) == (*CLOSED, at("07 08:00:00"))
            assert not has_ended_for_good(row.state, row.retry_at)
            await turn(site)
            assert await site.state(job) == CLOSED
            site.clock.at = at("07 08:00:00")
            await turn(site)
            assert (await site.job(job)).state == JobState.RUNNING
            assert [one.number for one in await site.attempts(job)] == [1, 2]
            reasons = await site.reasons(job)
            assert (reasons.count("window_closed"), reasons.count("window_opened")) == (1, 1)

    run(go())


def test_a_job_that_ends_by_itself_while_its_window_closes_has_ended_for_good(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, script=Script(stop_steps=None)) as site:
            await set_window(site, "mon-fri 08:00-20:00")
            site.clock.at = at("06 12:00:00")
            job, attempt = await site.running()
            site.clock.at = at("06 19:59:40")
            await site.dequeue()
            site.end(attempt)
            await site.reconcile()
            row = await site.job(job)
            assert (row.state, row.retry_at) == (JobState.SUCCEEDED, None)
            site.clock.at = at("07 08:00:00")
            await turn(site)
            assert (await site.job(job)).state == JobState.SUCCEEDED

    run(go())


def test_what_is_not_to_go_on_stays_stopped(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            await set_window(site, "mon-fri 08:00-20:00")
            await set_window(site, "mon-fri 08:00-20:00", kind="profile", name="any", goes_on=False)
            site.clock.at = at("06 12:00:00")
            job, _ = await site.running()
            site.clock.at = at("06 20:00:00")
            await turn(site)
            row = await site.job(job)
            assert (row.state, row.reason, row.retry_at) == (*CLOSED, None)
            site.clock.at = at("07 08:00:00")
            await turn(site)
            assert await site.state(job) == CLOSED

    run(go())


@pytest.mark.parametrize("is_confirmed", [True, False], ids=["once it is stopped", "while it ends"])
def test_a_job_that_its_user_stops_does_not_go_on(tmp_path: Path, *, is_confirmed: bool) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            await set_window(site, "mon-fri 08:00-20:00")
            site.clock.at = at("06 12:00:00")
            job, _ = await site.running()
            site.clock.at = at("06 20:00:00")
            await site.dequeue()
            if is_confirmed:
                await turn(site)
            await site.stop(job)
            site.clock.at = at("07 08:00:00")
            await turn(site)
            row = await site.job(job)
            assert (row.state, row.retry_at) == (JobState.STOPPED, None)

    run(go())


@pytest.mark.parametrize("desired", [DesiredState.STOP, DesiredState.PAUSE])
def test_a_closing_changes_nothing_of_what_its_user_ends_already(tmp_path: Path, desired: DesiredState) -> None:
    async def go() -> None:
        async with open_site(tmp_path, script=Script(stop_steps=None)) as site:
            await set_window(site, "mon-fri 08:00-20:00")
            site.clock.at = at("06 19:00:00")
            job, attempt = await site.running()
            asked = guard(site.clock.at, lease=None)
            await site.ledger.write(lambda c: wish(c, job, Wish(desired=desired, grace_s=7200.0), asked))
            (before,) = await site.in_flight()
            site.clock.at = at("06 20:00:00")
            await turn(site)
            (after,) = await site.in_flight()
            assert (after.desired, after.stop_by, after.wished_for) == (desired, before.stop_by, None)
            assert (await site.job(job)).retry_at is None
            assert await closings(site, job) == 0
            site.fleet.finish(attempt, 143)
            await site.reconcile()
            assert (await site.job(job)).reason == f"{desired.value}_confirmed"

    run(go())


def test_a_launch_that_was_not_sent_goes_back_to_the_queue(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            site.clock.at = at("06 12:00:00")
            site.fleet.before_launch.is_closed = True
            job = await site.submit()
            await site.loops.dequeue.run_once()
            await site.fleet.before_launch.reached.wait()
            await set_window(site, "mon-fri 20:00-08:00")
            await site.loops.dequeue.run_once()
            await site.restart()
            await site.reconcile()
            row = await site.job(job)
            assert (row.state, row.desired, row.retry_at) == (JobState.QUEUED, DesiredState.RUN, None)
            assert site.fleet.starts == {}

    run(go())


def test_a_window_that_is_set_or_removed_works_from_the_next_pass_on(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            site.clock.at = at("06 12:00:00")
            job, _ = await site.running()
            await set_window(site, "mon-fri 20:00-08:00")
            await turn(site)
            row = await site.job(job)
            assert (row.state, row.reason, row.retry_at) == (*CLOSED, at("06 20:00:00"))
            await set_window(site, "mon-fri 13:00-08:00")
            await turn(site)
            assert (await site.job(job)).retry_at == at("06 13:00:00")
            await drop_window(site)
            await turn(site)
            assert (await site.job(job)).state == JobState.RUNNING
            await set_window(site, "mon-fri 20:00-08:00")
            await site.dequeue()
            await drop_window(site)
            await turn(site)
            await turn(site)
            assert (await site.job(job)).state == JobState.RUNNING
            assert [one.number for one in await site.attempts(job)] == [1, 2, 3]

    run(go())


def test_a_job_whose_windows_never_open_together_again_stays_stopped_and_is_told(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            await set_window(site, "mon-fri 08:00-20:00")
            site.clock.at = at("06 12:00:00")
            job, _ = await site.running()
            site.clock.at = at("06 20:00:00")
            await turn(site)
            await set_window(site, "mon-fri 20:00-08:00", kind="profile", name="any")
            await turn(site)
            row = await site.job(job)
            assert (row.state, row.reason, row.retry_at) == (*CLOSED, None)
            events = await site.ledger.read(lambda c: list_events(c, job, limit=100))
            assert any("never open again" in event.note for event in events)
            queued = await site.submit()
            await site.dequeue()
            assert "never, for it is not open again with all others" in (await site.job(queued)).note

    run(go())


def test_each_edge_works_once_across_restarts(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, script=Script(stop_steps=None)) as site:
            await set_window(site, "mon-fri 08:00-20:00")
            site.clock.at = at("06 12:00:00")
            job, attempt = await site.running()
            site.clock.at = at("06 19:59:45")
            for _ in range(3):
                await site.dequeue()
                await site.restart()
            assert await closings(site, job) == 1
            assert [one.stop_by for one in await site.in_flight()] == [at("06 20:00:15")]
            site.fleet.finish(attempt, 143)
            await site.reconcile()
            for _ in range(3):
                site.clock.at = at("07 08:00:00")
                await site.restart()
                await turn(site)
            reasons = await site.reasons(job)
            assert (reasons.count("window_closed"), reasons.count("window_opened")) == (1, 1)

    run(go())


def test_a_clock_that_is_put_back_repeats_no_edge(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            await set_window(site, "mon-fri 08:00-20:00")
            site.clock.at = at("06 08:00:00")
            job, _ = await site.running()
            site.clock.at = at("06 07:30:00")
            await turn(site)
            assert (await site.job(job)).state == JobState.RUNNING, "it is not taken to the time before the opening"
            site.clock.at = at("06 20:00:00")
            await turn(site)
            assert await site.state(job) == CLOSED
            site.clock.at = at("06 19:00:00")
            await turn(site)
            assert await site.state(job) == CLOSED, "the window closed already"
            site.clock.at = at("07 08:00:00")
            await turn(site)
            reasons = await site.reasons(job)
            assert (reasons.count("window_closed"), reasons.count("window_opened")) == (1, 1)

    run(go())


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 14), st.booleans()), min_size=4, max_size=14))
def test_no_closing_and_no_opening_works_twice_whatever_the_clock_does(steps: list[tuple[int, bool]]) -> None:
    async def go(folder: Path) -> None:
        async with open_site(folder) as site:
            await set_window(site, "mon-sun 08:00-20:00")
            site.clock.at = latest = at("06 12:00:00")
            job, _ = await site.running()
            for hours, is_restarted in steps:
                site.clock.at += hours * 3600
                latest = max(latest, site.clock.at)
                if is_restarted:
                    await site.restart()
                await turn(site)
                reasons = await site.reasons(job)
                days = [at(f"{day:02d} 20:00:00") for day in range(6, 31)]
                closed, opened = reasons.count("window_closed"), reasons.count("window_opened")
                assert closed <= sum(end - GRACE_S <= latest for end in days)
                assert opened <= sum(end + 12 * 3600 <= latest for end in days)
                assert opened <= closed <= opened + 1

    with TemporaryDirectory() as folder:
        run(go(Path(folder)))


@pytest.mark.parametrize(
    ("kind", "name"), [("fleet", FLEET), ("team", "vision"), ("profile", "any")], ids=["fleet", "team", "profile"]
)
def test_a_zone_that_vanished_holds_what_its_window_binds_and_nothing_else(
    tmp_path: Path, kind: WindowKind, name: str
) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            site.clock.at = at("06 21:00:00")
            await set_window(site, "mon-sun 20:00-08:00", kind=kind, name=name)
            running, _ = await site.running()
            user = await site.ledger.read(lambda c: find_user(c, "ada"))
            assert user is not None
            await site.ledger.write(lambda c: set_team(c, user, "vision"))
            await site.ledger.write(lambda c: c.execute(update(windows).values(zone="Nowhere/Gone")))
            waiting = await site.submit()
            await turn(site)
            held = await site.job(waiting)
            assert held.state == JobState.QUEUED
            assert f"the window of {kind} {name}" in held.note
            assert "'Nowhere/Gone', of which this console's machine has no table any more" in held.note
            assert (await site.job(running)).state == JobState.RUNNING
            await set_window(site, "mon-sun 20:00-08:00", kind=kind, name=name)
            await turn(site)
            assert (await site.job(waiting)).state == JobState.RUNNING

    run(go())


def test_a_job_that_a_window_stopped_waits_while_its_zone_is_gone_and_is_not_given_up(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            site.clock.at = at("06 07:00:00")
            await set_window(site, "mon-sun 20:00-08:00", kind="profile", name="any")
            job, _ = await site.running()
            site.clock.at = at("06 08:00:00")
            for _ in range(3):
                await turn(site)
            assert await site.state(job) == CLOSED
            await site.ledger.write(lambda c: c.execute(update(windows).values(zone="Nowhere/Gone")))
            site.clock.at = at("06 21:00:00")
            await turn(site)
            assert await site.state(job) == CLOSED
            assert (await site.job(job)).retry_at is not None
            await site.ledger.write(lambda c: c.execute(update(windows).values(zone=ZONE)))
            await turn(site)
            assert (await site.job(job)).state == JobState.RUNNING

    run(go())

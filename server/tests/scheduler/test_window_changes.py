"""Windows and teams that change in the middle of a look at them: what was read before decides nothing any more."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sqlalchemy import Connection

from server.tests.scheduler.support import FLEET, Site, open_site, run
from server.tests.scheduler.test_windows import CLOSED, at, set_window, turn
from starforge.contract.ids import JobId
from starforge.contract.states import JobState
from starforge_console.domain.opening import KeptWindow, WindowOf
from starforge_console.domain.window_syntax import parse_window
from starforge_console.ledger.database import Database
from starforge_console.ledger.people import change_team
from starforge_console.ledger.windows import WindowLine, put_window, remove_window

T = TypeVar("T")


class OvertakenLedger(Database):
    """A ledger where somebody else writes `first` before the next write of the console."""

    first: Callable[[Connection], Any] | None = None

    async def write(self, work: Callable[[Connection], T]) -> T:
        first, self.first = self.first, None
        if first is not None:
            await super().write(first)
        return await super().write(work)


def overtake(site: Site, first: Callable[[Connection], Any]) -> None:
    assert isinstance(site.ledger, OvertakenLedger)
    site.ledger.first = first


async def stop_by_window(site: Site) -> JobId:
    """A job that its fleet's window has stopped, to go on in the evening; it is 08:00:01."""
    site.clock.at = at("06 07:00:00")
    await set_window(site, "mon-sun 20:00-08:00")
    job, _ = await site.running()
    site.clock.at = at("06 08:00:01")
    for _ in range(3):
        await turn(site)
    assert await site.state(job) == CLOSED
    return job


def test_a_window_that_is_removed_while_its_job_is_put_off_puts_it_off_no_more(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, ledger_kind=OvertakenLedger) as site:
            job = await stop_by_window(site)
            await set_window(site, "mon-sun 21:00-08:00")  # and so it is looked at now, and put off
            site.clock.at += 1.0
            overtake(site, lambda c: remove_window(c, WindowOf("fleet", FLEET), site.clock.at))
            for _ in range(3):
                await turn(site)
            assert (await site.job(job)).state == JobState.RUNNING

    run(go())


def test_a_window_that_is_mended_while_its_job_is_given_up_does_not_lose_it(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, ledger_kind=OvertakenLedger) as site:
            job = await stop_by_window(site)
            await set_window(site, "mon-sun 09:00-10:00", kind="profile", name="any")
            await set_window(site, "mon-sun 20:00-08:00")  # both are never open together
            site.clock.at += 1.0
            overtake(site, lambda c: remove_window(c, WindowOf("profile", "any"), site.clock.at))
            await turn(site)
            site.clock.at = at("06 20:00:00")
            await turn(site)
            await turn(site)
            assert (await site.job(job)).state == JobState.RUNNING

    run(go())


@pytest.mark.parametrize("is_removed", [True, False], ids=["removed", "opened"])
def test_a_window_that_changes_while_it_closes_ends_nothing(tmp_path: Path, *, is_removed: bool) -> None:
    async def go() -> None:
        async with open_site(tmp_path, ledger_kind=OvertakenLedger) as site:
            site.clock.at = at("06 07:00:00")
            await set_window(site, "mon-sun 20:00-08:00", goes_on=False)
            job, _ = await site.running()
            site.clock.at = at("06 08:00:00")
            of = WindowOf("fleet", FLEET)
            always = WindowLine(
                kept=KeptWindow(of, parse_window("UTC", ["mon-sun 00:00-24:00"])), set_by="root", set_at=site.clock.at
            )
            overtake(site, lambda c: remove_window(c, of, site.clock.at) if is_removed else put_window(c, always))
            for _ in range(3):
                await turn(site)
            assert (await site.job(job)).state == JobState.RUNNING

    run(go())


@pytest.mark.parametrize("team", ["speech", None])
def test_a_job_that_its_teams_window_stopped_goes_on_in_a_team_that_has_none(tmp_path: Path, team: str | None) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            site.clock.at = at("06 07:00:00")
            await set_window(site, "mon-sun 20:00-08:00", kind="team", name="vision")
            job = await site.submit()
            await site.submit(user="bob")
            await site.ledger.write(lambda c: change_team(c, "ada", "vision"))
            await turn(site)
            site.clock.at = at("06 08:00:00")
            for _ in range(3):
                await turn(site)
            assert await site.state(job) == CLOSED
            await site.ledger.write(lambda c: change_team(c, "bob", team))
            await turn(site)
            assert await site.state(job) == CLOSED
            await site.ledger.write(lambda c: change_team(c, "ada", team))
            for _ in range(3):
                await turn(site)
            assert (await site.job(job)).state == JobState.RUNNING

    run(go())

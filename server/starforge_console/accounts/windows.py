"""When fleets, teams and profiles may run, as administrators say it and everybody may read it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from starforge.errors import NotFound
from starforge.said.sentence import say
from starforge_console.accounts.acts import check_profiles, check_team
from starforge_console.clock import Clock
from starforge_console.domain.nearest import say_nearest
from starforge_console.domain.opening import KeptWindow, WindowOf, explain_lost
from starforge_console.domain.window_syntax import knows_zone, parse_window
from starforge_console.domain.windows import Edge, is_open, list_edges
from starforge_console.ledger.accounts import Account
from starforge_console.ledger.audit import audited
from starforge_console.ledger.database import Database
from starforge_console.ledger.fleets import list_fleets
from starforge_console.ledger.gpu_series import list_added_series
from starforge_console.ledger.quotas import list_members
from starforge_console.ledger.windows import WindowLine, list_windows, put_window, remove_window
from starforge_console.wakeups import QUEUE, Wakeups


@dataclass(frozen=True, slots=True, kw_only=True)
class Hours:
    """A window as it is written."""

    zone: str
    open: Sequence[str]
    without: Sequence[str] = ()
    goes_on: bool = True


@dataclass(frozen=True, slots=True)
class WindowNow:
    """A window, and how it is at a moment; `change` is its next edge, None where none is in sight.

    `lost` says why nobody can tell that: this machine has no table of its time zone any more.
    """

    line: WindowLine
    is_open: bool
    change: Edge | None
    lost: str = ""


class NextEdge(NamedTuple):
    """An edge, and of which window."""

    edge: Edge
    kept: KeptWindow


class OpeningHours:
    """The windows of one console."""

    def __init__(self, ledger: Database, clock: Clock, wakeups: Wakeups) -> None:
        self._ledger = ledger
        self._clock = clock
        self._wakeups = wakeups

    async def list_all(self) -> Sequence[WindowNow]:
        """All windows, fleets first, by name."""
        return [self._look(line) for line in await self._ledger.read(list_windows)]

    async def list_for(self, account: Account) -> Sequence[WindowNow]:
        """Those that may bind a job of this user: of fleets, of profiles, and the team's; administrators see all."""
        lines, members = await self._ledger.read(lambda c: (list_windows(c), list_members(c)))
        team = members[account.user_id].team
        return [
            self._look(line)
            for line in lines
            if account.operates or line.kept.of.kind != "team" or line.kept.of.name == team
        ]

    def list_edges(self, windows: Sequence[WindowNow], count: int) -> Sequence[NextEdge]:
        """The next edges of these windows, each by itself, in order."""
        now = self._clock.now()
        known = [one.line.kept for one in windows if knows_zone(one.line.kept.window.zone)]
        edges = [NextEdge(edge, kept) for kept in known for edge in list_edges([kept.window], now, count)]
        return sorted(edges, key=lambda one: one.edge.at)[:count]

    async def put(self, of: WindowOf, hours: Hours, by: str) -> WindowNow:
        """Give a fleet, a team or a profile this window, in place of the one before; what runs hears of it at once.

        Raises:
            InputError: the window cannot be read, or there is no such profile.
            NotFound: there is no such fleet.

        """
        window = parse_window(hours.zone, hours.open, hours.without)
        await self._check_name(of)
        kept = KeptWindow(of, window, goes_on=hours.goes_on)
        line = WindowLine(kept=kept, set_by=by, set_at=self._clock.now())
        told = say("did.window_set", of=str(of), hours=f"{', '.join(hours.open)} ({hours.zone})")
        await self._ledger.write(audited(lambda c: put_window(c, line), told))
        self._wakeups.notify(QUEUE)
        return self._look(line)

    async def remove(self, of: WindowOf) -> None:
        """Let it run at any time. Raises NotFound where it has no window."""
        now = self._clock.now()
        told = say("did.window_removed", of=str(of))
        removed, left = await self._ledger.write(
            audited(
                lambda c: (remove_window(c, of, now), list_windows(c)),
                lambda done: told if done[0] else None,
            )
        )
        if not removed:
            known = [str(line.kept.of) for line in left]
            raise NotFound(say("form.no_window", of=str(of)), next_step=say_nearest(str(of), known) if known else "")
        self._wakeups.notify(QUEUE)

    def _look(self, line: WindowLine) -> WindowNow:
        """One whose time zone is not known here any more counts as closed: nothing starts under it."""
        if not knows_zone(line.kept.window.zone):
            return WindowNow(line, is_open=False, change=None, lost=explain_lost([line.kept]).reason)
        now, windows = self._clock.now(), [line.kept.window]
        return WindowNow(line, is_open(windows, now), next(iter(list_edges(windows, now, 1)), None))

    async def _check_name(self, of: WindowOf) -> None:
        if of.kind == "team":
            check_team(of.name)
            return
        if of.kind == "fleet":
            known = {fleet.name for fleet in await self._ledger.read(list_fleets)}
            if of.name not in known:
                raise NotFound(say("form.no_fleet", name=repr(of.name)), next_step=say_nearest(of.name, known))
            return
        added = {one.series for one in await self._ledger.read(list_added_series)}
        check_profiles([of.name], added)

"""Users with their teams, and the limits of both, as administrators change them while the console serves."""

from collections.abc import Sequence
from dataclasses import fields

from starforge.errors import NotFound
from starforge.wording import describe_nearest
from starforge_console.accounts.quotas import check_profiles, check_series, check_team
from starforge_console.clock import Clock
from starforge_console.domain.quota import TEAM, USER, Holder, Limit
from starforge_console.domain.statement import QuotaLine
from starforge_console.ledger.database import Database
from starforge_console.ledger.gpu_series import list_added_series
from starforge_console.ledger.people import Person, change_team, list_people, load_person
from starforge_console.ledger.quotas import change_parts, drop_limit, load_quotas
from starforge_console.ledger.statements import list_all, load_lines
from starforge_console.wakeups import QUEUE, Wakeups


class People:
    """The users of one console."""

    def __init__(self, ledger: Database, wakeups: Wakeups, clock: Clock) -> None:
        self._ledger = ledger
        self._wakeups = wakeups
        self._clock = clock

    async def list_all(self) -> Sequence[Person]:
        """Every user, in the order in which they came."""
        return await self._ledger.read(list_people)

    async def list_limits(self) -> Sequence[QuotaLine]:
        """Every limit, with what counts against it now."""
        now = self._clock.now()
        return await self._ledger.read(lambda c: list_all(c, now))

    async def set_team(self, name: str, team: str | None) -> Person:
        """Let a user belong to `team`, or to none. Raises NotFound, InputError."""
        chosen = None if team is None else check_team(team)
        person = await self._ledger.write(lambda c: change_team(c, name, chosen))
        self._wakeups.notify(QUEUE)
        return person

    async def set_limit(self, holder: Holder, limit: Limit) -> QuotaLine:
        """Give a user or a team this limit, in place of the one before.

        Raises:
            NotFound: there is no such user.
            InputError: the name cannot be a team's, or a series or profile is unknown.

        """
        if holder.kind == TEAM:
            check_team(holder.name)
        if holder.kind == USER:
            await self._ledger.read(lambda c: load_person(c, holder.name))
        added = [one.series for one in await self._ledger.read(list_added_series)]
        check_series(limit.series or (), added)
        check_profiles(limit.profiles or (), added)
        parts = {one.name: getattr(limit, one.name) for one in fields(Limit)}
        now = self._clock.now()
        line = await self._ledger.write(lambda c: load_lines(c, {holder: change_parts(c, holder, parts)}, now))
        self._wakeups.notify(QUEUE)
        return line[0]

    async def remove_limit(self, holder: Holder) -> None:
        """Let a user or a team have no limit. Raises NotFound where there was none."""
        dropped, known = await self._ledger.write(
            lambda c: (drop_limit(c, holder), [str(one) for one in load_quotas(c).limits])
        )
        if not dropped:
            raise NotFound(f"{holder} has no quota", next_step=describe_nearest(str(holder), known))
        self._wakeups.notify(QUEUE)

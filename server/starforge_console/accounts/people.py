"""Users with their teams, and the limits of both, as administrators change them while the console serves."""

from collections.abc import Sequence
from dataclasses import fields

from starforge_console.accounts import acts
from starforge_console.accounts.sign_in import Accounts
from starforge_console.accounts.tokens import Issued
from starforge_console.clock import Clock
from starforge_console.domain.quota import Holder, Limit
from starforge_console.domain.roles import Role
from starforge_console.domain.statement import QuotaLine
from starforge_console.ledger.accounts import Account
from starforge_console.ledger.database import Database
from starforge_console.ledger.people import Person, list_people, load_person
from starforge_console.ledger.statements import list_all, load_lines
from starforge_console.wakeups import QUEUE, Wakeups


class People:
    """The users of one console."""

    def __init__(self, ledger: Database, wakeups: Wakeups, clock: Clock, accounts: Accounts) -> None:
        self._ledger = ledger
        self._wakeups = wakeups
        self._clock = clock
        self._accounts = accounts

    async def list_all(self) -> Sequence[Person]:
        """Every user, in the order in which they came."""
        return await self._ledger.read(list_people)

    async def load(self, name: str) -> Person:
        """The user of that name. Raises NotFound."""
        return await self._ledger.read(lambda c: load_person(c, name))

    async def list_limits(self) -> Sequence[QuotaLine]:
        """Every limit, with what counts against it now."""
        now = self._clock.now()
        return await self._ledger.read(lambda c: list_all(c, now))

    async def add(self, name: str, role: Role) -> Person:
        """A new user, who can sign in once somebody makes a link for them. Raises InputError, Conflict."""
        return await self._ledger.write(acts.build_user(name, role, self._clock.now()))

    async def set_role(self, name: str, role: Role) -> Person:
        """Give a user another role, at once. Raises NotFound, and Conflict for the last administrator."""
        person = await self._ledger.write(acts.build_role(name, role))
        self._accounts.forget_all()
        return person

    async def set_active(self, name: str, *, active: bool) -> Person:
        """Let a user sign in, or not any more: then all their tokens and sessions end at once; their jobs go on.

        Raises NotFound, and Conflict for the last administrator.
        """
        person = await self._ledger.write(acts.build_active(name, self._clock.now(), active=active))
        self._accounts.forget_all()
        return person

    async def make_link(self, name: str, by: Account) -> Issued:
        """A code for the sign-in page that signs in as this user, once within an hour.

        What it gives ends at the latest with what `by` signed in with, at `cut_at`, and the code itself before.

        Raises:
            NotFound: there is no such user.
            Conflict: the user may not sign in.

        """
        return await self._ledger.write(acts.build_link(name, self._clock.now(), by.bound))

    async def set_team(self, name: str, team: str | None) -> Person:
        """Let a user belong to `team`, or to none. Raises NotFound, InputError."""
        person = await self._ledger.write(acts.build_team(name, team))
        self._wakeups.notify(QUEUE)
        return person

    async def set_limit(self, holder: Holder, limit: Limit) -> QuotaLine:
        """Give a user or a team this limit, in place of the one before.

        Raises:
            NotFound: there is no such user.
            InputError: the name cannot be a team's, or a series or profile is unknown.

        """
        now = self._clock.now()
        changing = acts.build_limit(holder, {one.name: getattr(limit, one.name) for one in fields(Limit)})
        (line,) = await self._ledger.write(lambda c: load_lines(c, {holder: changing(c)}, now))
        self._wakeups.notify(QUEUE)
        return line

    async def remove_limit(self, holder: Holder) -> None:
        """Let a user or a team have no limit. Raises NotFound where there was none."""
        await self._ledger.write(acts.build_no_limit(holder))
        self._wakeups.notify(QUEUE)

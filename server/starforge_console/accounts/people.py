"""Users with their teams, and the limits of both, as administrators change them while the console serves."""

from collections.abc import Sequence
from dataclasses import fields

from starforge.errors import Conflict, NotFound
from starforge.said.sentence import say
from starforge_console.accounts.quotas import check_profiles, check_series, check_team, tell_limit, tell_team
from starforge_console.accounts.sign_in import Accounts
from starforge_console.accounts.tokens import Issued, make_sign_in_code
from starforge_console.accounts.users import check_user_name, tell_active, tell_role
from starforge_console.clock import Clock
from starforge_console.domain.nearest import say_nearest
from starforge_console.domain.quota import TEAM, USER, Holder, Limit
from starforge_console.domain.roles import Role
from starforge_console.domain.statement import QuotaLine
from starforge_console.ledger.accounts import Account, add_token, add_user
from starforge_console.ledger.audit import audited
from starforge_console.ledger.database import Database
from starforge_console.ledger.gpu_series import list_added_series
from starforge_console.ledger.people import Person, change_active, change_role, change_team, list_people, load_person
from starforge_console.ledger.quotas import change_parts, drop_limit, load_quotas
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
        check_user_name(name)
        told, now = say("did.user_added", user=name, role=role.value), self._clock.now()
        await self._ledger.write(audited(lambda c: add_user(c, name, role.value, now), told))
        return await self._ledger.read(lambda c: load_person(c, name))

    async def set_role(self, name: str, role: Role) -> Person:
        """Give a user another role, at once. Raises NotFound, and Conflict for the last administrator."""
        changing = audited(lambda c: change_role(c, name, role), lambda done: tell_role(*done))
        person, _ = await self._ledger.write(changing)
        self._accounts.forget_all()
        return person

    async def set_active(self, name: str, *, active: bool) -> Person:
        """Let a user sign in, or not any more: then all their tokens and sessions end at once; their jobs go on.

        Raises NotFound, and Conflict for the last administrator.
        """
        now = self._clock.now()
        changing = audited(lambda c: change_active(c, name, now, active=active), lambda done: tell_active(*done))
        person, _ = await self._ledger.write(changing)
        self._accounts.forget_all()
        return person

    async def make_link(self, name: str, by: Account) -> Issued:
        """A code for the sign-in page that signs in as this user, once within an hour.

        What it gives ends at the latest with what `by` signed in with, at `cut_at`, and the code itself before.

        Raises:
            NotFound: there is no such user.
            Conflict: the user may not sign in.

        """
        user, now = (await self._ledger.read(lambda c: load_person(c, name))).user, self._clock.now()
        if not user.active:
            raise Conflict(say("fault.inactive", name=name), next_step=say("fault.inactive_next"))
        issued = make_sign_in_code(user.id, now, by.bound)
        await self._ledger.write(audited(lambda c: add_token(c, issued.kept, now), say("did.link_made", user=name)))
        return issued

    async def set_team(self, name: str, team: str | None) -> Person:
        """Let a user belong to `team`, or to none. Raises NotFound, InputError."""
        chosen = None if team is None else check_team(team)
        person = await self._ledger.write(
            audited(lambda c: change_team(c, name, chosen), tell_team(name, chosen)),
        )
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
        now, told = self._clock.now(), tell_limit(holder, limit)
        line = await self._ledger.write(
            audited(lambda c: load_lines(c, {holder: change_parts(c, holder, parts)}, now), told)
        )
        self._wakeups.notify(QUEUE)
        return line[0]

    async def remove_limit(self, holder: Holder) -> None:
        """Let a user or a team have no limit. Raises NotFound where there was none."""
        dropped, known = await self._ledger.write(
            audited(
                lambda c: (drop_limit(c, holder), [str(one) for one in load_quotas(c).limits]),
                lambda done: say("did.quota_removed", holder=holder.said) if done[0] else None,
            )
        )
        if not dropped:
            raise NotFound(say("form.no_quota", holder=str(holder)), next_step=say_nearest(str(holder), known))
        self._wakeups.notify(QUEUE)

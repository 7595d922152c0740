"""Acts on users and their limits, as the ledger does them in one transaction and the audit log tells them.

The API, the pages and the commands of the console's machine all do these and no others, so that what is checked and
what is told is the same, whoever acts. Each is built here and run by whoever has a ledger to write to.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Final

from starforge.errors import Conflict, InputError, NotFound
from starforge.hardware.profiles import BUILT_IN
from starforge.hardware.series import FAMILIES, SERIES_BY_NAME
from starforge.said.sentence import Said, say
from starforge_console.accounts.tokens import Issued, make_sign_in_code
from starforge_console.domain.nearest import say_nearest
from starforge_console.domain.quota import TEAM, USER, Holder, Limit
from starforge_console.domain.roles import Role
from starforge_console.ledger.accounts import Bound, add_token, add_user
from starforge_console.ledger.audit import Work, audited
from starforge_console.ledger.gpu_series import list_added_series
from starforge_console.ledger.people import Person, change_active, change_role, change_team, load_person
from starforge_console.ledger.quotas import change_parts, drop_limit, load_quotas

NO_LIMIT: Final = "none"
"""What stands for a limit that limits nothing, and takes one part of a limit away."""
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
"""What users and teams may be called."""


def check_user_name(name: str) -> str:
    """`name`, if it can be a user's. Raises InputError."""
    if not _NAME.fullmatch(name):
        raise InputError(
            say("fault.no_user_name", name=f"{name!r:.100}"),
            why=say("fault.no_user_name_why"),
            next_step=say("fault.other_name_next"),
        )
    return name


def check_team(name: str) -> str:
    """`name`, if it can be a team's. Raises InputError."""
    if not _NAME.fullmatch(name):
        raise InputError(
            say("form.no_team_name", name=repr(name)),
            why=say("form.no_team_name_why"),
            next_step=say("form.other_name"),
        )
    return name


def build_user(name: str, role: Role, now: float) -> Work[Person]:
    """Add an active user. Raises InputError for a name that cannot be one, and Conflict when it is taken."""
    check_user_name(name)
    adding = audited(lambda c: add_user(c, name, role.value, now), say("did.user_added", user=name, role=role.value))
    return lambda c: (adding(c), load_person(c, name))[1]


def build_role(name: str, role: Role) -> Work[Person]:
    """Give a user another role. Raises NotFound, and Conflict for the last administrator."""
    changing = audited(lambda c: change_role(c, name, role), lambda done: _tell_role(*done))
    return lambda c: changing(c)[0]


def build_active(name: str, now: float, *, active: bool) -> Work[Person]:
    """Let a user sign in, or not any more. Raises NotFound, and Conflict for the last administrator."""
    changing = audited(lambda c: change_active(c, name, now, active=active), lambda done: _tell_active(*done))
    return lambda c: changing(c)[0]


def build_link(name: str, now: float, bound: Bound | None = None) -> Work[Issued]:
    """A code for the sign-in page that signs in as this user, once within an hour; `bound` is that of who makes it.

    Raises NotFound, and Conflict where the user may not sign in.
    """

    def work(connection: Any) -> Issued:  # noqa: ANN401 - the ledger's own connection
        user = load_person(connection, name).user
        if not user.active:
            raise Conflict(say("fault.inactive", name=name), next_step=say("fault.inactive_next"))
        issued = make_sign_in_code(user.id, now, bound)
        add_token(connection, issued.kept, now)
        return issued

    return audited(work, say("did.link_made", user=name))


def build_team(name: str, team: str | None) -> Work[Person]:
    """Let a user belong to `team`, or to none. Raises NotFound, InputError."""
    chosen = None if team is None else check_team(team)
    told = say("did.user_no_team", user=name) if chosen is None else say("did.user_team", user=name, team=chosen)
    return audited(lambda c: change_team(c, name, chosen), told)


def build_limit(holder: Holder, parts: Mapping[str, Any]) -> Work[Limit]:
    """Change these parts of the holder's limit; None takes one away.

    Raises:
        NotFound: there is no such user.
        InputError: the name cannot be a team's, or a series or profile is unknown.

    """

    def work(connection: Any) -> Limit:  # noqa: ANN401 - the ledger's own connection
        if holder.kind == TEAM:
            check_team(holder.name)
        if holder.kind == USER:
            load_person(connection, holder.name)
        added = [one.series for one in list_added_series(connection)]
        _check_series(parts.get("series") or (), added)
        check_profiles(parts.get("profiles") or (), added)
        return change_parts(connection, holder, parts)

    return audited(work, lambda limit: _tell_limit(holder, limit))


def build_no_limit(holder: Holder) -> Work[None]:
    """Let the holder have no limit. Raises NotFound where there was none."""

    def work(connection: Any) -> None:  # noqa: ANN401 - the ledger's own connection
        if not drop_limit(connection, holder):
            known = [str(one) for one in load_quotas(connection).limits]
            raise NotFound(say("form.no_quota", holder=str(holder)), next_step=say_nearest(str(holder), known))

    return audited(work, say("did.quota_removed", holder=holder.said))


def _tell_role(person: Person, before: str) -> Said | None:
    """What the audit log says of a change of role; nothing where there was none."""
    user = person.user
    return None if before == user.role else say("did.user_role", user=user.name, before=before, role=user.role)


def _tell_active(person: Person, changed: bool) -> Said | None:  # noqa: FBT001 - what the ledger's function gives
    """What the audit log says of who may sign in; nothing where nothing changed."""
    if not changed:
        return None
    name = person.user.name
    return say("did.user_activated", user=name) if person.user.active else say("did.user_deactivated", user=name)


def _check_series(names: Iterable[str], added: Iterable[str]) -> None:
    """Raises InputError for a name that is no series of GPUs: neither built in nor of those that were `added`."""
    known = {*SERIES_BY_NAME.values(), *FAMILIES, *added}
    for name in sorted({*names} - known):
        raise InputError(
            say("form.no_series", name=repr(name)),
            next_step=say_nearest(name, known) if known else say("form.see_fleet"),
        )


def check_profiles(names: Iterable[str], added: Iterable[str]) -> None:
    """Raises InputError for a name that no `--profile` can have: built in, a series or family of GPUs, or `added`."""
    known = {*BUILT_IN, *SERIES_BY_NAME.values(), *FAMILIES, *added}
    for name in sorted({*names} - known):
        raise InputError(
            say("form.no_profile", name=repr(name)),
            why=say("form.no_profile_why"),
            next_step=say_nearest(name, known),
        )


def _tell_limit(holder: Holder, limit: Limit) -> Said:
    """What the audit log says of a limit: its parts by their names in the API, which no language has."""
    given = {one.name: getattr(limit, one.name) for one in fields(limit)}
    parts = [
        f"{name}={','.join(sorted(value)) if isinstance(value, frozenset) else value}"
        for name, value in given.items()
        if value is not None
    ]
    return say("did.quota_set", holder=holder.said, limit=" ".join(parts) or NO_LIMIT)

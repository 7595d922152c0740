"""Teams and quotas as an administrator of the console's machine sets them; for commands, which may block."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Final

from starforge.errors import InputError, NotFound
from starforge.hardware.profiles import BUILT_IN
from starforge.hardware.series import FAMILIES, SERIES_BY_NAME
from starforge.said.sentence import Said, say
from starforge_console.accounts.users import load_named
from starforge_console.domain.nearest import say_nearest
from starforge_console.domain.quota import TEAM, USER, Holder, Limit
from starforge_console.domain.statement import QuotaLine
from starforge_console.ledger.audit import audited
from starforge_console.ledger.database import Database
from starforge_console.ledger.gpu_series import list_added_series
from starforge_console.ledger.quotas import (
    change_parts,
    drop_limit,
    list_members,
    load_quotas,
    set_team,
)
from starforge_console.ledger.statements import list_all

UNLIMITED: Final = "none"
"""What takes one part of a limit away."""
MOST: Final = 1_000_000

_COUNTED: Final = {"gpus": "GPUs", "jobs": "jobs", "gpu_hours": "GPU-hours", "storage_gib": "GiB"}
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_NUMBER: Final = re.compile(r"[0-9]{1,7}")


def find_holder(ledger: Database, user: str | None, team: str | None) -> Holder:
    """Whose limit is meant: exactly one of both is to be named. Raises InputError, NotFound."""
    if (user is None) == (team is None):
        raise InputError(say("form.one_holder"), next_step=say("form.one_holder_next"))
    if user is not None:
        return Holder(USER, load_named(ledger, user).name)
    return Holder(TEAM, check_team(team or ""))


def check_team(name: str) -> str:
    """`name`, if it can be a team's. Raises InputError."""
    if not _NAME.fullmatch(name):
        raise InputError(
            say("form.no_team_name", name=repr(name)),
            why=say("form.no_team_name_why"),
            next_step=say("form.other_name"),
        )
    return name


def check_series(names: Iterable[str], added: Iterable[str]) -> None:
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


def change_limit(ledger: Database, holder: Holder, changes: Mapping[str, str]) -> Limit:
    """The holder's limit with the parts of it that `changes` name; `none` takes one away.

    Raises:
        InputError: nothing is named, or what is given is no limit.

    """
    if not changes:
        raise InputError(say("form.no_limit"), next_step=say("form.no_limit_next"))
    parsed = {part: _parse(ledger, part, text) for part, text in changes.items()}
    return ledger.write_now(
        audited(
            lambda c: change_parts(c, holder, parsed),
            lambda limit: tell_limit(holder, limit),
        )
    )


def remove_limit(ledger: Database, holder: Holder) -> None:
    """Let the holder have no limit. Raises NotFound where there was none."""
    told = say("did.quota_removed", holder=holder.said)
    if not ledger.write_now(audited(lambda c: drop_limit(c, holder), lambda done: told if done else None)):
        known = [str(one) for one in ledger.read_now(load_quotas).limits]
        raise NotFound(say("form.no_quota", holder=str(holder)), next_step=say_nearest(str(holder), known))


def list_quotas(ledger: Database, now: float) -> Sequence[QuotaLine]:
    """Every limit, with what counts against it at `now`."""
    return ledger.read_now(lambda c: list_all(c, now))


def list_team(ledger: Database, team: str) -> list[str]:
    """Who is in a team, by name."""
    return sorted(one.user for one in ledger.read_now(list_members).values() if one.team == team)


def change_team(ledger: Database, user: str, team: str | None) -> None:
    """Let the user belong to `team`, or to none. Raises NotFound, InputError."""
    named = load_named(ledger, user)
    chosen = None if team is None else check_team(team)
    ledger.write_now(audited(lambda c: set_team(c, named.id, chosen), tell_team(user, chosen)))


def tell_limit(holder: Holder, limit: Limit) -> Said:
    """What the audit log says of a limit: its parts by their names in the API, which no language has."""
    given = {one.name: getattr(limit, one.name) for one in fields(limit)}
    parts = [
        f"{name}={','.join(sorted(value)) if isinstance(value, frozenset) else value}"
        for name, value in given.items()
        if value is not None
    ]
    return say("did.quota_set", holder=holder.said, limit=" ".join(parts) or UNLIMITED)


def tell_team(user: str, team: str | None) -> Said:
    """What the audit log says of a change of team."""
    return say("did.user_no_team", user=user) if team is None else say("did.user_team", user=user, team=team)


def _parse(ledger: Database, part: str, text: str) -> int | frozenset[str] | None:
    if text == UNLIMITED:
        return None
    if part in _CHECKS:
        return _parse_names(ledger, part, text)
    if not _NUMBER.fullmatch(text) or int(text) > MOST:
        raise InputError(
            say("form.no_number", text=repr(text), of=_COUNTED[part]),
            next_step=say("form.whole_or_word", most=MOST, word=UNLIMITED),
        )
    return int(text)


def _parse_names(ledger: Database, part: str, text: str) -> frozenset[str]:
    check, noun = _CHECKS[part]
    names = frozenset(name.strip() for name in text.split(",") if name.strip())
    check(names, [one.series for one in ledger.read_now(list_added_series)])
    if not names:
        raise InputError(say("form.none_named", noun=noun), next_step=say("form.none_named_next", word=UNLIMITED))
    return names


_CHECKS: Final = {"series": (check_series, "series"), "profiles": (check_profiles, "profile")}

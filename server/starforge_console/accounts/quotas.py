"""Teams and quotas as they are written in a command on the console's machine, which may block."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from starforge.errors import InputError
from starforge.said.sentence import say
from starforge_console.accounts.acts import NO_LIMIT, check_team
from starforge_console.domain.quota import TEAM, USER, Holder
from starforge_console.domain.statement import QuotaLine
from starforge_console.ledger.database import Database
from starforge_console.ledger.people import load_person
from starforge_console.ledger.quotas import list_members
from starforge_console.ledger.statements import list_all

MOST: Final = 1_000_000

_COUNTED: Final = {"gpus": "GPUs", "jobs": "jobs", "gpu_hours": "GPU-hours", "storage_gib": "GiB"}
_NAMED: Final = {"series": "series", "profiles": "profile"}
_NUMBER: Final = re.compile(r"[0-9]{1,7}")


def find_holder(ledger: Database, user: str | None, team: str | None) -> Holder:
    """Whose limit is meant: exactly one of both is to be named. Raises InputError, NotFound."""
    if (user is None) == (team is None):
        raise InputError(say("form.one_holder"), next_step=say("form.one_holder_next"))
    if user is not None:
        return Holder(USER, ledger.read_now(lambda c: load_person(c, user)).user.name)
    return Holder(TEAM, check_team(team or ""))


def parse_parts(changes: Mapping[str, str]) -> dict[str, int | frozenset[str] | None]:
    """The parts of a limit that `changes` name, as they are written; `none` takes one away. Pure.

    Raises:
        InputError: nothing is named, or what is given is no limit.

    """
    if not changes:
        raise InputError(say("form.no_limit"), next_step=say("form.no_limit_next"))
    return {part: _parse(part, text) for part, text in changes.items()}


def list_quotas(ledger: Database, now: float) -> Sequence[QuotaLine]:
    """Every limit, with what counts against it at `now`."""
    return ledger.read_now(lambda c: list_all(c, now))


def list_team(ledger: Database, team: str) -> list[str]:
    """Who is in a team, by name."""
    return sorted(one.user for one in ledger.read_now(list_members).values() if one.team == team)


def _parse(part: str, text: str) -> int | frozenset[str] | None:
    if text == NO_LIMIT:
        return None
    if part in _NAMED:
        return _parse_names(part, text)
    if not _NUMBER.fullmatch(text) or int(text) > MOST:
        raise InputError(
            say("form.no_number", text=repr(text), of=_COUNTED[part]),
            next_step=say("form.whole_or_word", most=MOST, word=NO_LIMIT),
        )
    return int(text)


def _parse_names(part: str, text: str) -> frozenset[str]:
    names = frozenset(name.strip() for name in text.split(",") if name.strip())
    if not names:
        noun = _NAMED[part]
        raise InputError(say("form.none_named", noun=noun), next_step=say("form.none_named_next", word=NO_LIMIT))
    return names

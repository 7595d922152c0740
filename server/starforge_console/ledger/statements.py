"""What counts against quotas, run by run, as people read it: read when somebody asks, never in a pass of the queue."""

import json
from collections.abc import Collection, Mapping
from typing import Final

from sqlalchemy import Connection, select

from starforge.contract.states import JobState
from starforge_console.domain.quota import NO_LIMIT, Holder, Limit
from starforge_console.domain.statement import Counted, HeldRun, QuotaLine, build_lines
from starforge_console.ledger.holding import COUNTED
from starforge_console.ledger.quotas import list_members, list_spans, load_quotas
from starforge_console.ledger.stored import list_stored
from starforge_console.ledger.tables import jobs

_SILENT: Final = frozenset({"note.waiting", "note.waiting_stop", "note.no_executor"})
"""What the console says of a job in flight whose machine, or whose fleet, does not answer."""


def list_own(connection: Connection, user_id: int, now: float) -> list[QuotaLine]:
    """The user's own limit and the team's, each with what counts against it; read at one moment, `now`."""
    limits = load_quotas(connection).limits
    holders = list_members(connection)[user_id].holders
    return load_lines(connection, {holder: limits.get(holder, NO_LIMIT) for holder in holders}, now)


def list_all(connection: Connection, now: float) -> list[QuotaLine]:
    """Every limit, with what counts against it."""
    return load_lines(connection, load_quotas(connection).limits, now)


def load_lines(connection: Connection, limits: Mapping[Holder, Limit], now: float) -> list[QuotaLine]:
    """These limits, with what counts against them."""
    members = list_members(connection)
    users_of = {user for user, member in members.items() if any(holder in limits for holder in member.holders)}
    held, spans = _list_held(connection, users_of), list_spans(connection, users_of, now)
    counted = Counted(held, spans, list_stored(connection, users_of))
    return build_lines(limits, members, counted, now)


def _list_held(connection: Connection, users_of: Collection[int]) -> list[HeldRun]:
    columns = (jobs.c.user_id, jobs.c.id, jobs.c.gpus, jobs.c.state, jobs.c.note_said)
    rows = connection.execute(select(*columns).where(jobs.c.state.in_(COUNTED))).all()
    return [
        HeldRun(row.user_id, row.id, 0 if row.state == JobState.PAUSED.value else row.gpus, _is_silent(row.note_said))
        for row in rows
        if row.user_id in users_of
    ]


def _is_silent(note_said: str | None) -> bool:
    return note_said is not None and json.loads(note_said).get("code") in _SILENT

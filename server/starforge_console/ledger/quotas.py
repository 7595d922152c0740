"""Teams and limits in the ledger, and what counts against them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Connection, delete, insert, select, update

from starforge.contract.states import HOLDS_A_PLACE, JobState
from starforge_console.domain.quota import (
    NO_LIMIT,
    TEAM,
    USER,
    Holder,
    HolderKind,
    Limit,
    Member,
    QuotaLine,
    Quotas,
    Usage,
    build_lines,
)
from starforge_console.ledger.tables import jobs, quotas, users

_HOLDING: Final = [state.value for state in HOLDS_A_PLACE]
_PAUSED: Final = JobState.PAUSED.value
_KINDS: Final[dict[str, HolderKind]] = {"user": USER, "team": TEAM}


def load_quotas(connection: Connection) -> Quotas:
    """Every limit, and every user; nobody where there are no limits, for then nobody is asked about."""
    limits = {
        Holder(_KINDS[row.kind], row.name): Limit(
            gpus=row.gpus, jobs=row.jobs, series=None if row.series is None else frozenset(row.series.split())
        )
        for row in connection.execute(select(quotas).order_by(quotas.c.kind, quotas.c.name)).all()
    }
    if not limits:
        return Quotas()
    return Quotas(limits=limits, members=list_members(connection))


def load_usage(connection: Connection, user_id: int | None = None) -> Usage:
    """The limits and what is held under them, read at one moment; of `user_id` alone where one is given."""
    found = load_quotas(connection)
    is_bound = bool(found.limits if user_id is None else found.list_limits(user_id))
    return Usage(found, list_held(connection)) if is_bound else Usage(found)


def list_own(connection: Connection, user_id: int) -> list[QuotaLine]:
    """The user's own limit and the team's, each with what is held; read at one moment."""
    limits, members = load_quotas(connection).limits, list_members(connection)
    own = {holder: limits.get(holder, NO_LIMIT) for holder in members[user_id].holders}
    return build_lines(own, members, list_held(connection))


def list_members(connection: Connection) -> dict[int, Member]:
    """Every user by id, with the team."""
    rows = connection.execute(select(users.c.id, users.c.name, users.c.team)).all()
    return {row.id: Member(row.name, row.team) for row in rows}


def list_held(connection: Connection) -> Sequence[tuple[int, str, int]]:
    """User, job and GPUs of each attempt that was dequeued and has not ended, and of paused jobs, which hold none."""
    columns = (jobs.c.user_id, jobs.c.id, jobs.c.gpus, jobs.c.state)
    rows = connection.execute(select(*columns).where(jobs.c.state.in_([*_HOLDING, _PAUSED]))).all()
    return [(user, job, 0 if state == _PAUSED else gpus) for user, job, gpus, state in rows]


def change_parts(connection: Connection, holder: Holder, parts: Mapping[str, Any]) -> Limit:
    """The holder's limit with these parts of it changed; one that limits nothing is not kept."""
    limit = replace(load_quotas(connection).limits.get(holder, NO_LIMIT), **parts)
    drop_limit(connection, holder)
    if limit != NO_LIMIT:
        series = None if limit.series is None else " ".join(sorted(limit.series))
        values = {"kind": holder.kind, "name": holder.name, "gpus": limit.gpus, "jobs": limit.jobs, "series": series}
        connection.execute(insert(quotas), values)
    return limit


def drop_limit(connection: Connection, holder: Holder) -> bool:
    """Let the holder have no limit; False when there was none."""
    where = (quotas.c.kind == holder.kind, quotas.c.name == holder.name)
    return connection.execute(delete(quotas).where(*where)).rowcount > 0


def set_team(connection: Connection, user_id: int, team: str | None) -> None:
    """Let the user belong to `team`, or to none."""
    connection.execute(update(users).where(users.c.id == user_id).values(team=team))

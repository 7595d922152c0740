"""Teams and limits in the ledger, and what counts against them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from sqlalchemy import Connection, delete, func, insert, select, update

from starforge.contract.states import JobState
from starforge_console.domain.gpu_hours import DAY_S, HOUR_S, Span
from starforge_console.domain.quota import (
    NO_LIMIT,
    TEAM,
    USER,
    Holder,
    HolderKind,
    Limit,
    Member,
    Quotas,
    Usage,
)
from starforge_console.ledger.holding import COUNTED, LIVING
from starforge_console.ledger.share_tables import gpu_spans
from starforge_console.ledger.stored import load_stored
from starforge_console.ledger.tables import jobs, quotas, users
from starforge_console.ledger.window_stops import look_again

_PAUSED: Final = JobState.PAUSED.value
_NAMED_AT_MOST: Final = 500
"""Of more users everybody's spans are read: databases bound how many values one statement may carry."""
_KINDS: Final[dict[str, HolderKind]] = {"user": USER, "team": TEAM}


def load_quotas(connection: Connection) -> Quotas:
    """Every limit, and every user; nobody where there are no limits, for then nobody is asked about."""
    limits = {
        Holder(_KINDS[row.kind], row.name): Limit(
            gpus=row.gpus,
            jobs=row.jobs,
            series=None if row.series is None else frozenset(row.series.split()),
            gpu_hours=row.gpu_hours,
            storage_gib=row.storage_gib,
            profiles=None if row.profiles is None else frozenset(row.profiles.split()),
        )
        for row in connection.execute(select(quotas).order_by(quotas.c.kind, quotas.c.name)).all()
    }
    if not limits:
        return Quotas()
    return Quotas(limits=limits, members=list_members(connection))


def load_usage(connection: Connection, now: float, user_id: int | None = None) -> Usage:
    """The limits and what there is under them at `now`, read at one moment; of `user_id` alone where one is given.

    Single spans of the last day are read of those users alone whose hours are limited, and may be used up.
    """
    found = load_quotas(connection)
    bound = found.limits if user_id is None else dict(found.list_limits(user_id))
    if not bound:
        return Usage(found)
    hourly = {holder: limit.gpu_hours for holder, limit in bound.items() if limit.gpu_hours is not None}
    near = _find_near(connection, found.members, hourly, now) if hourly else ()
    full = {holder for holder, limit in bound.items() if limit.storage_gib is not None}
    storing = {user for user, member in found.members.items() if not full.isdisjoint(member.holders)} if full else ()
    stored = load_stored(connection, storing) if storing else {}
    return Usage(found, list_held(connection), spans=list_spans(connection, near, now), stored=stored, now=now)


def list_members(connection: Connection) -> dict[int, Member]:
    """Every user by id, with the team."""
    rows = connection.execute(select(users.c.id, users.c.name, users.c.team)).all()
    return {row.id: Member(row.name, row.team) for row in rows}


def list_held(connection: Connection) -> Sequence[tuple[int, str, int]]:
    """User, job and GPUs of each attempt that was dequeued and has not ended, and of paused jobs, which hold none."""
    columns = (jobs.c.user_id, jobs.c.id, jobs.c.gpus, jobs.c.state)
    rows = connection.execute(select(*columns).where(jobs.c.state.in_(COUNTED))).all()
    return [(user, job, 0 if state == _PAUSED else gpus) for user, job, gpus, state in rows]


def list_spans(connection: Connection, users_of: Collection[int], now: float) -> list[Span]:
    """The GPUs that attempts of these users held in the 24 hours before `now`, those that still do among them."""
    if not users_of:
        return []
    spans = gpu_spans.c
    ended = select(spans.user_id, spans.job_id, spans.gpus, spans.since, spans.until).where(spans.until > now - DAY_S)
    living = LIVING
    if len(users_of) <= _NAMED_AT_MOST:
        ended, living = ended.where(spans.user_id.in_(users_of)), living.where(jobs.c.user_id.in_(users_of))
    rows = [*connection.execute(ended).all(), *connection.execute(living).all()]
    return [Span(*row) for row in rows if row[0] in users_of]


def _find_near(
    connection: Connection, members: Mapping[int, Member], hourly: Mapping[Holder, int], now: float
) -> set[int]:
    """The users of the holders who may have used their hours up; all others surely have not.

    Each span that reaches into the day counts whole here, so that the database can add up no less than what counts.
    """
    spans = gpu_spans.c
    ended = select(spans.user_id, func.sum(spans.gpus * (spans.until - spans.since))).where(spans.until > now - DAY_S)
    most = {user: float(gpu_s) for user, gpu_s in connection.execute(ended.group_by(spans.user_id)).all()}
    for user, _, gpus, since in connection.execute(LIVING).all():
        most[user] = most.get(user, 0.0) + gpus * max(0.0, now - since)
    of_holder: dict[Holder, set[int]] = {}
    for user, member in members.items():
        for holder in member.holders:
            if holder in hourly:
                of_holder.setdefault(holder, set()).add(user)
    near = (users_of for holder, users_of in of_holder.items() if _is_near(users_of, most, hourly[holder]))
    return set().union(*near)


def _is_near(users_of: Collection[int], most: Mapping[int, float], hours: int) -> bool:
    # A second less: sums of many numbers differ a little by their order.
    return sum(most.get(user, 0.0) for user in users_of) >= hours * HOUR_S - 1.0


def change_parts(connection: Connection, holder: Holder, parts: Mapping[str, Any]) -> Limit:
    """The holder's limit with these parts of it changed; one that limits nothing is not kept."""
    limit = replace(load_quotas(connection).limits.get(holder, NO_LIMIT), **parts)
    drop_limit(connection, holder)
    if limit != NO_LIMIT:
        most = {part: _write_part(value) for part, value in asdict(limit).items()}
        connection.execute(insert(quotas), {"kind": holder.kind, "name": holder.name, **most})
    return limit


def _write_part(value: int | frozenset[str] | None) -> int | str | None:
    return " ".join(sorted(value)) if isinstance(value, frozenset) else value


def drop_limit(connection: Connection, holder: Holder) -> bool:
    """Let the holder have no limit; False when there was none."""
    where = (quotas.c.kind == holder.kind, quotas.c.name == holder.name)
    return connection.execute(delete(quotas).where(*where)).rowcount > 0


def set_team(connection: Connection, user_id: int, team: str | None) -> None:
    """Let the user belong to `team`, or to none; what windows of the team before stopped is looked at again."""
    connection.execute(update(users).where(users.c.id == user_id).values(team=team))
    look_again(connection, jobs.c.user_id == user_id, jobs.c.state_since)

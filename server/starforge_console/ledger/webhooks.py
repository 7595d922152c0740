"""Webhooks in the ledger: who is told of which changes, the next change each is to be told, and how that went."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Select, delete, func, insert, or_, select, update

from starforge.contract.ids import JobId
from starforge.contract.webhooks import DELIVERIES_KEPT
from starforge.errors import Conflict, NotFound
from starforge_console.ledger.moves import note_timeline
from starforge_console.ledger.tables import events, jobs, users
from starforge_console.ledger.webhook_tables import deliveries, webhooks

_FAR_BEHIND: Final = 500
"""So many events that are none of a webhook's business are passed over one by one before that is written down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A webhook. `told_to` is the number of the last event that is done with; `tries` counts those of the next."""

    id: int
    user_id: int
    user: str
    url: str
    events: tuple[str, ...]
    project: str | None
    jobs: str
    created_at: float
    told_to: int
    tries: int
    next_try_at: float | None
    failing_since: float | None
    disabled_at: float | None
    disabled_why: str
    sealed: bytes = field(repr=False)

    @property
    def bound_to(self) -> str:
        """What its secret was sealed for."""
        return binding_of(self.user_id, self.url)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewWebhook:
    """A webhook that is to be kept."""

    user_id: int
    url: str
    events: tuple[str, ...]
    project: str | None
    jobs: str
    sealed: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """A change of a job's state."""

    number: int
    at: float
    job: JobId
    name: str
    project: str
    user: str
    state: str
    reason: str
    attempt: int | None
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One event on its way to one webhook; `outcome` is delivered, waiting or given_up."""

    event: int
    job: str | None
    state: str | None
    at: float
    tries: int
    status: int | None
    error: str
    outcome: str


def binding_of(user_id: int, url: str) -> str:
    """What a webhook's secret is sealed for: in another row it does not open."""
    return f"webhook of user {user_id}: {url}"


def add_webhook(connection: Connection, new: NewWebhook, most: int, now: float) -> Webhook:
    """Keep a webhook, which is told of what happens from now on. Raises Conflict where the user has `most`."""
    own = connection.execute(select(func.count()).where(webhooks.c.user_id == new.user_id)).scalar_one()
    if own >= most:
        raise Conflict(
            "the webhook was not added",
            why=f"you have {own}, and {most} is the most",
            next_step="remove one: sf webhook rm ID",
        )
    values = {
        "user_id": new.user_id,
        "url": new.url,
        "events": " ".join(new.events),
        "project": new.project,
        "jobs": new.jobs,
        "sealed": new.sealed,
        "created_at": now,
        "told_to": _last_event(connection),
        "tries": 0,
        "disabled_why": "",
    }
    key = connection.execute(insert(webhooks).values(values)).inserted_primary_key
    return load_webhook(connection, int(key[0]) if key else 0)


def list_webhooks(connection: Connection, user_id: int | None) -> Sequence[Webhook]:
    """The webhooks of a user, or of all users, by number."""
    query = _query().order_by(webhooks.c.id)
    if user_id is not None:
        query = query.where(webhooks.c.user_id == user_id)
    return [_build(row) for row in connection.execute(query).all()]


def list_active(connection: Connection) -> Sequence[Webhook]:
    """Those that are to be told: of users who are active, and of everybody's jobs only while they administrate."""
    return [_build(row) for row in connection.execute(_query().where(*_is_active())).all()]


def find_active(connection: Connection, webhook_id: int) -> Webhook | None:
    """A webhook that is to be told; None when it is gone, or is not to be told any more."""
    row = connection.execute(_query().where(webhooks.c.id == webhook_id, *_is_active())).one_or_none()
    return None if row is None else _build(row)


def load_webhook(connection: Connection, webhook_id: int) -> Webhook:
    """One webhook. Raises NotFound."""
    row = connection.execute(_query().where(webhooks.c.id == webhook_id)).one_or_none()
    if row is None:
        raise NotFound(f"there is no webhook {webhook_id}", next_step="'sf webhook ls' lists them")
    return _build(row)


def drop_webhook(connection: Connection, webhook_id: int) -> None:
    """Forget a webhook and its deliveries; fine when it is gone."""
    connection.execute(delete(deliveries).where(deliveries.c.webhook_id == webhook_id))
    connection.execute(delete(webhooks).where(webhooks.c.id == webhook_id))


def enable_webhook(connection: Connection, webhook_id: int) -> None:
    """Let a webhook be told again, from what happens now on."""
    values = {**_FRESH, "disabled_at": None, "disabled_why": "", "told_to": _last_event(connection)}
    connection.execute(update(webhooks).where(webhooks.c.id == webhook_id).values(values))


def list_deliveries(connection: Connection, webhook_id: int, limit: int) -> Sequence[Delivery]:
    """The last deliveries, newest first."""
    query = select(deliveries).where(deliveries.c.webhook_id == webhook_id).order_by(deliveries.c.event.desc())
    return [
        Delivery(
            event=row.event,
            job=row.job_id,
            state=row.state,
            at=row.at,
            tries=row.tries,
            status=row.status,
            error=row.error,
            outcome=row.outcome,
        )
        for row in connection.execute(query.limit(limit)).all()
    ]


def find_next(connection: Connection, hook: Webhook) -> Occurrence | None:
    """The first change after those that the webhook was told, which is its business; None when there is none."""
    wanted: list[ColumnElement[bool]] = [events.c.number > hook.told_to, events.c.kind == "state"]
    if hook.jobs == "own":
        wanted.append(jobs.c.user_id == hook.user_id)
    if hook.project is not None:
        wanted.append(jobs.c.project == hook.project)
    if hook.events:
        wanted.append(events.c.state.in_(hook.events))
    query = (
        select(events, jobs.c.name, jobs.c.project, users.c.name.label("user"))
        .join(jobs, jobs.c.id == events.c.job_id)
        .join(users, users.c.id == jobs.c.user_id)
        .where(*wanted)
        .order_by(events.c.number)
        .limit(1)
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    return Occurrence(
        number=row.number,
        at=row.at,
        job=JobId(row.job_id),
        name=row.name,
        project=row.project,
        user=row.user,
        state=row.state,
        reason=row.reason,
        attempt=row.attempt,
        note=row.note,
    )


def is_far_behind(connection: Connection, hook: Webhook) -> bool:
    """Whether so much has happened that is not the webhook's business that its place is worth writing down."""
    return _last_event(connection) - hook.told_to > _FAR_BEHIND


def pass_over(connection: Connection, hook: Webhook) -> None:
    """Write down that nothing of what has happened is the webhook's business; asked again in the same transaction."""
    top = _last_event(connection)
    if find_next(connection, hook) is None:
        connection.execute(update(webhooks).where(webhooks.c.id == hook.id).values(told_to=top))


def note_done(connection: Connection, hook: Webhook, delivery: Delivery) -> bool:
    """Mark an event as done with, delivered or given up; False when the webhook is gone or another pass was faster."""
    values: dict[str, object] = {"told_to": delivery.event, "tries": 0, "next_try_at": None}
    if delivery.outcome == "delivered":
        values["failing_since"] = None
    same = (webhooks.c.id == hook.id, webhooks.c.told_to == hook.told_to)
    if connection.execute(update(webhooks).where(*same).values(values)).rowcount == 0:
        return False
    _keep(connection, hook.id, delivery)
    return True


def note_failed(connection: Connection, hook: Webhook, delivery: Delivery, next_try_at: float) -> None:
    """Mark a try that did not come through, and when the next one is due; fine when the webhook is gone."""
    since = delivery.at if hook.failing_since is None else hook.failing_since
    values = {"tries": delivery.tries, "next_try_at": next_try_at, "failing_since": since}
    same = (webhooks.c.id == hook.id, webhooks.c.told_to == hook.told_to)
    if connection.execute(update(webhooks).where(*same).values(values)).rowcount:
        _keep(connection, hook.id, delivery)


def disable_webhook(connection: Connection, hook: Webhook, job: JobId, why: str, now: float) -> None:
    """Tell the webhook nothing any more, and say so in the timeline of the job that it was to be told of."""
    values = {"disabled_at": now, "disabled_why": why}
    connection.execute(update(webhooks).where(webhooks.c.id == hook.id).values(values))
    note_timeline(connection, job, now, f"webhook {hook.id} of {hook.user} was switched off: {why}")


_FRESH: Final = {"tries": 0, "next_try_at": None, "failing_since": None}


def _last_event(connection: Connection) -> int:
    return connection.execute(select(func.max(events.c.number))).scalar_one() or 0


def _keep(connection: Connection, webhook_id: int, delivery: Delivery) -> None:
    mine = deliveries.c.webhook_id == webhook_id
    connection.execute(delete(deliveries).where(mine, deliveries.c.event == delivery.event))
    values = {
        "webhook_id": webhook_id,
        "event": delivery.event,
        "job_id": delivery.job,
        "state": delivery.state,
        "at": delivery.at,
        "tries": delivery.tries,
        "status": delivery.status,
        "error": delivery.error,
        "outcome": delivery.outcome,
    }
    connection.execute(insert(deliveries).values(values))
    newest = select(deliveries.c.event).where(mine).order_by(deliveries.c.event.desc()).limit(DELIVERIES_KEPT)
    connection.execute(delete(deliveries).where(mine, deliveries.c.event.not_in(newest)))


def _is_active() -> tuple[ColumnElement[bool], ...]:
    may = or_(webhooks.c.jobs == "own", users.c.role == "admin")
    return webhooks.c.disabled_at.is_(None), users.c.active, may


def _query() -> Select[Any]:
    return select(webhooks, users.c.name.label("user")).join(users, users.c.id == webhooks.c.user_id)


def _build(row: Row[Any]) -> Webhook:
    return Webhook(
        id=row.id,
        user_id=row.user_id,
        user=row.user,
        url=row.url,
        events=tuple(row.events.split()),
        project=row.project,
        jobs=row.jobs,
        created_at=row.created_at,
        told_to=row.told_to,
        tries=row.tries,
        next_try_at=row.next_try_at,
        failing_since=row.failing_since,
        disabled_at=row.disabled_at,
        disabled_why=row.disabled_why,
        sealed=row.sealed,
    )

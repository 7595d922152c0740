"""Users' secrets in the ledger, sealed, and which of them each attempt was given."""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, delete, exists, insert, select, update

from starforge.contract.ids import AttemptId, JobId
from starforge.errors import Conflict
from starforge.said.sentence import say
from starforge_console.ledger.moves import note_timeline
from starforge_console.ledger.tables import attempt_secrets, attempts, jobs, user_secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRecord:
    """What may be told of a secret."""

    name: str
    set_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedSecret:
    """A secret of user `user_id`, as the vault sealed it."""

    user_id: int
    name: str
    set_at: float
    sealed: bytes = field(repr=False)

    @property
    def bound_to(self) -> str:
        """What it was sealed for."""
        return binding_of(self.user_id, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    """The attempt that is given secrets, and whose they are."""

    attempt: AttemptId
    job: JobId
    number: int


def binding_of(user_id: int, name: str) -> str:
    """What the value of the user's secret is sealed for: in another row it does not open."""
    return f"secret of user {user_id}: {name}"


def list_secrets(connection: Connection, user_id: int) -> Sequence[SecretRecord]:
    """The user's secrets, by name."""
    rows = connection.execute(
        select(user_secrets.c.name, user_secrets.c.set_at)
        .where(user_secrets.c.user_id == user_id)
        .order_by(user_secrets.c.name)
    ).all()
    return [SecretRecord(name=row.name, set_at=row.set_at) for row in rows]


def put_secret(connection: Connection, secret: SealedSecret, most: int) -> None:
    """Keep the secret in place of what had its name before. Raises Conflict when the user has `most` already."""
    names = {one.name for one in list_secrets(connection, secret.user_id)}
    if secret.name not in names and len(names) >= most:
        raise Conflict(
            say("form.many_secrets", name=secret.name),
            why=say("form.many_secrets_why", n=len(names), most=most),
            next_step=say("form.many_secrets_next"),
        )
    drop_secret(connection, secret.user_id, secret.name)
    values = {"user_id": secret.user_id, "name": secret.name, "sealed": secret.sealed, "set_at": secret.set_at}
    connection.execute(insert(user_secrets), values)


def drop_secret(connection: Connection, user_id: int, name: str) -> bool:
    """Let the user have no such secret; False when there was none."""
    where = (user_secrets.c.user_id == user_id, user_secrets.c.name == name)
    return connection.execute(delete(user_secrets).where(*where)).rowcount > 0


def find_secrets(connection: Connection, to: Recipient, names: Collection[str]) -> Sequence[SealedSecret]:
    """Which of `names` the owner has set: as the attempt was given them before, whatever was set meanwhile."""
    if not names or _was_given(connection, to.attempt):
        return load_given(connection, to.attempt)
    owner = connection.execute(select(jobs.c.user_id).where(jobs.c.id == to.job)).scalar_one()
    rows = connection.execute(
        select(user_secrets)
        .where(user_secrets.c.user_id == owner, user_secrets.c.name.in_(names))
        .order_by(user_secrets.c.name)
    ).all()
    return [SealedSecret(user_id=owner, name=row.name, set_at=row.set_at, sealed=row.sealed) for row in rows]


def keep_given(connection: Connection, to: Recipient, secrets: Sequence[SealedSecret], now: float) -> None:
    """Keep what the attempt is given, and tell it in the timeline; said again it changes nothing."""
    if not secrets or _was_given(connection, to.attempt):
        return
    rows = [{"attempt": to.attempt, "name": one.name, "set_at": one.set_at, "sealed": one.sealed} for one in secrets]
    connection.execute(insert(attempt_secrets), rows)
    names = ", ".join(f"{one.name} (set {time.strftime('%Y-%m-%d', time.gmtime(one.set_at))})" for one in secrets)
    told = say("note.secret", names=names) if len(secrets) == 1 else say("note.secrets", n=len(secrets), names=names)
    note_timeline(connection, to.job, now, told, to.number)


def load_given(connection: Connection, attempt: AttemptId) -> Sequence[SealedSecret]:
    """What the attempt was given, by name; nothing once it is cleaned up."""
    rows = connection.execute(
        select(attempt_secrets, jobs.c.user_id)
        .join(attempts, attempts.c.id == attempt_secrets.c.attempt)
        .join(jobs, jobs.c.id == attempts.c.job_id)
        .where(attempt_secrets.c.attempt == attempt, attempt_secrets.c.sealed.is_not(None))
        .order_by(attempt_secrets.c.name)
    ).all()
    return [SealedSecret(user_id=row.user_id, name=row.name, set_at=row.set_at, sealed=row.sealed) for row in rows]


def list_given(connection: Connection, job_id: str) -> Mapping[str, Sequence[SecretRecord]]:
    """What each attempt of the job was given, by the attempt's id."""
    rows = connection.execute(
        select(attempt_secrets.c.attempt, attempt_secrets.c.name, attempt_secrets.c.set_at)
        .join(attempts, attempts.c.id == attempt_secrets.c.attempt)
        .where(attempts.c.job_id == job_id)
        .order_by(attempt_secrets.c.name)
    ).all()
    given: dict[str, list[SecretRecord]] = {}
    for row in rows:
        given.setdefault(row.attempt, []).append(SecretRecord(name=row.name, set_at=row.set_at))
    return given


def forget_given(connection: Connection, attempt: AttemptId) -> None:
    """Keep of what the attempt was given nothing but the names and when they were set."""
    connection.execute(update(attempt_secrets).where(attempt_secrets.c.attempt == attempt).values(sealed=None))


def _was_given(connection: Connection, attempt: AttemptId) -> bool:
    """Whether it was given any, also when what it was given is kept no longer."""
    return connection.execute(select(exists().where(attempt_secrets.c.attempt == attempt))).scalar_one()

"""Everything in the ledger that the vault sealed, wherever it is kept: to be checked against the key, and given up."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from sqlalchemy import ColumnElement, Connection, LargeBinary, func, select, update

from starforge_console.ledger import secrets as user_values
from starforge_console.ledger import webhooks as hooks
from starforge_console.ledger.registry_credentials import binding_of_login, remove_credential
from starforge_console.ledger.tables import attempt_secrets, attempts, jobs, registry_credentials, user_secrets, users
from starforge_console.ledger.webhook_tables import webhooks

HEAD_BYTES: Final = 9
"""What is sealed begins with so many bytes that are the same for all that one key sealed."""

DROPPED: Final = b""
"""In place of what was sealed, where a row stays without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedRow:
    """One value as it is kept. `key` is the row's own, `whose` what a person calls it."""

    kind: Literal["secret", "given", "login", "webhook"]
    key: tuple[str | int, ...]
    whose: str
    bound_to: str
    sealed: bytes = field(repr=False)


def list_sealed(connection: Connection, but: bytes = DROPPED) -> Sequence[SealedRow]:
    """All of it whose first bytes are not `but`: of the head of a key, what another one sealed."""
    lists = (_list_secrets, _list_given, _list_logins, _list_webhooks)
    return [row for each in lists for row in each(connection, but)]


def drop_sealed(connection: Connection, rows: Sequence[SealedRow], now: float) -> None:
    """Keep the values no longer: secrets and logins go whole, attempts keep the names, webhooks are switched off."""
    for row in rows:
        _drop(connection, row, now)


def _drop(connection: Connection, row: SealedRow, now: float) -> None:
    match row.kind:
        case "secret":
            user_values.drop_secret(connection, int(row.key[0]), str(row.key[1]))
        case "given":
            its_own = (attempt_secrets.c.attempt == row.key[0], attempt_secrets.c.name == row.key[1])
            connection.execute(update(attempt_secrets).where(*its_own).values(sealed=None))
        case "login":
            remove_credential(connection, str(row.key[0]))
        case "webhook":
            values = {"sealed": DROPPED, "disabled_at": now, "disabled_why": "its secret was lost: add it anew"}
            connection.execute(update(webhooks).where(webhooks.c.id == int(row.key[0])).values(values))


def _begins_otherwise(column: ColumnElement[bytes], but: bytes) -> ColumnElement[bool]:
    return func.substr(column, 1, HEAD_BYTES, type_=LargeBinary) != but


def _list_secrets(connection: Connection, but: bytes) -> Iterator[SealedRow]:
    query = select(user_secrets, users.c.name.label("user")).join(users, users.c.id == user_secrets.c.user_id)
    for row in connection.execute(query.where(_begins_otherwise(user_secrets.c.sealed, but))):
        yield SealedRow(
            kind="secret",
            key=(row.user_id, row.name),
            whose=f"secret {row.name} of {row.user}",
            bound_to=user_values.binding_of(row.user_id, row.name),
            sealed=row.sealed,
        )


def _list_given(connection: Connection, but: bytes) -> Iterator[SealedRow]:
    query = (
        select(attempt_secrets, jobs.c.user_id)
        .join(attempts, attempts.c.id == attempt_secrets.c.attempt)
        .join(jobs, jobs.c.id == attempts.c.job_id)
        .where(attempt_secrets.c.sealed.is_not(None))
    )
    for row in connection.execute(query.where(_begins_otherwise(attempt_secrets.c.sealed, but))):
        yield SealedRow(
            kind="given",
            key=(row.attempt, row.name),
            whose=f"secret {row.name} as attempt {row.attempt} was given it",
            bound_to=user_values.binding_of(row.user_id, row.name),
            sealed=row.sealed,
        )


def _list_logins(connection: Connection, but: bytes) -> Iterator[SealedRow]:
    query = select(registry_credentials)
    for row in connection.execute(query.where(_begins_otherwise(registry_credentials.c.sealed, but))):
        yield SealedRow(
            kind="login",
            key=(row.registry,),
            whose=f"login of {row.username} for registry {row.registry}",
            bound_to=binding_of_login(row.registry, row.username),
            sealed=row.sealed,
        )


def _list_webhooks(connection: Connection, but: bytes) -> Iterator[SealedRow]:
    query = select(webhooks, users.c.name.label("user")).join(users, users.c.id == webhooks.c.user_id)
    for row in connection.execute(query.where(_begins_otherwise(webhooks.c.sealed, but))):
        yield SealedRow(
            kind="webhook",
            key=(row.id,),
            whose=f"webhook {row.id} of {row.user}",
            bound_to=hooks.binding_of(row.user_id, row.url),
            sealed=row.sealed,
        )

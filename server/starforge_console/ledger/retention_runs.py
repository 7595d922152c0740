"""What the ledger keeps of the collector itself: who holds it until when, and what its last pass did.

Holds stand beside each other, each a fact of its own: one that ends leaves all others.
"""

import json
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from sqlalchemy import Connection, delete, or_, select

from starforge.errors import Conflict
from starforge.said.sentence import find_said, say
from starforge_console.ledger.fleets import add_fact, find_fact
from starforge_console.ledger.maintenance import BY_RESTORE
from starforge_console.ledger.tables import facts

_HOLD: Final = "retention_hold"
"""The name of the one hold there could be once; those of now are named below it."""
MOST_HOLDS: Final = 100
"""So many stand at once: each is read before anything is removed."""
_LAST: Final = "retention_last"
BY_BACKUP: Final = "backup"
"""Who holds the collector while a backup is taken."""
_OWN: Final = {BY_BACKUP: "backup.to", BY_RESTORE: "restored.from"}
"""By who holds it: what the console itself says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Nothing is removed until `until` (Unix seconds). `by` is a user, or, `by_console`, what it holds itself for."""

    id: str
    until: float
    by: str
    why: str
    by_console: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """What a pass that removed something, or failed to, did; `by` is who asked for it, empty for the console itself."""

    at: float
    by: str
    removed: int
    bytes: int
    failed: int
    expired: dict[str, int] = field(default_factory=dict)


def new_hold_id(by: str) -> str:
    """An id that no other hold has."""
    return f"{by}-{secrets.token_hex(4)}"


def list_holds(connection: Connection, now: float) -> Sequence[Hold]:
    """The holds that stand at `now`, the one that lasts longest first."""
    standing = [hold for hold in _load_holds(connection).values() if hold.until > now]
    return sorted(standing, key=lambda hold: (-hold.until, hold.id))


def find_hold(connection: Connection, now: float) -> Hold | None:
    """The hold that lasts longest of those that stand at `now`, if there is one."""
    return next(iter(list_holds(connection, now)), None)


def add_hold(connection: Connection, hold: Hold, now: float) -> None:
    """Let this hold stand beside all others; those that are over at `now` are forgotten.

    Raises Conflict where users have taken too many; the console's own always stand.
    """
    if not hold.by_console and len(list_holds(connection, now)) >= MOST_HOLDS:
        raise Conflict(
            say("form.gc_held_often", most=MOST_HOLDS),
            why=say("form.gc_held_often_why"),
            next_step=say("form.gc_held_often_next"),
        )
    over = [name for name, one in _load_holds(connection).items() if one.until <= now]
    _delete(connection, over)
    add_fact(connection, f"{_HOLD}/{hold.id}", json.dumps(asdict(hold)))


def end_hold(connection: Connection, hold_id: str) -> bool:
    """End this hold and no other; whether it was there."""
    return _delete(connection, [name for name, one in _load_holds(connection).items() if one.id == hold_id])


def end_holds_of(connection: Connection, by: str) -> bool:
    """End all holds of the user `by` and no other; whether there was one."""
    held = _load_holds(connection).items()
    return _delete(connection, [name for name, one in held if one.by == by and not one.by_console])


def find_last_run(connection: Connection) -> LastRun | None:
    """The last pass that did something."""
    text = find_fact(connection, _LAST)
    return None if text is None else LastRun(**json.loads(text))


def write_last_run(connection: Connection, run: LastRun) -> None:
    """Remember this pass in place of the one before."""
    _delete(connection, [_LAST])
    add_fact(connection, _LAST, json.dumps(asdict(run)))


def _load_holds(connection: Connection) -> dict[str, Hold]:
    """Every hold, also one that is over, by the name of its fact."""
    is_hold = or_(facts.c.name == _HOLD, facts.c.name.startswith(f"{_HOLD}/", autoescape=True))
    found = {row.name: json.loads(row.value) for row in connection.execute(select(facts).where(is_hold))}
    return {name: _read_hold(kept) for name, kept in found.items()}


def _read_hold(kept: dict[str, Any]) -> Hold:
    hold = Hold(**{"id": kept["by"]} | kept)
    code = _OWN.get(hold.by) if hold.by_console else None
    return hold if code is None else replace(hold, why=find_said(hold.why, code))


def _delete(connection: Connection, names: Sequence[str]) -> bool:
    return bool(names) and connection.execute(delete(facts).where(facts.c.name.in_(names))).rowcount > 0

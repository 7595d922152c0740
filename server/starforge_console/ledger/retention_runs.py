"""What the ledger keeps of the collector itself: who holds it until when, and what its last pass did."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, delete

from starforge_console.ledger.fleets import add_fact, find_fact
from starforge_console.ledger.tables import facts

_HOLD: Final = "retention_hold"
_LAST: Final = "retention_last"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Nothing is removed until `until` (Unix seconds)."""

    until: float
    by: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """What a pass that removed something, or failed to, did; `by` is who asked for it, empty for the console itself."""

    at: float
    by: str
    removed: int
    bytes: int
    failed: int
    expired: dict[str, int] = field(default_factory=dict)


def find_hold(connection: Connection, now: float) -> Hold | None:
    """The hold that stands at `now`, if there is one."""
    text = find_fact(connection, _HOLD)
    hold = None if text is None else Hold(**json.loads(text))
    return hold if hold is not None and hold.until > now else None


def write_hold(connection: Connection, hold: Hold | None) -> None:
    """Let this hold stand in place of any other; None lets the collector go on."""
    _write(connection, _HOLD, hold)


def find_last_run(connection: Connection) -> LastRun | None:
    """The last pass that did something."""
    text = find_fact(connection, _LAST)
    return None if text is None else LastRun(**json.loads(text))


def write_last_run(connection: Connection, run: LastRun) -> None:
    """Remember this pass in place of the one before."""
    _write(connection, _LAST, run)


def _write(connection: Connection, name: str, value: Any) -> None:  # noqa: ANN401 - one of the records above
    connection.execute(delete(facts).where(facts.c.name == name))
    if value is not None:
        add_fact(connection, name, json.dumps(asdict(value)))

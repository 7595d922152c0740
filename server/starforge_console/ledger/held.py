"""What holds a place, what counts against it, and who comes first: read at one moment for a pass of the queue."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from starforge_console.domain.job import JobInFlight
from starforge_console.domain.quota import Usage
from starforge_console.ledger.fleets import list_requiring
from starforge_console.ledger.in_flight import list_in_flight
from starforge_console.ledger.quotas import load_usage
from starforge_console.ledger.shares import ShareOrder, load_order


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What the ledger says of all that holds a place, and of who comes first. `strict`: fleets that require limits."""

    in_flight: Sequence[JobInFlight]
    usage: Usage
    order: ShareOrder
    strict: frozenset[str]


def load_held(connection: Connection, now: float) -> Held:
    """All of it, as it is at one moment, `now` (Unix seconds)."""
    return Held(
        in_flight=list_in_flight(connection),
        usage=load_usage(connection, now),
        order=load_order(connection),
        strict=list_requiring(connection),
    )

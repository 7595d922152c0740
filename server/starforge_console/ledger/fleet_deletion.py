"""Deleting a fleet, in one transaction with all that may not be left behind."""

from sqlalchemy import Connection, select, update

from starforge.contract.states import ENDED
from starforge.errors import Conflict, NotFound
from starforge.said.sentence import say
from starforge.wording import count_of
from starforge_console.domain.nodes import NodeState
from starforge_console.domain.opening import WindowOf
from starforge_console.ledger.fleets import DELETED
from starforge_console.ledger.in_flight import list_in_flight
from starforge_console.ledger.tables import attempts, fleets, jobs, join_tokens, nodes
from starforge_console.ledger.windows import remove_window


def delete_fleet(connection: Connection, name: str, now: float) -> None:
    """Let there be no such fleet any more: its join tokens are revoked, its name is free, what it ran stays readable.

    Raises:
        NotFound: there is no such fleet.
        Conflict: jobs, nodes, or attempts whose containers are not removed yet are left; it says how many.

    """
    mine = (fleets.c.name == name) & (fleets.c.kind != DELETED)
    if connection.execute(select(fleets.c.name).where(mine)).first() is None:
        raise NotFound(say("form.no_fleet", name=f"{name!r:.80}"), next_step=say("form.fleets_next"))
    left = _count_left(connection, name)
    if left:
        raise Conflict(
            say("form.fleet_kept", name=name),
            why=say("form.fleet_kept_left", left=", ".join(left)),
            next_step=say("form.fleet_kept_left_next"),
        )
    connection.execute(
        update(join_tokens)
        .where(join_tokens.c.fleet == name, join_tokens.c.revoked_at.is_(None))
        .values(revoked_at=now)
    )
    remove_window(connection, WindowOf("fleet", name), now)
    connection.execute(update(fleets).where(mine).values(kind=DELETED))


def _count_left(connection: Connection, name: str) -> list[str]:
    """What stands in the way, each with its number."""
    running = {job.id: job.attempt.id for job in list_in_flight(connection) if job.attempt.target.fleet == name}
    goes_on = jobs.c.state.not_in([state.value for state in ENDED]) | jobs.c.retry_at.is_not(None)
    waiting = connection.execute(select(jobs.c.id).where(jobs.c.fleet == name, goes_on)).scalars()
    members = connection.execute(
        select(nodes.c.name).where(nodes.c.fleet == name, nodes.c.state != NodeState.REMOVED.value)
    ).all()
    kept = connection.execute(
        select(attempts.c.id).where(attempts.c.fleet == name, attempts.c.cleaned_at.is_(None))
    ).scalars()
    counts = {
        "job": len({*waiting, *running}),
        "node": len(members),
        "ended attempt": len({*kept} - {*running.values()}),
    }
    return [count_of(count, word) for word, count in counts.items() if count]

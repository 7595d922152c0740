"""What an administrator's word about a node does to the attempts there, each in one transaction."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import Connection, select, update

from starforge.contract.ids import AttemptId, JobId
from starforge.contract.observation import Phase
from starforge.contract.states import Reason
from starforge.contract.wire import NodeReport, decode
from starforge.errors import Conflict, SpecError
from starforge.said.sentence import say
from starforge_console.domain.job import JobInFlight
from starforge_console.domain.nodes import NodeState
from starforge_console.domain.reconcile import Move
from starforge_console.ledger.apply import apply_move
from starforge_console.ledger.endings import end_token
from starforge_console.ledger.in_flight import list_in_flight
from starforge_console.ledger.moves import Guard
from starforge_console.ledger.nodes import NodeRow, load_node, raise_fence
from starforge_console.ledger.tables import attempts, jobs, users

_SHOWN: Final = 5
_IDS_AT_ONCE: Final = 500
"""Databases bound how many values one statement may carry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostNode:
    """A node that was marked lost, and the jobs that lived there."""

    row: NodeRow
    jobs: tuple[JobId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Whose attempt it is."""

    job: JobId
    name: str
    user: str


def mark_lost(connection: Connection, name: str, guard: Guard) -> LostNode:
    """Declare that nothing on the node lives any more: its fence number rises, its attempts fail as `node_lost`.

    Their tokens end at once. A launch under way is overtaken: whoever leads it finds the job changed.

    Raises:
        NotFound: there is no such node.

    """
    row = load_node(connection, name)
    # The word of an administrator goes before every lease.
    over_leases = replace(guard, monotonic=math.inf)
    decision = Move(reasons=(Reason.NODE_LOST,), note=say("host.marked_lost", node=name))
    ended = []
    for job in list_living(connection, row):
        apply_move(connection, job, decision, over_leases)
        end_token(connection, job.attempt.id, guard.now)
        ended.append(job.id)
    return LostNode(row=raise_fence(connection, row, NodeState.LOST), jobs=tuple(ended))


def remove_node(connection: Connection, name: str, now: float) -> NodeRow:
    """Take the node out of its fleet; its name stays taken. A daemon that comes back removes all that it holds.

    Raises:
        NotFound: there is no such node.
        Conflict: attempts live there, known or unknown, or the storage is still being read for some that ended.

    """
    row = load_node(connection, name)
    _require_no_unknown(connection, row)
    living = [job.id for job in list_living(connection, row)]
    if living:
        raise Conflict(
            say("form.node_kept", name=name),
            why=say("form.node_lives", jobs=_list_some(living)),
            next_step=say("form.node_lives_next", name=name),
        )
    left = (attempts.c.node == name, attempts.c.fleet == row.fleet, attempts.c.cleaned_at.is_(None))
    unread = connection.execute(select(attempts.c.id).where(*left, attempts.c.finalised_at.is_(None))).scalars().all()
    if unread:
        raise Conflict(
            say("form.node_kept_yet", name=name),
            why=say("form.node_unread", attempts=_list_some(unread)),
            next_step=say("form.try_again"),
        )
    # Nobody asks the machine any more, so whatever is left of ended attempts there is not waited for.
    connection.execute(update(attempts).where(*left).values(cleaned_at=now, token_expires_at=now))
    return raise_fence(connection, row, NodeState.REMOVED)


def _require_no_unknown(connection: Connection, row: NodeRow) -> None:
    """After a backup was restored, what runs there may be newer than all that the ledger knows."""
    if row.state is NodeState.LOST or row.report is None:
        return
    try:
        told = decode(row.report, NodeReport).attempts
    except SpecError:  # of an older release
        return
    living = {attempt for attempt, phase in told.items() if phase != Phase.EXITED.value}
    unknown = sorted(living - list_kept(connection, living))
    if unknown:
        raise Conflict(
            say("form.node_kept", name=row.name),
            why=say("form.node_unknown", attempts=_list_some(unknown)),
            next_step=say("form.node_unknown_next", name=row.name),
        )


def list_living(connection: Connection, row: NodeRow) -> list[JobInFlight]:
    """The jobs in flight whose attempt was sent to the node."""
    # A machine of another fleet may have that name, such as the console's own.
    here = (row.fleet, row.name)
    return [job for job in list_in_flight(connection) if (job.attempt.target.fleet, job.attempt.target.node) == here]


def list_removable(connection: Connection, row: NodeRow, reported: Collection[AttemptId]) -> list[AttemptId]:
    """What a daemon with an old fence number must remove: what was lost with the node, and what is not known there.

    Attempts that live there, or ended there in any other way and are kept for a while, stay.
    """
    rows = connection.execute(
        select(attempts.c.id, attempts.c.reason).where(
            attempts.c.node == row.name, attempts.c.fleet == row.fleet, attempts.c.cleaned_at.is_(None)
        )
    ).all()
    lost = {AttemptId(one.id) for one in rows if one.reason == Reason.NODE_LOST.value}
    kept = {AttemptId(one.id) for one in rows} - lost
    return sorted(lost | (set(reported) - kept))


def list_kept(connection: Connection, among: Collection[AttemptId]) -> set[AttemptId]:
    """Those of `among` that the ledger holds and has not cleaned up."""
    wanted = list(among)
    found: set[AttemptId] = set()
    for start in range(0, len(wanted), _IDS_AT_ONCE):
        part = wanted[start : start + _IDS_AT_ONCE]
        rows = connection.execute(
            select(attempts.c.id).where(attempts.c.id.in_(part), attempts.c.cleaned_at.is_(None))
        ).all()
        found |= {AttemptId(row.id) for row in rows}
    return found


def find_holders(connection: Connection, among: Collection[AttemptId]) -> dict[AttemptId, Holder]:
    """Whose job each attempt belongs to; one that the ledger does not know is missing."""
    wanted = list(among)
    found: dict[AttemptId, Holder] = {}
    for start in range(0, len(wanted), _IDS_AT_ONCE):
        rows = connection.execute(
            select(attempts.c.id, jobs.c.id.label("job"), jobs.c.name, users.c.name.label("user"))
            .join(jobs, jobs.c.id == attempts.c.job_id)
            .join(users, users.c.id == jobs.c.user_id)
            .where(attempts.c.id.in_(wanted[start : start + _IDS_AT_ONCE]))
        ).all()
        found |= {AttemptId(row.id): Holder(job=JobId(row.job), name=row.name, user=row.user) for row in rows}
    return found


def locate_attempts(connection: Connection, among: Collection[AttemptId]) -> dict[AttemptId, str]:
    """The node that each attempt was sent to; one that the ledger does not know is missing."""
    wanted = list(among)
    found: dict[AttemptId, str] = {}
    for start in range(0, len(wanted), _IDS_AT_ONCE):
        rows = connection.execute(
            select(attempts.c.id, attempts.c.node).where(attempts.c.id.in_(wanted[start : start + _IDS_AT_ONCE]))
        ).all()
        found |= {AttemptId(row.id): str(row.node) for row in rows}
    return found


def _list_some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more

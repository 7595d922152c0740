"""Joins and heartbeats in the ledger: each is one transaction with everything that it must be compared with."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from starforge.contract.ids import AttemptId
from starforge.contract.registration import Superseded
from starforge.errors import NotFound, Refused
from starforge_console.domain.nodes import name_node
from starforge_console.ledger.join_tokens import use_join_token
from starforge_console.ledger.lost_nodes import list_removable
from starforge_console.ledger.nodes import Beat, NodeRow, add_node, find_node, list_names, note_heartbeat


@dataclass(frozen=True, slots=True)
class HeardBeat:
    """A heartbeat that counts: the node as it is now, and what its daemon must remove before anything else."""

    row: NodeRow
    remove: tuple[AttemptId, ...]


def join_by_token(connection: Connection, token_hash: str, row: NodeRow, now: float) -> NodeRow:
    """Keep a new node under a name that none had before, for one use of the token. Raises Refused."""
    use_join_token(connection, token_hash, row.fleet, now)
    named = replace(row, name=name_node(row.hostname, list_names(connection)))
    add_node(connection, named)
    return named


def take_beat(
    connection: Connection, name: str, beat: Beat, reported: Collection[AttemptId], now: float
) -> HeardBeat | Superseded:
    """Keep a heartbeat that tells of the attempts `reported`.

    Raises:
        NotFound: there was never such a node.
        Refused: the heartbeat is not newer than the last one, or of an epoch that nobody has taken here.

    """
    before = find_node(connection, name)
    if before is None:
        raise NotFound(f"there is no node {name!r:.80}", next_step="run 'forgelet join' on the machine again")
    if beat.epoch < before.epoch:
        return Superseded(superseded_by=before.epoch)
    row = note_heartbeat(connection, before, beat, now)
    if row is None:
        raise Refused(
            f"heartbeat {beat.counter} of epoch {beat.epoch} is not newer than the last one of node {name}",
            why=f"the last one is {before.counter} of epoch {before.epoch}",
            next_step="a daemon takes a new epoch by itself",
        )
    behind = beat.fence < row.fence
    return HeardBeat(row, tuple(list_removable(connection, row, reported)) if behind else ())

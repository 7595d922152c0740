"""Nodes in the ledger: who joined, in which epoch its daemon serves, and what it last told.

Every number that a daemon sends is compared and set in one transaction, so that neither a replay nor a second daemon
with the same identity ever passes for the first.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from sqlalchemy import Connection, bindparam, insert, select, update

from starforge.contract.registration import Superseded
from starforge.errors import Conflict, NotFound
from starforge.said.sentence import say
from starforge_console.domain.nodes import NodeState
from starforge_console.ledger.tables import nodes

LARGEST: Final = 1 << 53
"""No epoch, counter or fence number comes near it."""
_STATE: Final = select(nodes.c.state).where(nodes.c.name == bindparam("of"))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One machine of a fleet of kind `node`.

    Attributes:
        name: Unique in this install, for ever.
        certificate: The only one that is taken for it, as PEM; empty for a legacy node.
        previous_certificate: The one before, until the node has signed with the new one; then empty.
        fence: Rises whenever the node is marked lost or removed.
        fence_seen: The highest number that its daemon says it has cleaned up for.
        epoch: The newest one that a daemon took; 0 before the first.
        counter: That of the newest heartbeat of the epoch.
        joined_from: The address that the join came from.
        report: The newest NodeReport, as it came over the wire.
        drained_why: What the administrator said; kept while the node drains.

    """

    name: str
    fleet: str
    hostname: str
    advertise: str
    certificate: str
    previous_certificate: str = ""
    version: str
    state: NodeState = NodeState.ACTIVE
    legacy: bool = False
    fence: int = 0
    fence_seen: int = 0
    epoch: int = 0
    epoch_nonce: str = ""
    counter: int = 0
    joined_at: float
    joined_from: str
    heartbeat_at: float | None = None
    report: bytes | None = None
    drained_why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """What a node that joins again brings."""

    hostname: str
    advertise: str
    certificate: str
    version: str
    joined_from: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A heartbeat whose signature was checked. `fence` is the number that the daemon has cleaned up for."""

    epoch: int
    counter: int
    fence: int
    version: str
    report: bytes


def list_nodes(connection: Connection, fleet: str | None = None) -> list[NodeRow]:
    """All nodes by name, removed ones included; of one fleet where it is given."""
    query = select(nodes).order_by(nodes.c.name)
    if fleet is not None:
        query = query.where(nodes.c.fleet == fleet)
    return [_row(found._mapping) for found in connection.execute(query).all()]  # noqa: SLF001 - a Row's own interface


def find_node(connection: Connection, name: str) -> NodeRow | None:
    """The node of that name, if there was ever one."""
    found = connection.execute(select(nodes).where(nodes.c.name == name)).first()
    return None if found is None else _row(found._mapping)  # noqa: SLF001 - a Row's own interface


def load_node(connection: Connection, name: str) -> NodeRow:
    """The node of that name, unless it was removed. Raises NotFound."""
    found = find_node(connection, name)
    if found is None or found.state is NodeState.REMOVED:
        why = "" if found is None else "it was removed"
        raise NotFound(say("form.no_node", name=repr(name)), why=why, next_step=say("form.nodes_next"))
    return found


def list_names(connection: Connection) -> set[str]:
    """Every name that a node has or had."""
    return set(connection.execute(select(nodes.c.name)).scalars())


def add_node(connection: Connection, row: NodeRow) -> None:
    """Keep a new node; its name must not have been used before."""
    connection.execute(insert(nodes).values(asdict(row) | {"state": row.state.value}))


def renew_node(connection: Connection, name: str, renewal: Renewal) -> NodeRow:
    """Keep what a known node brought when it joined again; its name, numbers and state stay. Raises NotFound."""
    row = load_node(connection, name)
    # Of several joins without an answer the first certificate is the one that the node still signs with.
    proved_by = row.previous_certificate or row.certificate
    previous = "" if renewal.certificate == proved_by else proved_by
    return _set(connection, row, asdict(renewal) | {"previous_certificate": previous})


def take_epoch(connection: Connection, name: str, have: int, nonce: str) -> NodeRow | Superseded:
    """Give the epoch to a daemon that knows `have`, unless another one has taken it: compare and set.

    The same nonce gets the same answer again. A daemon that knows a higher epoch than the ledger is right: then the
    ledger was restored from an older copy. A removed node may take one, too: its daemon must hear what to clean up.

    Raises:
        NotFound: there was never such a node.

    """
    row = find_node(connection, name)
    if row is None:
        raise _unknown(name)
    if row.epoch and nonce == row.epoch_nonce:
        return row
    if not row.epoch <= have < LARGEST:
        return Superseded(superseded_by=row.epoch)
    taken = {"epoch": have + 1, "epoch_nonce": nonce, "counter": 0, "previous_certificate": ""}
    return _set(connection, row, taken)


def note_heartbeat(connection: Connection, row: NodeRow, beat: Beat, now: float) -> NodeRow | None:
    """Keep a heartbeat of the node that `row`, read in this transaction, describes.

    None, with nothing kept, unless it is of the present epoch and newer than the last one. A lost node counts again
    once its daemon has cleaned up for the node's fence number.
    """
    if beat.epoch != row.epoch or not row.counter < beat.counter < LARGEST:
        return None
    # A daemon that knows a higher fence number than a restored ledger has cleaned up for a mark that was forgotten.
    fence = max(row.fence, beat.fence)
    values: dict[str, Any] = {
        "counter": beat.counter,
        "fence": fence,
        "fence_seen": beat.fence,
        "heartbeat_at": now,
        "report": beat.report,
        "version": beat.version,
        "previous_certificate": "",
    }
    if row.state is NodeState.LOST and beat.fence >= fence:
        values["state"] = NodeState.DRAINING if row.drained_why else NodeState.ACTIVE
    return _set(connection, row, values)


def set_state(connection: Connection, name: str, state: NodeState, why: str = "") -> NodeRow:
    """Let a node be active, or draining for the reason `why`.

    Raises:
        NotFound: there is no such node.
        Conflict: it is marked lost.

    """
    row = load_node(connection, name)
    if row.state is NodeState.LOST:
        raise Conflict(
            say("form.node_lost", name=name),
            why=say("form.node_lost_why"),
            next_step=say("form.node_lost_next"),
        )
    return _set(connection, row, {"state": state, "drained_why": why})


def is_draining(connection: Connection, name: str) -> bool:
    """Whether there is such a node and it takes nothing new."""
    state = connection.execute(_STATE, {"of": name}).scalar()
    return bool(state == NodeState.DRAINING.value)


def raise_fence(connection: Connection, row: NodeRow, state: NodeState) -> NodeRow:
    """Let a node be `state` with a fence number that none of its daemons has cleaned up for."""
    fence = max(row.fence, row.fence_seen) + 1
    return _set(connection, row, {"state": state, "fence": fence})


def _set(connection: Connection, row: NodeRow, values: dict[str, Any]) -> NodeRow:
    """The row with `values`, which were written; heartbeats come all the time, so nothing is read again."""
    changed = replace(row, **values)
    connection.execute(update(nodes).where(nodes.c.name == row.name), values | {"state": changed.state.value})
    return changed


def _unknown(name: str) -> NotFound:
    return NotFound(say("form.no_node", name=f"{name!r:.80}"), next_step=say("form.no_node_join"))


def _row(values: Any) -> NodeRow:  # noqa: ANN401 - a row's mapping
    return NodeRow(**{**values, "state": NodeState(values["state"])})

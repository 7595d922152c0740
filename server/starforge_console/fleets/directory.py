"""The nodes as the rest of the console sees them: the ledger's rows, and what was heard since this process started."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from starforge.contract.addresses import check_advertise
from starforge.contract.ids import AttemptId
from starforge.contract.wire import NodeReport, decode
from starforge.errors import SpecError
from starforge_console.clock import Clock
from starforge_console.domain.nodes import NOT_TRIED, NodeState, explain_unreachable
from starforge_console.executors.node.directory import KnownNode
from starforge_console.ledger.database import Database
from starforge_console.ledger.lost_nodes import locate_attempts
from starforge_console.ledger.nodes import NodeRow, list_nodes

TWO_DAEMONS_SHOWN_S: Final = 60.0
_PLACES_AT_MOST: Final = 50_000
"""An attempt stays where it was sent, so its place is read once; this bounds what is remembered."""


@dataclass(slots=True)
class _Entry:
    row: NodeRow
    report: NodeReport | None = None
    heard_at: float | None = None
    reach: str | None = None
    superseded_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What of a node only this process knows.

    Attributes:
        heard_s: Seconds since its last heartbeat; None when none was heard since the console started.
        reach: Empty when it answered the last call, else why not.

    """

    heard_s: float | None
    reach: str


@dataclass(slots=True)
class Directory:
    """Keeps nothing that the ledger and the next heartbeats would not give again; belongs to one event loop."""

    ledger: Database
    clock: Clock
    _entries: dict[str, _Entry] = field(default_factory=dict)
    _places: dict[AttemptId, str] = field(default_factory=dict)
    _subscribers: list[tuple[str, Callable[[], None]]] = field(default_factory=list)

    async def load(self) -> None:
        """Read the ledger's nodes; what they told before this process began is shown, and counts as not heard yet."""
        for row in await self.ledger.read(list_nodes):
            self._entries[row.name] = _Entry(row, report=_read_report(row))

    def serve_legacy(self, fleet: str, addresses: Sequence[str]) -> None:
        """Count the machines at `addresses` to `fleet`, unless one has registered there or another fleet has them.

        Machines that the console's settings name are in no ledger: they are called, and tell nothing by themselves.
        """
        if self.rows(fleet) or any(entry.row.legacy for entry in self._entries.values()):
            return
        for address in addresses:
            row = build_legacy_row(fleet, address, self.clock.now())
            self._entries[row.name] = _Entry(row)

    def nodes(self, fleet: str) -> Sequence[KnownNode]:
        """The fleet's machines by name, removed ones left out."""
        entries = (self._entries[name] for name in sorted(self._entries))
        return [self._know(one) for one in entries if one.row.fleet == fleet and one.row.state is not NodeState.REMOVED]

    def find_known(self, name: str) -> KnownNode | None:
        """One node as `nodes` gives it, removed ones included."""
        entry = self._entries.get(name)
        return None if entry is None else self._know(entry)

    def find_row(self, name: str) -> NodeRow | None:
        """The ledger's row of a node, removed ones included."""
        entry = self._entries.get(name)
        return None if entry is None else entry.row

    def rows(self, fleet: str) -> Sequence[NodeRow]:
        """The ledger's rows of the fleet's machines by name, removed ones left out."""
        return [self._entries[node.name].row for node in self.nodes(fleet)]

    def find_report(self, name: str) -> NodeReport | None:
        """What the node last told, also before this process began."""
        entry = self._entries.get(name)
        return None if entry is None else entry.report

    def heard(self, name: str) -> Heard:
        """What was heard of a node of this directory."""
        entry, now = self._entries[name], self.clock.monotonic()
        reach: str = NOT_TRIED
        if entry.reach is not None:
            reach = explain_unreachable(entry.reach, entry.row.advertise, entry.row.joined_from)
        return Heard(
            heard_s=None if entry.heard_at is None else max(0.0, now - entry.heard_at),
            reach=reach,
        )

    async def locate(self, attempts: Collection[AttemptId]) -> Mapping[AttemptId, KnownNode]:
        """Where each attempt was sent; one that the ledger does not know is where a machine says that it holds it."""
        unknown = [attempt for attempt in attempts if attempt not in self._places]
        if unknown:
            found = await self.ledger.read(lambda c: locate_attempts(c, unknown))
            if len(self._places) + len(found) > _PLACES_AT_MOST:
                self._places.clear()
            self._places.update(found)
        entries = {attempt: self._find_entry(attempt) for attempt in attempts}
        return {attempt: self._know(entry) for attempt, entry in entries.items() if entry is not None}

    def note_reach(self, name: str, why: str) -> bool:
        """Keep whether the node was reached when it was last called (empty text: it was); True when that is news."""
        entry = self._entries.get(name)
        if entry is None or entry.reach == why:
            return False
        entry.reach = why
        return True

    def note_report(self, name: str, report: NodeReport) -> None:
        """Keep what a legacy node said of itself: it sends no heartbeats."""
        entry = self._entries.get(name)
        if entry is not None:
            self.note_beat(entry.row, report)

    def note_superseded(self, name: str) -> None:
        """Keep that a second daemon with the node's identity speaks."""
        entry = self._entries.get(name)
        if entry is not None:
            entry.superseded_at = self.clock.monotonic()

    def note_beat(self, row: NodeRow, report: NodeReport) -> bool:
        """Keep what the node told just now; True when that is news: whoever waits for the fleet is told, too."""
        entry = self._entries.setdefault(row.name, _Entry(row))
        before = entry.report
        news = before is None or entry.heard_at is None or _differs(before, report)
        entry.row, entry.report, entry.heard_at = row, report, self.clock.monotonic()
        if news:
            self._tell(row.fleet)
        return news

    def note_row(self, row: NodeRow, *, joined: bool = False) -> None:
        """Keep the row of a node that joined or was changed; after a join it is called anew."""
        entry = self._entries.setdefault(row.name, _Entry(row))
        entry.row = row
        if joined:
            entry.reach, entry.superseded_at = None, None  # whoever had copied its key is no daemon of it now
            self._end_legacy(row.fleet)
        self._tell(row.fleet)

    def subscribe(self, fleet: str, wake: Callable[[], None]) -> Callable[[], None]:
        """`wake` is called when a node of the fleet joined, changed or told something new; gives what ends that."""
        subscriber = (fleet, wake)
        self._subscribers.append(subscriber)

        def end() -> None:
            if subscriber in self._subscribers:
                self._subscribers.remove(subscriber)

        return end

    def _end_legacy(self, fleet: str) -> None:
        """The first machine that registers makes the settings' list unread: what runs there is still watched."""
        for entry in self._entries.values():
            if entry.row.legacy and entry.row.fleet == fleet:
                why = "a machine has registered, so the console's settings name no machines of this fleet any more"
                entry.row = replace(entry.row, state=NodeState.DRAINING, drained_why=why)

    def _know(self, entry: _Entry) -> KnownNode:
        row, seen = entry.row, entry.superseded_at
        return KnownNode(
            name=row.name,
            fleet=row.fleet,
            advertise=row.advertise,
            certificate=row.certificate,
            standing=row.state,
            fence=row.fence,
            report=entry.report,
            heard_at=entry.heard_at,
            joined_from=row.joined_from,
            reach=entry.reach,
            legacy=row.legacy,
            drained_why=row.drained_why,
            two_daemons=seen is not None and self.clock.monotonic() - seen <= TWO_DAEMONS_SHOWN_S,
        )

    def _tell(self, fleet: str) -> None:
        for of, wake in list(self._subscribers):
            if of == fleet:
                wake()

    def _find_entry(self, attempt: AttemptId) -> _Entry | None:
        """Where it was sent; if that machine is none of ours any more, or never was, the one that says it holds it."""
        sent_to = self._entries.get(self._places.get(attempt, ""))
        if sent_to is not None and sent_to.row.state is not NodeState.REMOVED:
            return sent_to
        standing = (entry for entry in self._entries.values() if entry.row.state is not NodeState.REMOVED)
        return next((one for one in standing if one.report is not None and attempt in one.report.attempts), None)


def build_legacy_row(fleet: str, address: str, now: float) -> NodeRow:
    """A machine that the console's settings name. Raises InputError when `address` is not HOST:PORT."""
    check_advertise(address)
    name = re.sub(r"[^a-z0-9]+", "-", address.lower()).strip("-")
    return NodeRow(
        name=f"legacy-{name}",
        fleet=fleet,
        hostname=address.rpartition(":")[0],
        advertise=address,
        certificate="",
        version="",
        legacy=True,
        joined_at=now,
        joined_from="",
    )


def _read_report(row: NodeRow) -> NodeReport | None:
    try:
        return None if row.report is None else decode(row.report, NodeReport)
    except SpecError:  # of an older release: the next heartbeat replaces it
        return None


def _differs(one: NodeReport, other: NodeReport) -> bool:
    """Whether something may be placed, ended or shown otherwise than before: not the clock, the disk, or progress."""
    return _gist(one) != _gist(other)


def _gist(report: NodeReport) -> tuple[object, ...]:
    pulled = tuple(pull.image for pull in report.pulls)
    return (report.view, report.view_unknown, report.attempts, pulled, report.boot, report.fence, report.superseded)

"""What the executor must know of a fleet's machines; whoever keeps it comes in from above."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from starforge.contract.ids import AttemptId
from starforge.contract.wire import NodeReport
from starforge_console.domain.nodes import NodeState


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNode:
    """One machine as the console knows it.

    Attributes:
        advertise: `HOST:PORT` of its daemon.
        certificate: The only one that is taken for it, as PEM; empty for a legacy node, which a token lets in.
        fence: Rises when the node is marked lost; a daemon that has not caught up starts nothing.
        report: The newest heartbeat (of a legacy node: answer of `/v1/health`), or None before the first.
        heard_at: When that came, by the console's monotonic clock.
        joined_from: Where the join came from, if not from the advertised address.
        drained_why: What the administrator said who drained it.
        two_daemons: A second daemon with its identity was heard of late.
        reach: Why it did not answer when it was last called; empty when it did, None when nobody has called it yet.

    """

    name: str
    fleet: str
    advertise: str
    certificate: str
    standing: NodeState
    fence: int
    report: NodeReport | None = None
    heard_at: float | None = None
    joined_from: str = ""
    reach: str | None = None
    legacy: bool = False
    drained_why: str = ""
    two_daemons: bool = False


class NodeDirectory(Protocol):
    """The machines of all fleets, and where attempts are."""

    def nodes(self, fleet: str) -> Sequence[KnownNode]:
        """The fleet's machines by name, removed ones left out."""

    async def locate(self, attempts: Collection[AttemptId]) -> Mapping[AttemptId, KnownNode]:
        """Where each attempt was sent; an attempt of no known machine is missing."""

    def note_reach(self, name: str, why: str) -> bool:
        """Keep whether the node was reached when it was last called (empty text: it was); True when that is news."""

    def note_report(self, name: str, report: NodeReport) -> None:
        """Keep what a legacy node said of itself: it sends no heartbeats."""

    def subscribe(self, fleet: str, wake: Callable[[], None]) -> Callable[[], None]:
        """`wake` is called when a node of the fleet joined, changed or told something new; gives what ends that."""

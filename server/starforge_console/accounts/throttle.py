"""Slows down whoever keeps on doing something, such as failing to sign in, counted by where requests come from."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from starforge.errors import Busy
from starforge.said.sentence import say
from starforge_console.domain.callers import find_source

FAILURES_AT_ONCE: Final = 30
RECOVERY_S: Final = 2.0
"""One more failure is allowed after each of these."""
PEERS_AT_MOST: Final = 1024


@dataclass(slots=True)
class _Peer:
    spent: float
    at: float


class Throttle:
    """Failures by peer, in bounded memory: of too many peers the one that failed longest ago is forgotten."""

    def __init__(self) -> None:
        self._peers: OrderedDict[str, _Peer] = OrderedDict()

    def check(self, peer: str, monotonic: float) -> None:
        """Raises Busy while `peer` has no failure left."""
        spent = self._spent(peer, monotonic)
        if spent >= FAILURES_AT_ONCE:
            raise Busy(
                say("fault.many_failures", peer=peer),
                retry_after_s=(spent - FAILURES_AT_ONCE + 1) * RECOVERY_S,
                next_step=say("fault.many_failures_next"),
            )

    def count_failure(self, peer: str, monotonic: float) -> None:
        """One more failure of `peer`."""
        source = find_source(peer)
        self._peers[source] = _Peer(self._spent(peer, monotonic) + 1, monotonic)
        self._peers.move_to_end(source)
        if len(self._peers) > PEERS_AT_MOST:
            self._peers.popitem(last=False)

    def _spent(self, peer: str, monotonic: float) -> float:
        known = self._peers.get(find_source(peer))
        return 0.0 if known is None else max(0.0, known.spent - (monotonic - known.at) / RECOVERY_S)

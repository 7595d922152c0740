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

    def __init__(self, at_once: int = FAILURES_AT_ONCE, recovery_s: float = RECOVERY_S) -> None:
        """Let each peer have `at_once`, and one more after every `recovery_s` seconds."""
        self._at_once = at_once
        self._recovery_s = recovery_s
        self._peers: OrderedDict[str, _Peer] = OrderedDict()

    def check(self, peer: str, monotonic: float) -> None:
        """Raises Busy while `peer` has no failure left."""
        wait_s = self.find_wait(peer, monotonic)
        if wait_s:
            raise Busy(
                say("fault.many_failures", peer=peer),
                retry_after_s=wait_s,
                next_step=say("fault.many_failures_next"),
            )

    def find_wait(self, peer: str, monotonic: float) -> float:
        """After how many seconds `peer` has one left again; 0 where it has one now."""
        spent = self._spent(peer, monotonic)
        return 0.0 if spent < self._at_once else (spent - self._at_once + 1) * self._recovery_s

    def count_failure(self, peer: str, monotonic: float) -> None:
        """One more failure of `peer`."""
        source = find_source(peer)
        self._peers[source] = _Peer(self._spent(peer, monotonic) + 1, monotonic)
        self._peers.move_to_end(source)
        if len(self._peers) > PEERS_AT_MOST:
            self._peers.popitem(last=False)

    def _spent(self, peer: str, monotonic: float) -> float:
        known = self._peers.get(find_source(peer))
        return 0.0 if known is None else max(0.0, known.spent - (monotonic - known.at) / self._recovery_s)

"""Failed sign-ins in the audit log: some of each address, so that nobody fills it by guessing."""

from collections import OrderedDict
from typing import Final

from starforge.said.sentence import Said, say
from starforge_console.clock import Clock
from starforge_console.domain.callers import find_source
from starforge_console.ledger.audit import Actor, Via, audited
from starforge_console.ledger.database import Database

APART_S: Final = 60.0
"""One address is told of again after this long."""
AT_MOST: Final = 60
"""So many addresses are told of in that time; of more nobody is."""


class FailureLog:
    """Writes down who failed; belongs to one event loop."""

    def __init__(self, ledger: Database, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._told: OrderedDict[str, float] = OrderedDict()

    async def note(self, way: Said, peer: str) -> None:
        """Somebody at `peer` failed to sign in that `way`."""
        now = self._clock.monotonic()
        while self._told and now - next(iter(self._told.values())) >= APART_S:
            self._told.popitem(last=False)
        source = find_source(peer)
        if source in self._told or len(self._told) >= AT_MOST:
            return
        self._told[source] = now
        actor = Actor(user="", via=Via.PAGE, at=self._clock.now(), peer=peer)
        await self._ledger.write(audited(lambda _: None, say("did.sign_in_failed", way=way), by=actor))

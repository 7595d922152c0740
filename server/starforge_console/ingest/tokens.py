"""Ingest tokens: which attempt a token stands for, and what that attempt is wished to do."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from starforge.contract.states import DesiredState
from starforge_console.clock import Clock
from starforge_console.domain.tokens import hash_token
from starforge_console.domain.wishes import find_left_s
from starforge_console.errors import StreamClosed, TokenRefused
from starforge_console.ledger.database import Database
from starforge_console.ledger.reports import IngestGrant, find_grant

REMEMBERED_S: Final = 1.0
"""How long the ledger's answer is believed: the longest that an ended token still works."""
REMEMBERED_AT_MOST: Final = 4096


@dataclass(frozen=True, slots=True)
class Wish:
    """What the attempt shall do; `grace_s` is what is left of the time to end, None when it may run."""

    desired: DesiredState
    grace_s: float | None


class IngestTokens:
    """Checks ingest tokens against the ledger, once a second for each at most. Keeps hashes alone."""

    def __init__(self, ledger: Database, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._known: OrderedDict[str, tuple[IngestGrant, float]] = OrderedDict()

    async def load_grant(self, token: str) -> IngestGrant:
        """What `token` stands for.

        Raises:
            TokenRefused: nobody gave out such a token.
            StreamClosed: its attempt ended or was fenced, and the token with it.

        """
        hashed = hash_token(token)
        grant = self._find_remembered(hashed)
        if grant is None:
            grant = await self._ledger.read(lambda connection: find_grant(connection, hashed))
            if grant is None:
                raise TokenRefused("this ingest token is unknown", next_step="the spool is the record; stop sending")
            self._remember(hashed, grant)
        if grant.expires_at <= self._clock.now():
            raise StreamClosed(
                f"attempt {grant.attempt.id} no longer reports",
                why="it ended, or another attempt took its place",
                next_step="stop sending; the spool is the record",
            )
        return grant

    def wish_of(self, grant: IngestGrant) -> Wish:
        """What the attempt shall do now."""
        if grant.desired is DesiredState.RUN or grant.stop_by is None:
            return Wish(grant.desired, None)
        return Wish(grant.desired, find_left_s(grant.stop_by, grant.stop_grace_s, self._clock.now()))

    def _find_remembered(self, hashed: str) -> IngestGrant | None:
        grant, at = self._known.get(hashed, (None, 0.0))
        return grant if self._clock.monotonic() - at < REMEMBERED_S else None

    def _remember(self, hashed: str, grant: IngestGrant) -> None:
        self._known[hashed] = (grant, self._clock.monotonic())
        self._known.move_to_end(hashed)
        while len(self._known) > REMEMBERED_AT_MOST:
            self._known.popitem(last=False)

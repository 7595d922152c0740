"""Backfill: an attempt that ingest does not hear of is read from its spool while it runs, more slowly."""

from typing import Final

import structlog

from starforge.errors import StarForgeError
from starforge_console.assembly.layout import StorageLayout
from starforge_console.ingest.catch_up import Reach, catch_up
from starforge_console.ingest.presence import Presence
from starforge_console.ingest.receive import Receiver
from starforge_console.ingest.streams import Stores, list_streams
from starforge_console.ledger.reports import ReportingAttempt, list_reporting

PERIOD_S: Final = 5.0
PIECE_BYTES: Final = 8 << 20
"""About so much of each stream is read in one round, so that no attempt holds up the others."""

_log = structlog.get_logger("backfill")


class Backfill:
    """One round over the attempts that run."""

    def __init__(self, receiver: Receiver, stores: Stores, storage: StorageLayout, presence: Presence) -> None:
        self._receiver = receiver
        self._ledger = stores.ledger
        self._bounds = stores.bounds
        self._storage = storage
        self._presence = presence

    async def run_once(self) -> float:
        """Read the spools of the silent ones; gives the seconds until the next round."""
        reporting = await self._ledger.read(list_reporting)
        self._presence.keep_only({attempt.id for attempt in reporting})
        for attempt in reporting:
            if not self._presence.is_silent(attempt.id):
                continue
            try:
                await self._read(attempt)
            except (StarForgeError, OSError) as error:  # one bad spool must not hold up the others
                _log.warning("a spool cannot be read", attempt=attempt.id, error=str(error))
        return PERIOD_S

    async def _read(self, attempt: ReportingAttempt) -> None:
        root = self._storage.attempt(attempt.id).root
        for stream in list_streams(attempt.nodes):
            reach = Reach(self._bounds.of(stream), PIECE_BYTES, is_final=False)
            await catch_up(self._receiver, attempt, stream, root, reach)

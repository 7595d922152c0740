"""A loop: one pass, then a wait for a wake-up or its slow timer. An error in a pass never ends the loop."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from starforge_console.telemetry.metrics import LoopFigures
from starforge_console.wakeups import Wakeups

FIRST_BACKOFF_S: Final = 0.5
LONGEST_BACKOFF_S: Final = 30.0

_log = structlog.get_logger("scheduler")


class Loop:
    """Runs `body` whenever one of `topics` is notified, and at the latest after what `body` answers (seconds)."""

    def __init__(
        self,
        name: str,
        topics: str | tuple[str, ...],
        wakeups: Wakeups,
        body: Callable[[], Awaitable[float]],
        figures: LoopFigures | None = None,
    ) -> None:
        self._name = name
        self._topics = (topics,) if isinstance(topics, str) else topics
        self._wakeups = wakeups
        self._body = body
        self._figures = figures

    async def run(self) -> None:
        """Run until cancelled."""
        backoff_s = FIRST_BACKOFF_S
        while True:
            waiter = self._wakeups.subscribe(*self._topics)
            began = time.monotonic()
            try:
                delay_s = await self._body()
                backoff_s = FIRST_BACKOFF_S
                self._note(began, failed=False)
            except Exception as error:  # noqa: BLE001 - the loop's outermost frame: the next pass tries again
                _log.exception("a pass failed", loop=self._name, error=type(error).__name__)
                self._note(began, failed=True)
                self._wakeups.forget(waiter)
                await asyncio.sleep(backoff_s)
                backoff_s = min(LONGEST_BACKOFF_S, backoff_s * 2)
                continue
            await waiter.wait(delay_s)

    def _note(self, began: float, *, failed: bool) -> None:
        if self._figures is not None:
            self._figures.note(self._name, began, failed=failed)

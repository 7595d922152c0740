"""Long polls: a request waits for a change, for at most 30 s, and never keeps the console from ending."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from starforge_console.wakeups import Wakeups

LONGEST_WAIT_S: Final = 30.0
CLOSING: Final = "api-closing"
"""The topic that is told when the console ends."""

FIRST_LOOKS_AT_ONCE: Final = 4
"""Nobody shares all of a stream's first look, and many readers may come at once: they wait, and nobody else does."""

T = TypeVar("T")


class LongPolls:
    """Waits of one event loop; all end at once when the console ends."""

    def __init__(self, wakeups: Wakeups) -> None:
        self._wakeups = wakeups
        self._closing = False
        self.first_looks: Final = asyncio.Semaphore(FIRST_LOOKS_AT_ONCE)

    @property
    def closing(self) -> bool:
        """Whether the console ends: nothing may wait any more."""
        return self._closing

    def close(self) -> None:
        """End every wait, and let none begin any more."""
        self._closing = True
        self._wakeups.notify(CLOSING)

    async def until(
        self,
        look: Callable[[], Awaitable[T]],
        enough: Callable[[T], bool],
        topics: tuple[str, ...],
        wait_s: float,
    ) -> T:
        """What `look` gives once it is `enough`, or when `wait_s` (30 s at most) are over.

        It looks again whenever one of `topics` is told, and once more when the time is over.
        """
        deadline = asyncio.get_running_loop().time() + min(wait_s, LONGEST_WAIT_S)
        while True:
            waiter = self._wakeups.subscribe(*topics, CLOSING)
            try:
                seen = await look()
                remaining_s = deadline - asyncio.get_running_loop().time()
                if enough(seen) or remaining_s <= 0 or self._closing:
                    return seen
                await waiter.wait(remaining_s)
            finally:
                self._wakeups.forget(waiter)

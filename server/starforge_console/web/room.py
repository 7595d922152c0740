"""How much of what is being sent may be held at once, by everybody together and by each sender."""

import contextlib
from collections import Counter
from collections.abc import Iterator

from starforge.errors import Busy

_AGAIN_S = 1.0


class Room:
    """A number of bytes (or of anything else that is counted) to share; belongs to one event loop."""

    def __init__(self, limit: int, share: int) -> None:
        self._limit = limit
        self._share = share
        self._held = 0
        self._by_holder: Counter[str] = Counter()

    @contextlib.contextmanager
    def hold(self, holder: str) -> Iterator["Hold"]:
        """A hold of nothing, which grows; what it has grown to is given back at the end of the block."""
        hold = Hold(self, holder)
        try:
            yield hold
        finally:
            self._give_back(holder, hold.size)

    def take(self, holder: str, size: int) -> None:
        """Have room for `size` more, or raise Busy; `Hold.grow` keeps account of it."""
        if self._by_holder[holder] + size > self._share:
            why = f"more than {self._share} of one sender would be held at once"
            raise Busy(
                "too much of yours is on its way",
                why=why,
                retry_after_s=_AGAIN_S,
                next_step="send less at a time, or repeat it in a moment",
            )
        if self._held + size > self._limit:
            why = f"{self._held} of {self._limit} are held already"
            raise Busy("too much is on its way", why=why, retry_after_s=_AGAIN_S, next_step="repeat it in a moment")
        self._held += size
        self._by_holder[holder] += size

    def _give_back(self, holder: str, size: int) -> None:
        self._held -= size
        self._by_holder[holder] -= size
        if self._by_holder[holder] <= 0:
            del self._by_holder[holder]


class Hold:
    """What one request holds."""

    def __init__(self, room: Room, holder: str) -> None:
        self._room = room
        self._holder = holder
        self.size = 0

    def grow(self, size: int) -> None:
        """Hold `size` more. Raises Busy, with nothing more held, when there is no room."""
        self._room.take(self._holder, size)
        self.size += size

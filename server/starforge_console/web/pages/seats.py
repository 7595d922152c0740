"""A bound on the live streams of one user and of all: beyond it a page says from when it is, and asks again."""

from collections.abc import AsyncIterator
from typing import Final

from starforge.errors import Busy
from starforge_console.web.pages.services import Pages
from starforge_console.web.pages.visit import Signed, account_of

AGAIN_S: Final = 10.0


async def take_seat(pages: Pages, visit: Signed) -> AsyncIterator[None]:
    """A place among the readers of streams for as long as the answer lasts. Raises Busy when there is none."""
    user = account_of(visit).user
    with pages.seats.hold(user) as hold:
        try:
            hold.grow(1)
        except Busy as error:
            raise Busy(
                f"no room for one more live page of {user}",
                why=error.why,
                retry_after_s=AGAIN_S,
                next_step="close pages that nobody looks at; this one asks again by itself",
            ) from None
        yield

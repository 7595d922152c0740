"""The counts of the side bar, how many jobs run and how many wait, as fragments for a page that is open."""

from collections.abc import Mapping

from starforge_console.ledger.views import count_in_states
from starforge_console.web.deps import ApiServices
from starforge_console.web.i18n.words import Words
from starforge_console.web.pages.services import PageServices
from starforge_console.web.pages.visit import COUNTED


async def load_side(pages: PageServices, services: ApiServices, words: Words, since: float) -> str:
    """The counts as they are, looked at once for all readers who were woken together."""

    async def count() -> Mapping[str, int]:
        return await services.ledger.read(lambda c: count_in_states(c, COUNTED))

    return pages.look.part(words, "side_counts.html", counts=await pages.hub.look("side", since, count))

"""The page of the queue: who stands where, what each waits for, and what binds the reader's own jobs."""

from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from starforge.contract.bounds import LARGEST_NUMBER
from starforge.contract.queue import QUEUE_MOVES, QueueMove
from starforge.errors import InputError
from starforge.said.sentence import say
from starforge_console.accounts.sign_in import check_operator
from starforge_console.admission.admit import PRIORITIES
from starforge_console.domain.quota import NO_LIMIT
from starforge_console.ledger.accounts import Account
from starforge_console.ledger.queue_order import list_shapes
from starforge_console.ledger.statements import list_own
from starforge_console.web.deps import ApiServices, Services
from starforge_console.web.pages.fleets import NO_STORE
from starforge_console.web.pages.services import Pages
from starforge_console.web.pages.visit import Signed, account_of, load_form, text_of
from starforge_console.web.queue import ANY, load_queue
from starforge_console.web.queue_facts import add_facts

PAGE_SIZE: Final = 50
PARTS: Final = ("count", "own", "closed", "order", "promises", "shares", "quotas")
"""What of the page changes by itself: each a template, and an element of its own."""
WORDS: Final = {value: word for word, value in PRIORITIES.items()}

router = APIRouter(include_in_schema=False)

After = Annotated[int, Query(ge=0, le=LARGEST_NUMBER)]
Series = Annotated[str, Query(max_length=100)]


@router.get("/queue")
async def show_queue(
    pages: Pages, services: Services, visit: Signed, *, series: Series = "", after: After = 0
) -> Response:
    """One page of the queue, of the jobs that ask for `series` alone where it is given."""
    values = await load_queue_page(services, account_of(visit), series, after)
    return pages.look.page(visit, "queue.html", nav="queue", parts=PARTS, **values)


@router.post("/queue/{job_id}")
async def move(services: Services, visit: Signed, request: Request, job_id: str) -> Response:
    """Put a queued job first or last, or let it stand where it belongs."""
    account = account_of(visit)
    check_operator(account)
    form = await load_form(request, visit)
    await services.queue_places.put(job_id, _read_move(text_of(form, "to")), account.user)
    back = {name: value for name in ("series", "after") if (value := text_of(form, name, 100)) not in {"", "0"}}
    return RedirectResponse(f"/queue?{urlencode(back)}" if back else "/queue", 303, NO_STORE)


async def load_queue_page(services: ApiServices, account: Account, series: str, after: int) -> dict[str, Any]:
    """What the page of a user shows at this moment."""
    now = services.clock.now()
    shapes, own = await services.ledger.read(lambda c: (list_shapes(c), list_own(c, account.user_id, now)))
    names = sorted({name for shape in shapes for name in shape.series if name is not None} | ({series} - {"", ANY}))
    any_series = [ANY] if any(None in shape.series for shape in shapes) or series == ANY else []
    tabs = ["", *names, *any_series]
    counts = {tab: sum(shape.jobs for shape in shapes if _asks(shape.series, tab)) for tab in tabs}
    return {
        "queue": await add_facts(services, account, await load_queue(services, series, after=after, limit=PAGE_SIZE)),
        "user": account.user,
        "series": series,
        "tabs": tabs,
        "counts": counts,
        "after": after,
        "any_series": ANY,
        "priorities": WORDS,
        "quotas": [line for line in own if line.limit != NO_LIMIT],
    }


def _read_move(to: str) -> QueueMove:
    moves = {str(move): move for move in QUEUE_MOVES}
    if to not in moves:
        raise InputError(
            say("form.no_queue_place", to=repr(to)), next_step=say("form.one_of", options=", ".join(moves))
        )
    return moves[to]


def _asks(series: frozenset[str | None], tab: str) -> bool:
    return not tab or (None if tab == ANY else tab) in series

"""What is told beside the queue, as messages: the caller's own jobs, whose turn it is, promises, and what is closed."""

from starforge.contract.queue import PromiseView, QueueEntry, QueueList, ShareView
from starforge.said.sentence import code_of
from starforge_console.domain.gpu_hours import HOUR_S
from starforge_console.domain.reservation import PASSED_AT_MOST
from starforge_console.ledger.accounts import Account
from starforge_console.ledger.listing import JobLine
from starforge_console.ledger.queue_facts import PROMISED, Placed, ShareLine, load_facts
from starforge_console.ledger.queue_order import Place
from starforge_console.ledger.waits import read_waits
from starforge_console.web.deps import ApiServices
from starforge_console.web.views import build_job
from starforge_console.web.windows import show_window


async def add_facts(services: ApiServices, account: Account, queue: QueueList) -> QueueList:
    """The same list with what the caller is told beside it."""
    facts = await services.ledger.read(lambda c: load_facts(c, account.user_id))
    windows = [show_window(one) for one in await services.opening_hours.list_for(account)]
    return queue.model_copy(
        update={
            "own": tuple(build_entry(one.place, one.line) for one in facts.own),
            "own_jobs": facts.own_jobs,
            "shares": tuple(map(_build_share, facts.shares)),
            "promises": tuple(map(_build_promise, facts.promised)),
            "closed": tuple(one for one in windows if not one.is_open),
        }
    )


def build_entry(place: Place, line: JobLine) -> QueueEntry:
    """A queued job as a message."""
    moved = None if place.ahead == 0 else "first" if place.ahead > 0 else "last"
    return QueueEntry(place=place.number, priority=place.priority, moved=moved, job=build_job(line))


def _build_share(one: ShareLine) -> ShareView:
    return ShareView(
        user=one.user,
        team=one.team,
        jobs=one.jobs,
        gpu_hours=round(one.user_gpu_s / HOUR_S, 2),
        team_gpu_hours=round(one.team_gpu_s / HOUR_S, 2),
    )


def _build_promise(one: Placed) -> PromiseView:
    waits = read_waits(one.line.job.waiting)
    kept = next((wait for wait in waits if code_of(wait.reason) in PROMISED), None)
    return PromiseView(
        place=one.place.number,
        job=build_job(one.line),
        by=None if kept is None else kept.starts_by,
        node=None if kept is None else next(iter(kept.places), None),
        passed=one.passed,
        passed_at_most=PASSED_AT_MOST,
    )

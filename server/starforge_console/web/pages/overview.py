"""The first page: what needs attention, which GPUs there are, the head of the queue, and the reader's own runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from fastapi import APIRouter
from starlette.responses import RedirectResponse, Response

from starforge.contract.fleets import FleetDetail
from starforge.contract.results import Curve
from starforge.contract.states import JobState
from starforge_console.ledger.database import Database
from starforge_console.ledger.listing import JobLine, search_jobs
from starforge_console.ledger.points import search_keys
from starforge_console.ledger.queue_order import list_places_of, list_shapes
from starforge_console.ledger.search import ACTIVE, OVER, JobSearch
from starforge_console.ledger.tables import jobs
from starforge_console.web.deps import ApiServices
from starforge_console.web.fleet_views import FleetServices, load_details
from starforge_console.web.pages import fleet_map
from starforge_console.web.pages.attention import list_concerns
from starforge_console.web.pages.causes import find_cause, tell_cause
from starforge_console.web.pages.figures import Line, build_figure, choose_groups
from starforge_console.web.pages.fleet_visit import Asked
from starforge_console.web.pages.job_view import has_ended
from starforge_console.web.pages.visit import FIRST_PAGE, Signed
from starforge_console.web.primary_metric import find_primary
from starforge_console.web.queue import build_capacity, load_queue
from starforge_console.web.steps import add_steps

HEAD_OF_QUEUE: Final = 5
RUNS: Final = 8
ENDED_RUNS: Final = 2
FAILURES: Final = 5
FAILED_S: Final = 3 * 86_400.0
"""For how long a failed run of the reader needs attention."""
PARTS: Final = ("count", "attention", "capacity", "queue", "runs")
"""What of the page changes by itself: each a template, and an element of its own."""
_POINTS: Final = 80
_KEYS: Final = 200

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Run:
    """One of the reader's runs with the metric that stands for it, where it reported one.

    `place` is where it stands in the whole queue, the first one at 1; None when it is not queued.
    """

    line: JobLine
    metric: Line | None = None
    place: int | None = None


@router.get("/")
async def go_to_overview(_visit: Signed) -> Response:
    """The overview is where everything begins."""
    return RedirectResponse(FIRST_PAGE, 303, {"Cache-Control": "no-store"})


@router.get("/overview")
async def show_overview(asked: Asked) -> Response:
    """Everything at a glance."""
    values = await load_overview(asked.services, asked.fleets, asked.user)
    return asked.pages.look.page(asked.visit, "overview.html", nav="overview", parts=PARTS, **values)


async def load_overview(services: ApiServices, fleets: FleetServices, user: str) -> dict[str, Any]:
    """What the page of `user` shows at this moment."""
    details = await load_details(fleets)
    since = services.clock.now() - FAILED_S
    lines, failures = await _find_jobs(services.ledger, user)
    failed = [line for line in failures if has_ended(line) and (line.job.ended_at or 0) > since]
    found = {line.job.id: await find_cause(services, line.job.id) for line in failed}
    capacity = build_capacity(details, await services.ledger.read(list_shapes))
    return {
        "concerns": list_concerns(details, failed, {job: cause for job, cause in found.items() if cause}),
        "tell_cause": tell_cause,
        "capacity": capacity,
        "states": [state for state in fleet_map.STATES if any(state in one.gpus for one in capacity.items)],
        "totals": _count(details),
        "fleet_map": fleet_map,
        "queue": await load_queue(services, limit=HEAD_OF_QUEUE),
        "runs": await _load_runs(services, lines),
        "has_ended": has_ended,
        "user": user,
    }


async def _find_jobs(ledger: Database, user: str) -> tuple[list[JobLine], list[JobLine]]:
    """The runs of `user` that are shown, active ones first, and the newest that failed.

    However many are active, some that have ended are shown too: who has just seen one end looks for how.
    """
    mine = JobSearch(user=user)
    active, ended, failed = await ledger.read(
        lambda c: (
            search_jobs(c, replace(mine, state=ACTIVE), RUNS),
            search_jobs(c, replace(mine, state=OVER), RUNS),
            search_jobs(c, replace(mine, state=JobState.FAILED.value), FAILURES),
        )
    )
    return [*active[: RUNS - min(ENDED_RUNS, len(ended))], *ended][:RUNS], failed


def _count(details: Sequence[FleetDetail]) -> dict[str, int]:
    return {
        "fleets": len(details),
        "nodes": sum(len(detail.nodes) for detail in details),
        "gpus": sum(len(node.gpus) for detail in details for node in detail.nodes),
    }


async def _load_runs(services: ApiServices, lines: Sequence[JobLine]) -> list[Run]:
    """The runs with their metrics, all of which are read at once."""
    ids = [line.job.id for line in lines]
    keys = await services.series.read(
        lambda c: {job: {one.key: one.points for one in search_keys(c, job, limit=_KEYS)} for job in ids}
    )
    chosen = {}
    for line in lines:
        primary = await find_primary(services.catalog, line.recipe)
        chosen[line.job.id] = _choose(keys[line.job.id], primary)
    wanted = [(job, key) for job, key in chosen.items() if key is not None]
    curves = await services.curves.curves(wanted, _POINTS) if wanted else {}
    by_job = {job: curve for (job, _), curve in curves.items()}
    places = await _find_places(services.ledger, lines)
    return [
        Run(line, _build_metric(by_job, line.job.id), places.get(line.job.id))
        for line in await add_steps(services.series, lines)
    ]


async def _find_places(ledger: Database, lines: Sequence[JobLine]) -> Mapping[str, int]:
    queued = [line.job.id for line in lines if line.job.state == JobState.QUEUED]
    if not queued:
        return {}
    places = await ledger.read(lambda c: list_places_of(c, jobs.c.id.in_(queued), len(queued)))
    return {place.job: place.number for place in places}


def _choose(points: Mapping[str, int], primary: str | None) -> str | None:
    """The key that stands for a run: its method's, else the most telling one."""
    groups = choose_groups(points, [], primary)
    return groups[0][0] if groups else None


def _build_metric(curves: Mapping[str, Curve], job: str) -> Line | None:
    return build_figure([curves[job]]).lines[0] if job in curves else None

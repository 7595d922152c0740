"""Routes of the queue: who stands where and why they wait, and which GPUs there are to wait for."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Annotated, Final

from fastapi import APIRouter, Query
from starlette.responses import Response

from starforge.contract.api import PAGE_LIMIT
from starforge.contract.bounds import LARGEST_NUMBER
from starforge.contract.fleets import FleetDetail
from starforge.contract.jobspec import parse_jobspec
from starforge.contract.queue import (
    CapacityList,
    JobWhy,
    MoveInQueue,
    NodeWhy,
    QueueList,
    SeriesCapacity,
    StartsWith,
)
from starforge.said.sentence import code_of
from starforge_console.admission.catalog import takes_gpus
from starforge_console.ledger.queue_order import QueuedShape, find_place, list_placed, list_shapes
from starforge_console.ledger.views import load_documents, load_job
from starforge_console.web.deps import ApiServices, Operator, Reader, Services
from starforge_console.web.fleet_views import count_as, load_details
from starforge_console.web.fleets import Fleets
from starforge_console.web.problems import problem_responses
from starforge_console.web.queue_facts import add_facts, build_entry
from starforge_console.web.steps import add_steps
from starforge_console.web.views import build_wait

DEFAULT_PAGE: Final = 100
ANY: Final = "any"
"""Stands for jobs that take GPUs of whatever series."""

router = APIRouter()

Series = Annotated[str, Query(max_length=100, description="jobs that ask for this series alone; `any`: for no series")]
After = Annotated[int, Query(ge=0, le=LARGEST_NUMBER, description="the `next` of the page before")]


@router.get("/queue", tags=["queue"], responses=problem_responses(401, 403))
async def list_queue(
    services: Services,
    account: Reader,
    *,
    series: Series = "",
    after: After = 0,
    limit: Annotated[int, Query(ge=1, le=PAGE_LIMIT)] = DEFAULT_PAGE,
) -> QueueList:
    """Queued jobs in the order in which they are placed, each with why it waits; and what decides on that order."""
    return await add_facts(services, account, await load_queue(services, series, after=after, limit=limit))


@router.get("/capacity", tags=["queue"], responses=problem_responses(401, 403))
async def show_capacity(services: Services, fleets: Fleets, _account: Reader) -> CapacityList:
    """The GPUs of all fleets by series: in which state they are, and how many queued jobs ask for."""
    return build_capacity(await load_details(fleets), await services.ledger.read(list_shapes))


@router.get("/jobs/{job_id}/why", tags=["queue"], responses=problem_responses(401, 403, 404))
async def explain_job(services: Services, _account: Reader, job_id: str) -> JobWhy:
    """Why a job waits: by the rules that place it, machine by machine, and what would start it now."""
    return await load_why(services, job_id)


@router.put(
    "/admin/queue/{job_id}",
    tags=["administration"],
    status_code=204,
    responses=problem_responses(401, 403, 404, 409, 413),
)
async def move_in_queue(services: Services, account: Operator, job_id: str, request: MoveInQueue) -> Response:
    """Put a queued job before all others or behind them, or let it stand where it belongs; lasts until it starts."""
    await services.queue_places.put(job_id, request.to, account.user)
    return Response(status_code=204)


async def load_why(services: ApiServices, job_id: str) -> JobWhy:
    """Why the job waits at this moment. Raises NotFound."""
    job, place, kept = await services.ledger.read(
        lambda c: (load_job(c, job_id), find_place(c, job_id), load_documents(c, job_id))
    )
    spec = parse_jobspec(json.loads(kept.spec))
    takes = partial(takes_gpus, spec, services.catalog)
    found = None if place is None else await services.explainer.explain(job_id, takes)
    if found is None:
        return JobWhy(job=job_id, state=job.state)
    return JobWhy(
        job=job_id,
        state=job.state,
        place=place,
        waits=tuple(map(build_wait, found.reasons)),
        nodes=tuple(NodeWhy(fleet=one.fleet, node=one.node, why=one.why, code=code_of(one.why)) for one in found.nodes),
        starts_with=tuple(
            StartsWith(change=one.change.value, value=one.value, fleet=one.target.fleet, node=one.target.node)
            for one in found.starts_with
        ),
    )


async def load_queue(
    services: ApiServices, series: str = "", *, after: int = 0, limit: int = DEFAULT_PAGE
) -> QueueList:
    """At most `limit` jobs of the queue behind place `after`; those that ask for `series` alone where one is given."""
    ledger = services.ledger
    shapes = await ledger.read(list_shapes)
    wanted = choose_shapes(shapes, series)
    found = await ledger.read(lambda c: list_placed(c, limit + 1, after=after, shapes=wanted if series else None))
    shown = found[:limit]
    lines = await add_steps(services.series, [line for _, line in shown])
    return QueueList(
        items=tuple(build_entry(place, line) for (place, _), line in zip(shown, lines, strict=True)),
        jobs=sum(shape.jobs for shape in wanted),
        gpus=sum(shape.jobs * shape.gpus_of(one) for shape in wanted for one in shape.series),
        next=shown[-1][0].number if len(found) > limit else None,
    )


def choose_shapes(shapes: Sequence[QueuedShape], series: str) -> list[QueuedShape]:
    """Those that ask for `series`; all where it is empty."""
    wanted = None if series == ANY else series
    return [shape for shape in shapes if not series or wanted in shape.series]


def build_capacity(details: Iterable[FleetDetail], shapes: Sequence[QueuedShape]) -> CapacityList:
    """All GPUs by series, the unknown ones last, with what queued jobs ask for."""
    counts: dict[str | None, Counter[str]] = {}
    for node in (node for detail in details for node in detail.nodes):
        for gpu in node.gpus:
            counts.setdefault(gpu.series, Counter())[count_as(node, gpu)] += 1
    waiting: Counter[str | None] = Counter()
    for shape in shapes:
        for series in shape.series:
            waiting[series] += shape.jobs * shape.gpus_of(series)
    names = sorted({*(name for name in (*counts, *waiting) if name is not None)})
    every: list[str | None] = [*names, *([None] if None in counts else [])]
    return CapacityList(
        items=tuple(
            SeriesCapacity(
                series=name,
                gpus=dict(sorted(counts.get(name, Counter()).items())),
                waiting=waiting[name] if name is not None else 0,
            )
            for name in every
        ),
        waiting_for_any=waiting[None],
    )

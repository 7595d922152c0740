"""Routes of sweeps: submit one, decide without submitting, list, show the best run first, stop all of one."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Query
from starlette.responses import Response

from starforge.contract.api import PAGE_LIMIT, JobView, RefusalView, StopRequest
from starforge.contract.comparing import ComparedCurve, PrimaryView
from starforge.contract.ids import is_sweep_id
from starforge.contract.sweeps import (
    SweepDetail,
    SweepList,
    SweepRecord,
    SweepRequest,
    SweepRun,
    SweepStopped,
    SweepView,
)
from starforge_console.ledger.listing import load_lines
from starforge_console.ledger.sweeps import KeptSweep, SweepSearch, list_sweeps, list_swept_jobs, load_sweep
from starforge_console.web.compare import build_compared
from starforge_console.web.cursors import decode_place, encode_place, refuse_cursor
from starforge_console.web.deps import ApiServices, Reader, Services, Submitter
from starforge_console.web.jobs import DEFAULT_PAGE, Key, Name
from starforge_console.web.primary_metric import find_primary_metric
from starforge_console.web.problems import problem_responses
from starforge_console.web.views import build_job

_EXTREMES: Final = 2
"""Of a curve that nobody draws two points are enough: they are its lowest and its highest."""

router = APIRouter(tags=["jobs"])


@router.post("/sweeps/admission", response_model=SweepRecord, responses=problem_responses(401, 403, 413))
async def decide_sweep(services: Services, account: Reader, request: SweepRequest) -> Response:
    """What every gate says of every combination; nothing is kept, and a refusal is a normal answer."""
    record = await services.sweeps.decide(account, request)
    return _json(record.model_dump_json())


@router.post("/sweeps", status_code=201, response_model=SweepRecord, responses=problem_responses(401, 403, 409, 413))
async def submit_sweep(services: Services, account: Submitter, request: SweepRequest, key: Key = None) -> Response:
    """Admit one job for each combination, or none at all; refusals of all gates for all combinations come at once."""
    record = await services.sweeps.submit(account, request, key)
    return _json(record.model_dump_json(), status_code=201)


@router.get("/sweeps", response_model=SweepList, responses=problem_responses(401, 403))
async def list_all_sweeps(
    services: Services,
    _account: Reader,
    *,
    limit: Annotated[int, Query(ge=1, le=PAGE_LIMIT)] = DEFAULT_PAGE,
    cursor: Annotated[str | None, Query(max_length=200)] = None,
    user: Name = None,
    project: Name = None,
) -> Response:
    """Sweeps of all users, newest first."""
    before = None if cursor is None else _parse_cursor(cursor)
    wanted = SweepSearch(user=user, project=project, before=before)
    found = await services.ledger.read(lambda c: list_sweeps(c, wanted, limit + 1))
    last = found[limit - 1] if len(found) > limit else None
    following = None if last is None else encode_place(json.dumps([last.submitted_at, last.id]))
    answer = SweepList(items=tuple(map(build_sweep, found[:limit])), next=following)
    return _json(answer.model_dump_json())


@router.get("/sweeps/{sweep_id}", response_model=SweepDetail, responses=problem_responses(401, 403, 404))
async def show_sweep(services: Services, _account: Reader, sweep_id: str) -> Response:
    """The jobs of one sweep with the values that each was given, the best by the method's primary metric first."""
    return _json((await load_sweep_detail(services, sweep_id)).model_dump_json())


@router.post(
    "/sweeps/{sweep_id}/stop",
    status_code=202,
    response_model=SweepStopped,
    responses=problem_responses(401, 403, 404, 413),
)
async def stop_sweep(
    services: Services, account: Submitter, sweep_id: str, request: StopRequest | None = None
) -> Response:
    """Ask for the end of every job of the sweep, for its owner and administrators; those that have ended stay so."""
    stopped = await services.swept_jobs.stop(account, sweep_id, request)
    refusals = tuple(
        RefusalView(code=error.code, what=f"{job}: {error.what}", why=error.why, next_step=error.next_step)
        for job, error in stopped.refused.items()
    )
    asked = stopped.active - len(refusals)
    answer = SweepStopped(sweep=sweep_id, asked=asked, ended=stopped.ended, refusals=refusals)
    return _json(answer.model_dump_json(), status_code=202)


async def load_sweep_detail(services: ApiServices, sweep_id: str) -> SweepDetail:
    """The sweep at this moment, its runs in the order of their best values. Raises NotFound."""
    kept, ids = await services.ledger.read(lambda c: (load_sweep(c, sweep_id), list_swept_jobs(c, sweep_id)))
    lines = await services.ledger.read(lambda c: load_lines(c, ids))
    views = [build_job(lines[one]) for one in ids if one in lines]
    primary = await find_primary_metric(services.catalog, views[0].recipe) if views else None
    shown = None if primary is None else PrimaryView(key=primary.key, better=primary.better)
    if shown is None:
        return SweepDetail(sweep=build_sweep(kept), runs=tuple(SweepRun(job=view) for view in views))
    found = await services.curves.curves([(view.id, shown.key) for view in views], _EXTREMES)
    curves = {job: build_compared(job, curve) for (job, _), curve in found.items() if curve.values}
    return SweepDetail(sweep=build_sweep(kept), primary=shown, runs=order_runs(views, curves, shown))


def order_runs(
    views: Sequence[JobView], curves: Mapping[str, ComparedCurve], primary: PrimaryView
) -> tuple[SweepRun, ...]:
    """The best run first; those without a number last, in the order in which they came. Pure."""
    is_lower = primary.better == "lower"
    runs = []
    for view in views:
        curve = curves.get(view.id)
        best = None if curve is None else (curve.low if is_lower else curve.high)
        step = None if curve is None else (curve.low_step if is_lower else curve.high_step)
        known = isinstance(best, float | int) and math.isfinite(best)
        runs.append(SweepRun(job=view, best=best if known else None, best_step=step if known else None))
    sign = 1.0 if is_lower else -1.0
    return tuple(sorted(runs, key=lambda run: math.inf if run.best is None else sign * run.best))


def build_sweep(kept: KeptSweep) -> SweepView:
    """A sweep as a line."""
    return SweepView(
        id=kept.id,
        name=kept.name,
        experiment=kept.experiment,
        project=kept.project,
        user=kept.user,
        keys=kept.keys,
        size=kept.size,
        submitted_at=kept.submitted_at,
        states=dict(kept.states),
        active=kept.active,
    )


def _parse_cursor(text: str) -> tuple[float, str]:
    try:
        place = json.loads(decode_place(text))
    except (ValueError, RecursionError):
        place = None
    match place:
        case [float(submitted_at), str(sweep_id)] if math.isfinite(submitted_at) and is_sweep_id(sweep_id):
            return submitted_at, sweep_id
    raise refuse_cursor(text)


def _json(body: str, status_code: int = 200) -> Response:
    return Response(body, status_code=status_code, media_type="application/json")

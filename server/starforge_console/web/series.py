"""Routes of what a job reports: curves, artifacts, checkpoints."""

from typing import Annotated, Final

from fastapi import APIRouter, Query
from starlette.responses import Response

from starforge.contract.api import Curve, MetricKeys, Outputs
from starforge_console.ledger.listing import load_lines
from starforge_console.ledger.points import list_keys
from starforge_console.ledger.views import list_attempts, load_job
from starforge_console.web.attempts import load_outputs
from starforge_console.web.deps import Reader, Services
from starforge_console.web.primary_metric import find_primary
from starforge_console.web.problems import problem_responses

MOST_POINTS: Final = 10_000

router = APIRouter(tags=["series"])


@router.get("/jobs/{job_id}/metrics", response_model=MetricKeys, responses=problem_responses(401, 403, 404))
async def list_metric_keys(services: Services, _account: Reader, job_id: str) -> Response:
    """Which curves the job has, and how many points each."""
    lines = await services.ledger.read(lambda c: (load_job(c, job_id), load_lines(c, [job_id]))[1])
    keys = await services.series.read(lambda c: list_keys(c, job_id))
    primary = await find_primary(services.catalog, lines[job_id].recipe)
    return _json(MetricKeys(keys=keys, primary=primary).model_dump_json())


@router.get("/jobs/{job_id}/metrics/{key:path}", response_model=Curve, responses=problem_responses(401, 403, 404))
async def show_curve(
    services: Services,
    _account: Reader,
    job_id: str,
    key: str,
    points: Annotated[int, Query(ge=2, le=MOST_POINTS)] = 1000,
) -> Response:
    """One curve in about so many points, its minima and maxima among them."""
    await services.ledger.read(lambda c: load_job(c, job_id))
    curve = await services.curves.curve(job_id, key, points)
    return _json(curve.model_dump_json())


@router.get("/jobs/{job_id}/outputs", response_model=Outputs, responses=problem_responses(401, 403, 404))
async def list_outputs(services: Services, _account: Reader, job_id: str) -> Response:
    """The artifacts and checkpoints that the job's attempts left."""
    _, attempts = await services.ledger.read(lambda c: (load_job(c, job_id), list_attempts(c, job_id)))
    return _json((await load_outputs(services, attempts)).model_dump_json())


def _json(body: str) -> Response:
    return Response(body, media_type="application/json")

"""Routes of what a job reports: curves, artifacts, checkpoints."""

from typing import Annotated, Final

from fastapi import APIRouter, Query
from starlette.responses import Response

from starforge.contract.bounds import LARGEST_NUMBER
from starforge.contract.results import Curve, MetricKeys, Outputs
from starforge.errors import InputError
from starforge_console.domain.drawing import EVERYTHING, Window
from starforge_console.ledger.listing import load_line, load_lines
from starforge_console.ledger.points import KEYS_AT_MOST, count_points, search_keys
from starforge_console.ledger.views import list_attempts, load_job
from starforge_console.web.attempts import load_outputs, rate_checkpoints
from starforge_console.web.deps import Reader, Services
from starforge_console.web.points_file import CSV_RESPONSES, Keys, send_csv
from starforge_console.web.primary_metric import find_primary
from starforge_console.web.problems import problem_responses

MOST_POINTS: Final = 10_000
LOWEST_STEP: Final = -(1 << 63)
HIGHEST_STEP: Final = (1 << 63) - 1

router = APIRouter(tags=["series"])


@router.get("/jobs/{job_id}/metrics", response_model=MetricKeys, responses=problem_responses(401, 403, 404))
async def list_metric_keys(
    services: Services,
    _account: Reader,
    job_id: str,
    *,
    q: Annotated[str, Query(max_length=200, description="found in the key, whatever its case")] = "",
    after: Annotated[str, Query(max_length=300, description="the `next` of the page before")] = "",
    limit: Annotated[int, Query(ge=1, le=KEYS_AT_MOST)] = KEYS_AT_MOST,
) -> Response:
    """Which curves the job has, and how many points each."""
    lines = await services.ledger.read(lambda c: (load_job(c, job_id), load_lines(c, [job_id]))[1])
    found, total = await services.series.read(
        lambda c: (search_keys(c, job_id, q, after=after, limit=limit + 1), count_points(c, job_id)[0])
    )
    page = found[:limit]
    answer = MetricKeys(
        keys={one.key: one.points for one in page},
        primary=await find_primary(services.catalog, lines[job_id].recipe),
        total=total,
        next=page[-1].key if len(found) > limit else None,
    )
    return _json(answer.model_dump_json())


@router.get("/jobs/{job_id}/metrics.csv", response_class=Response, responses=CSV_RESPONSES)
async def download_metrics(services: Services, _account: Reader, job_id: str, keys: Keys = []) -> Response:  # noqa: B006 - read only
    """Every point of the job's curves, or of those that are named, as CSV: `key,attempt,step,time,value`.

    Points that a later attempt took the place of are there too. Times are Unix seconds; values that are no finite
    numbers are written `nan`, `inf` and `-inf`. A key that a spreadsheet would take for a formula (it begins with `=`,
    `+`, `-`, `@`, a tab or a carriage return) has an apostrophe before it.
    """
    return await send_csv(services, job_id, keys)


@router.get("/jobs/{job_id}/metrics/{key:path}", response_model=Curve, responses=problem_responses(401, 403, 404))
async def show_curve(  # noqa: PLR0913 - one parameter a choice of the caller
    services: Services,
    _account: Reader,
    job_id: str,
    key: str,
    *,
    points: Annotated[int, Query(ge=2, le=MOST_POINTS)] = 1000,
    attempt: Annotated[
        int | None, Query(ge=1, le=LARGEST_NUMBER, description="its points alone; default: all joined")
    ] = None,
    from_step: Annotated[int, Query(ge=LOWEST_STEP, le=HIGHEST_STEP, description="no point before it")] = LOWEST_STEP,
    to_step: Annotated[int, Query(ge=LOWEST_STEP, le=HIGHEST_STEP, description="no point after it")] = HIGHEST_STEP,
) -> Response:
    """One curve in about so many points, its minima and maxima among them.

    Of a part of its steps as many points are given as of the whole: the narrower it is, the finer is the curve.
    """
    await services.ledger.read(lambda c: load_job(c, job_id))
    curve = await services.curves.curve(job_id, key, points, attempt, build_window(from_step, to_step))
    return _json(curve.model_dump_json())


@router.get("/jobs/{job_id}/outputs", response_model=Outputs, responses=problem_responses(401, 403, 404))
async def list_outputs(services: Services, _account: Reader, job_id: str) -> Response:
    """The artifacts and checkpoints that the job's attempts left."""
    line, attempts = await services.ledger.read(lambda c: (load_line(c, job_id), list_attempts(c, job_id)))
    outputs = await rate_checkpoints(services, job_id, line.recipe, await load_outputs(services, attempts))
    return _json(outputs.model_dump_json())


def build_window(first: int, last: int) -> Window:
    """The steps `first` to `last`, both among them. Raises InputError for none."""
    if first > last:
        raise InputError(
            f"steps {first} to {last} are none", why="the first is behind the last", next_step="ask for them in order"
        )
    return EVERYTHING if (first, last) == (LOWEST_STEP, HIGHEST_STEP) else Window(first, last)


def _json(body: str) -> Response:
    return Response(body, media_type="application/json")

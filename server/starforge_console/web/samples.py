"""Routes of the examples that a job reports: which there are, and the rows of one step."""

from dataclasses import asdict
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from starforge.contract.samples import SampleLine, SampleList, SampleSet
from starforge.errors import NotFound
from starforge_console.domain.samples import list_columns
from starforge_console.ledger.samples import find_sample, list_names, list_samples
from starforge_console.ledger.views import load_job
from starforge_console.web.deps import ApiServices, Reader, Services
from starforge_console.web.problems import problem_responses

STEPS_AT_MOST: Final = 5000
_LOWEST: Final = -(2**63)
_HIGHEST: Final = 2**63 - 1

router = APIRouter(tags=["series"])

Name = Annotated[str | None, Query(max_length=200, description="default: the first of the names")]
Step = Annotated[int, Path(ge=_LOWEST, le=_HIGHEST)]


@router.get("/jobs/{job_id}/samples", response_model=SampleList, responses=problem_responses(401, 403, 404))
async def list_job_samples(
    services: Services,
    _account: Reader,
    job_id: str,
    *,
    name: Name = None,
    after: Annotated[int, Query(ge=_LOWEST, le=_HIGHEST, description="only steps above this one")] = _LOWEST,
    limit: Annotated[int, Query(ge=1, le=STEPS_AT_MOST)] = 500,
) -> Response:
    """Under which names and at which steps the job has reported examples."""
    found = await load_samples(services, job_id, name, (after, limit))
    return Response(found.model_dump_json(), media_type="application/json")


@router.get("/jobs/{job_id}/samples/{step}", response_model=SampleSet, responses=problem_responses(401, 403, 404))
async def show_samples(services: Services, _account: Reader, job_id: str, step: Step, *, name: Name = None) -> Response:
    """The rows that the job reported at a step."""
    await services.ledger.read(lambda c: load_job(c, job_id))
    found = await find_samples(services, job_id, name, step)
    if found is None:
        raise NotFound(
            f"job {job_id} has reported no examples at step {step}",
            next_step=f"'sf job samples {job_id}' lists the steps",
        )
    return Response(found.model_dump_json(), media_type="application/json")


async def load_samples(services: ApiServices, job_id: str, name: str | None, wanted: tuple[int, int]) -> SampleList:
    """The names, and the reports under one of them at steps above a number, at most so many. Raises NotFound."""
    await services.ledger.read(lambda c: load_job(c, job_id))
    after, limit = wanted
    names = await services.series.read(lambda c: list_names(c, job_id))
    chosen = name if name is not None else next(iter(names), "")
    found = await services.series.read(lambda c: list_samples(c, job_id, chosen, after, limit + 1))
    items = tuple(SampleLine(**asdict(one)) for one in found[:limit])
    return SampleList(names=tuple(names), items=items, next=items[-1].step if len(found) > limit else None)


async def find_samples(services: ApiServices, job_id: str, name: str | None, step: int | None) -> SampleSet | None:
    """The report under a name at a step, or at the highest one; None when there is none."""
    chosen = name
    if chosen is None:
        names = await services.series.read(lambda c: list_names(c, job_id))
        chosen = next(iter(names), "")
    found = await services.series.read(lambda c: find_sample(c, job_id, chosen, step))
    if found is None:
        return None
    line, sample = found
    return SampleSet(
        line=SampleLine(**asdict(line)),
        columns=tuple(list_columns(sample.rows)),
        rows=tuple(dict(row) for row in sample.rows),
    )

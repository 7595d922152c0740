"""Routes of jobs: submit, decide without submitting, list, show, stop, pause, resume, retry, delete."""

import re
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Header, Query
from starlette.requests import Request
from starlette.responses import Response

from starforge.contract.api import (
    API_PREFIX,
    HEADER_IDEMPOTENCY_KEY,
    PAGE_LIMIT,
    AdmissionRecord,
    JobCounts,
    JobDetail,
    JobList,
    JobView,
    StopRequest,
    SubmitRequest,
)
from starforge.contract.jobspec import JobSpec
from starforge.contract.states import JobState
from starforge.contract.turns import GoOnRequest, PauseRequest
from starforge_console.ledger.inputs import load_inputs
from starforge_console.ledger.lineages import load_lineage_record
from starforge_console.ledger.listing import count_jobs, load_line, search_jobs
from starforge_console.ledger.search import ACTIVE, JobSearch
from starforge_console.ledger.views import (
    list_attempts,
    list_events,
    load_documents,
)
from starforge_console.web.attempts import load_log_state
from starforge_console.web.deps import (
    ApiServices,
    Reader,
    Services,
    Submitter,
    reader_of,
    services_of,
    submitter_of,
)
from starforge_console.web.hot import HotRoutes
from starforge_console.web.input_views import build_inputs
from starforge_console.web.problems import problem_responses
from starforge_console.web.steps import add_steps
from starforge_console.web.views import (
    build_attempt,
    build_cursor,
    build_event,
    build_job,
    build_lineage,
    parse_cursor,
)

DEFAULT_PAGE: Final = 100
KEY_LENGTH: Final = 200
_JSON: Final = "application/json"
_PLAIN_FILTERS: Final = frozenset({"limit", "state"})
_PLAIN_LIMIT: Final = re.compile(r"[1-9][0-9]{0,5}", re.ASCII)
_STATES: Final = frozenset({None, ACTIVE, *JobState})

router = APIRouter(tags=["jobs"])

Key = Annotated[
    str | None,
    Header(
        alias=HEADER_IDEMPOTENCY_KEY,
        min_length=1,
        max_length=KEY_LENGTH,
        description="The client's own name for this submission: sent again, it gives the same job.",
    ),
]


Name = Annotated[str | None, Query(max_length=200)]
Words = Annotated[str, Query(max_length=200, description="found in the id, name, project, user or spec")]


@router.post("/admission", response_model=AdmissionRecord, responses=problem_responses(401, 403, 413))
async def decide_admission(services: Services, account: Reader, request: SubmitRequest) -> Response:
    """What every gate says of a submission; nothing is kept, and a refusal is a normal answer."""
    record = await services.admission.decide(account, request)
    return _json(record.model_dump_json())


@router.post("/jobs", status_code=201, response_model=AdmissionRecord, responses=problem_responses(401, 403, 409, 413))
async def submit_job(services: Services, account: Submitter, request: SubmitRequest, key: Key = None) -> Response:
    """Admit a job to the queue; refusals of all gates come at once."""
    record = await services.admission.submit(account, request, key)
    return _json(record.model_dump_json(), status_code=201)


@router.get("/jobs", response_model=JobList, responses=problem_responses(401, 403))
async def list_all_jobs(  # noqa: PLR0913 - one parameter a filter
    services: Services,
    _account: Reader,
    *,
    limit: Annotated[int, Query(ge=1, le=PAGE_LIMIT)] = DEFAULT_PAGE,
    cursor: Annotated[str | None, Query(max_length=200)] = None,
    state: JobState | Literal["ACTIVE"] | None = None,
    user: Name = None,
    project: Name = None,
    sweep: Name = None,
    q: Words = "",
) -> Response:
    """Jobs of all users, newest first. The state ACTIVE stands for every job that has not ended for good."""
    before = None if cursor is None else parse_cursor(cursor)
    wanted = JobSearch(state=state, user=user, project=project, sweep=sweep, text=q.strip(), before=before)
    return await _show_page(services, wanted, limit)


async def _show_page(services: ApiServices, wanted: JobSearch, limit: int) -> Response:
    found = await services.ledger.read(lambda c: search_jobs(c, wanted, limit + 1))
    page = await add_steps(services.series, found[:limit])
    following = build_cursor(page[-1].job) if len(found) > limit else None
    return _json(JobList.model_construct(items=tuple(map(build_job, page)), next=following).model_dump_json())


@router.get("/job-counts", response_model=JobCounts, responses=problem_responses(401, 403))
async def count_all_jobs(
    services: Services,
    _account: Reader,
    *,
    user: Name = None,
    project: Name = None,
    sweep: Name = None,
    q: Words = "",
) -> Response:
    """How many jobs of all users are in each state."""
    wanted = JobSearch(user=user, project=project, sweep=sweep, text=q.strip())
    counts = dict(await services.ledger.read(lambda c: count_jobs(c, wanted)))
    active = counts.pop(ACTIVE)
    return _json(JobCounts(states=counts, active=active).model_dump_json())


@router.get("/jobs/{job_id}", response_model=JobDetail, responses=problem_responses(401, 403, 404))
async def show_job(services: Services, _account: Reader, job_id: str) -> Response:
    """Everything about one job."""
    line, documents, events, attempts, lineage, inputs = await services.ledger.read(
        lambda c: (
            load_line(c, job_id),
            load_documents(c, job_id),
            list_events(c, job_id),
            list_attempts(c, job_id),
            load_lineage_record(c, job_id),
            load_inputs(c, job_id),
        )
    )
    detail = JobDetail(
        job=build_job((await add_steps(services.series, [line]))[0]),
        spec=JobSpec.model_validate_json(documents.spec),
        spec_digest=documents.spec_digest,
        image_digest=documents.image_digest,
        admission=AdmissionRecord.model_validate_json(documents.admission),
        events=tuple(map(build_event, events)),
        attempts=tuple(map(build_attempt, attempts)),
        log=await load_log_state(services, attempts[-1] if attempts else None),
        lineage=build_lineage(lineage),
        inputs=build_inputs(inputs),
    )
    return _json(detail.model_dump_json())


@router.post(
    "/jobs/{job_id}/stop",
    status_code=202,
    response_model=JobView,
    responses=problem_responses(401, 403, 404, 413),
)
async def stop_job(services: Services, account: Submitter, job_id: str, request: StopRequest | None = None) -> Response:
    """Ask for the job's end, for its owner and administrators; fine when it has ended or is stopping."""
    await services.jobs.stop(account, job_id, request)
    return await _show_line(services, job_id)


@router.post(
    "/jobs/{job_id}/pause",
    status_code=202,
    response_model=JobView,
    responses=problem_responses(401, 403, 404, 409, 413),
)
async def pause_job(
    services: Services, account: Submitter, job_id: str, request: PauseRequest | None = None
) -> Response:
    """Ask for the job's pause, for its owner and administrators: checkpoint, GPUs back, the same run goes on later."""
    await services.turns.pause(account, job_id, request or PauseRequest())
    return await _show_line(services, job_id)


@router.post(
    "/jobs/{job_id}/resume",
    status_code=202,
    response_model=JobView,
    responses=problem_responses(401, 403, 404, 409, 413),
)
async def resume_job(
    services: Services, account: Submitter, job_id: str, request: GoOnRequest | None = None
) -> Response:
    """Let a paused job go on from its newest checkpoint; fine when it runs or waits for its turn already."""
    await services.turns.resume(account, job_id, request or GoOnRequest())
    return await _show_line(services, job_id)


@router.post(
    "/jobs/{job_id}/retry",
    status_code=202,
    response_model=JobView,
    responses=problem_responses(401, 403, 404, 409, 413),
)
async def retry_job(
    services: Services, account: Submitter, job_id: str, request: GoOnRequest | None = None
) -> Response:
    """Queue a failed or stopped job again, with its whole budget of retries; it goes on from its newest checkpoint."""
    await services.turns.retry(account, job_id, request or GoOnRequest())
    return await _show_line(services, job_id)


@router.delete("/jobs/{job_id}", status_code=204, responses=problem_responses(401, 403, 404, 409))
async def delete_ended_job(services: Services, account: Submitter, job_id: str) -> Response:
    """Remove an ended job with its logs, curves, work and checkpoints, for its owner and administrators."""
    await services.jobs.delete(account, job_id)
    return Response(status_code=204)


async def _show_line(services: ApiServices, job_id: str) -> Response:
    line = await services.ledger.read(lambda c: load_line(c, job_id))
    (line,) = await add_steps(services.series, [line])
    return _json(build_job(line).model_dump_json(), status_code=202)


async def _list_plain(request: Request) -> Response | None:
    """What `list_all_jobs` answers to a request with no more than a limit and a state."""
    query = request.query_params
    limit, state = query.get("limit", str(DEFAULT_PAGE)), query.get("state")
    is_known = all(name in _PLAIN_FILTERS for name in query) and len(query.multi_items()) == len(query)
    if not is_known or not _PLAIN_LIMIT.fullmatch(limit) or int(limit) > PAGE_LIMIT or state not in _STATES:
        return None
    await reader_of(request)
    return await _show_page(await services_of(request), JobSearch(state=state), int(limit))


async def _submit_plain(request: Request) -> Response | None:
    """What `submit_job` answers to a body of JSON that is a submission."""
    key = request.headers.get(HEADER_IDEMPOTENCY_KEY)
    if request.headers.get("content-type") != _JSON or (key is not None and not 0 < len(key) <= KEY_LENGTH):
        return None
    try:
        submitted = SubmitRequest.model_validate(await request.json())
    except (ValueError, RecursionError):
        return None
    account = await submitter_of(await reader_of(request))
    return await submit_job(await services_of(request), account, submitted, key)


HOT_ROUTES: Final[HotRoutes] = {
    ("GET", f"{API_PREFIX}/jobs"): _list_plain,
    ("POST", f"{API_PREFIX}/jobs"): _submit_plain,
}


def _json(body: str, status_code: int = 200) -> Response:
    return Response(body, status_code=status_code, media_type=_JSON)

"""The route of why a job failed."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from starforge.contract.diagnosis import DiagnosisView
from starforge.contract.ids import AttemptId
from starforge.errors import NotFound
from starforge_console.ledger.views import AttemptRecord, list_attempts, load_job
from starforge_console.web.attempts import choose_attempt
from starforge_console.web.deps import ApiServices, Reader, Services
from starforge_console.web.problems import problem_responses

router = APIRouter(tags=["jobs"])

Attempt = Annotated[int | None, Query(ge=1, le=1_000_000, description="the newest one where it is left out")]


@router.get("/jobs/{job_id}/diagnosis", response_model=DiagnosisView, responses=problem_responses(401, 403, 404))
async def show_diagnosis(services: Services, _account: Reader, job_id: str, attempt: Attempt = None) -> Response:
    """Why an attempt of the job failed, as its log and its exit tell."""
    _, attempts = await services.ledger.read(lambda c: (load_job(c, job_id), list_attempts(c, job_id)))
    chosen = choose_attempt(job_id, attempts, attempt)
    if chosen is None or chosen.ended_at is None:
        raise NotFound(
            f"there is nothing to diagnose of job {job_id}",
            why="it has not begun" if chosen is None else f"attempt {chosen.number} has not ended",
            next_step=f"'sf job show {job_id}' says what it is doing",
        )
    found = await find_view(services, job_id, chosen)
    if found is None:
        raise NotFound(
            f"attempt {chosen.number} of job {job_id} is not diagnosed yet",
            why="its log is still being read to the end",
            next_step="ask again in a moment",
        )
    return Response(found.model_dump_json(), media_type="application/json")


async def find_view(services: ApiServices, job_id: str, attempt: AttemptRecord) -> DiagnosisView | None:
    """Why the attempt failed; None until its log was read to the end."""
    if attempt.finalised_at is None:
        return None
    has_log = attempt.log_removed_at is None
    kept = await services.diagnoser.find(AttemptId(attempt.id), has_log=has_log)
    if kept is None:
        return None
    return DiagnosisView.model_validate(
        {**kept.answer, "job": job_id, "attempt": attempt.number, "diagnosed_at": kept.at}
    )

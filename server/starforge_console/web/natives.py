"""The route of what was sent to a backend to start an attempt."""

from fastapi import APIRouter
from starlette.responses import Response

from starforge.contract.api import NativeView
from starforge.contract.ids import AttemptId
from starforge.errors import NotFound
from starforge_console.ledger.views import list_attempts, load_job
from starforge_console.web.attempts import choose_attempt
from starforge_console.web.deps import Reader, Services
from starforge_console.web.diagnosis import Attempt
from starforge_console.web.problems import problem_responses

router = APIRouter(tags=["jobs"])


@router.get("/jobs/{job_id}/native", response_model=NativeView, responses=problem_responses(401, 403, 404))
async def show_native(services: Services, _account: Reader, job_id: str, attempt: Attempt = None) -> Response:
    """What was sent to the cluster to start an attempt of the job, to the letter; no secret is in it."""
    _, attempts = await services.ledger.read(lambda c: (load_job(c, job_id), list_attempts(c, job_id)))
    chosen = choose_attempt(job_id, attempts, attempt)
    text = None if chosen is None else await services.find_native(chosen.fleet, AttemptId(chosen.id))
    if chosen is None or text is None:
        raise NotFound(
            f"nothing is kept of what was sent for job {job_id}",
            why="no attempt has begun" if chosen is None else f"fleet {chosen.fleet} keeps no submission of it",
            next_step="clusters keep one for 30 days; 'sf job show' tells of any job what it asked for",
        )
    found = NativeView(job=job_id, attempt=chosen.number, fleet=chosen.fleet, text=text)
    return Response(found.model_dump_json(), media_type="application/json")

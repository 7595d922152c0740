"""What a job's page has to pause it, let it go on and start it again, and to say why it waits."""

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from starforge.contract.turns import GoOnRequest, PauseRequest
from starforge.errors import ProgressAtRisk
from starforge_console.ledger.listing import load_line
from starforge_console.web.deps import Services
from starforge_console.web.pages.fleets import NO_STORE
from starforge_console.web.pages.services import Pages
from starforge_console.web.pages.visit import Signed, account_of, load_form, text_of
from starforge_console.web.queue import load_why

router = APIRouter(include_in_schema=False)


@router.get("/jobs/{job_id}/why")
async def show_why(pages: Pages, services: Services, visit: Signed, job_id: str) -> Response:
    """Why the job waits, machine by machine, and what would start it now."""
    line = await services.ledger.read(lambda c: load_line(c, job_id))
    return pages.look.page(visit, "job_why.html", nav="jobs", line=line, why=await load_why(services, job_id))


@router.post("/jobs/{job_id}/pause")
async def pause(pages: Pages, services: Services, visit: Signed, request: Request, job_id: str) -> Response:
    """Ask for the job's pause; where its work would be lost, say so first and ask once more."""
    form = await load_form(request, visit)
    wanted = PauseRequest(lose_progress=text_of(form, "lose_progress") == "yes")
    try:
        await services.turns.pause(account_of(visit), job_id, wanted)
    except ProgressAtRisk:
        loss = await services.turns.find_loss(job_id)
        line = await services.ledger.read(lambda c: load_line(c, job_id))
        if loss is not None:
            return pages.look.page(visit, "pause_risk.html", nav="jobs", line=line, loss=loss)
    return _go(job_id, "pause")


@router.post("/jobs/{job_id}/resume")
async def resume(services: Services, visit: Signed, request: Request, job_id: str) -> Response:
    """Let a paused job go on."""
    await load_form(request, visit)
    await services.turns.resume(account_of(visit), job_id, GoOnRequest())
    return _go(job_id, "resume")


@router.post("/jobs/{job_id}/retry")
async def retry(services: Services, visit: Signed, request: Request, job_id: str) -> Response:
    """Queue a failed or stopped job again."""
    await load_form(request, visit)
    await services.turns.retry(account_of(visit), job_id, GoOnRequest())
    return _go(job_id, "retry")


def _go(job_id: str, done: str) -> Response:
    return RedirectResponse(f"/jobs/{job_id}?done={done}", 303, NO_STORE)

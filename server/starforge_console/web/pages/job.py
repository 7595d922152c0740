"""The page of one job, and what its owner may do with it."""

import secrets
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from starforge.errors import NotFound
from starforge.said.sentence import say
from starforge_console.accounts.sign_in import check_scope
from starforge_console.domain.roles import Scope
from starforge_console.ledger.listing import load_history
from starforge_console.web.attachments import build_attachment
from starforge_console.web.deps import Services
from starforge_console.web.lineage import load_difference
from starforge_console.web.pages.curves import CurveChoice, Keys, load_curves_part
from starforge_console.web.pages.difference_view import build_difference_view
from starforge_console.web.pages.job_view import EVENTS_SHOWN, JobPage, load_job_page
from starforge_console.web.pages.log_view import AskedOfLog, load_log
from starforge_console.web.pages.outputs import load_outputs_part
from starforge_console.web.pages.samples import load_samples_part
from starforge_console.web.pages.services import Pages
from starforge_console.web.pages.visit import Signed, account_of, load_form, text_of

VIEWS: Final = ("run", "outputs", "samples", "config", "admission", "lineage", "history")
KEY_LENGTH: Final = 200
_ASKED: Final = {"pause": "job.pause_asked", "resume": "job.resume_asked", "retry": "job.retry_asked"}

router = APIRouter(include_in_schema=False)

Event = Annotated[int | None, Query(ge=0, le=1 << 62)]
Number = Annotated[int | None, Query(ge=1, le=1_000_000)]


@router.get("/jobs/{job_id}")
async def show_job(  # noqa: PLR0913 - one parameter a choice of the reader
    pages: Pages,
    services: Services,
    visit: Signed,
    request: Request,
    job_id: str,
    *,
    view: Annotated[str, Query(max_length=20)] = "run",
    attempt: Number = None,
    asked: AskedOfLog,
    keys: Keys = [],  # noqa: B006 - read only
    group: Annotated[str, Query(max_length=256)] = "",
    metric: Annotated[str, Query(max_length=200)] = "",
    before: Event = None,
    after: Event = None,
    done: Annotated[str, Query(max_length=20)] = "",
) -> Response:
    """Everything about one job, in views."""
    page = await load_job_page(services, job_id, attempt)
    shown = view if view in VIEWS else "run"
    may = visit.may_change(page.line.job.user_id)
    values: dict[str, Any] = {"nav": "jobs", "page": page, "history": page.history, "view": shown, "may": may}
    values["once"] = secrets.token_urlsafe(16)
    if shown == "run":
        text = await load_log(services, job_id, page.attempt, asked)
        values |= {
            "curves": await load_curves_part(services, page, CurveChoice(keys, group, metric.strip())),
            "log": text,
            "pinned": attempt is not None,
            "live": _live_address(page, str(text.place) if asked.is_live else None, attempt) + asked.of_node,
        }
    elif shown == "outputs":
        values |= await load_outputs_part(services, page, request.query_params)
    elif shown == "samples":
        values |= await load_samples_part(services, job_id, request.query_params)
    elif shown == "lineage":
        kept = await load_difference(services, job_id)
        values["difference"] = None if kept is None else build_difference_view(kept.text, is_cut=kept.is_cut)
    elif shown == "history":
        events = {"before": before, "after": after}
        values["history"] = await services.ledger.read(lambda c: load_history(c, job_id, EVENTS_SHOWN, **events))
    values["done"] = "job.stop_asked" if done == "stop" and page.is_stopping else ""
    if done in _ASKED:
        values["done"] = _ASKED[done]
    if done == "rerun" and page.lineage.rerun_of:
        values["done"] = "job.rerun_done"
    return pages.look.page(visit, "job.html", **values)


@router.get("/jobs/{job_id}/difference.diff")
async def send_difference(services: Services, _visit: Signed, job_id: str) -> Response:
    """All that is kept of the difference of the job's tree, as a file."""
    kept = await load_difference(services, job_id)
    if kept is None:
        raise NotFound(say("form.no_difference", job=job_id), next_step=say("form.no_difference_next"))
    headers = build_attachment(f"{job_id}.diff")
    return Response(kept.text.encode(), media_type="application/octet-stream", headers=headers)


@router.post("/jobs/{job_id}/rerun")
async def rerun(services: Services, visit: Signed, request: Request, job_id: str) -> Response:
    """Submit the very same spec again; sent twice from one page, it makes one job."""
    form = await load_form(request, visit)
    account = account_of(visit)
    check_scope(account, Scope.SUBMIT)
    record = await services.admission.rerun(account, job_id, text_of(form, "once", KEY_LENGTH) or None)
    return RedirectResponse(f"/jobs/{record.job}?done=rerun", 303, {"Cache-Control": "no-store"})


@router.post("/jobs/{job_id}/stop")
async def stop(services: Services, visit: Signed, request: Request, job_id: str) -> Response:
    """Ask for the job's end."""
    await load_form(request, visit)
    await services.jobs.stop(account_of(visit), job_id)
    return RedirectResponse(f"/jobs/{job_id}?done=stop", 303, {"Cache-Control": "no-store"})


@router.post("/jobs/{job_id}/delete")
async def delete(services: Services, visit: Signed, request: Request, job_id: str) -> Response:
    """Remove an ended job with everything it left."""
    await load_form(request, visit)
    await services.jobs.delete(account_of(visit), job_id)
    return RedirectResponse("/jobs?done=deleted", 303, {"Cache-Control": "no-store"})


def _live_address(page: JobPage, place: str | None, attempt: int | None) -> str:
    number = page.attempt.number if page.attempt is not None else 0
    followed = "" if place is None else f"&log={place}"
    pinned = "&pinned=1" if attempt is not None else ""
    return f"/live/jobs/{page.id}?events={page.last_event}&attempt={number}{followed}{pinned}"

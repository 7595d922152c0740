"""The page of one job, its log and curves as files, and what its owner may do with it."""

import secrets
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from starforge.errors import NotFound
from starforge_console.accounts.sign_in import check_scope
from starforge_console.accounts.tokens import Scope
from starforge_console.ledger.listing import load_history
from starforge_console.ledger.views import list_attempts, load_job
from starforge_console.web.attempts import choose_attempt, require_log
from starforge_console.web.deps import ApiServices, Services
from starforge_console.web.lineage import load_difference
from starforge_console.web.pages.curves import CurveChoice, Keys, load_curves_part
from starforge_console.web.pages.difference_view import build_difference_view
from starforge_console.web.pages.job_view import EVENTS_SHOWN, JobPage, load_job_page
from starforge_console.web.pages.log_view import load_log
from starforge_console.web.pages.outputs import load_outputs_part
from starforge_console.web.pages.samples import load_samples_part
from starforge_console.web.pages.services import Pages
from starforge_console.web.pages.visit import Signed, account_of, load_form, text_of

VIEWS: Final = ("run", "outputs", "samples", "config", "admission", "lineage", "history")
KEY_LENGTH: Final = 200
PIECE_BYTES: Final = 1 << 20

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
    log: Annotated[int | None, Query(ge=0, le=1 << 53)] = None,
    find: Annotated[str, Query(max_length=200)] = "",
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
        text = await load_log(services.logs, page.attempt, log, find)
        values |= {
            "curves": await load_curves_part(services, page, CurveChoice(keys, group, metric.strip())),
            "log": text,
            "find": find,
            "pinned": attempt is not None,
            "live": _live_address(page, None if log is not None or find else str(text.place), attempt),
        }
    elif shown == "outputs":
        values |= await load_outputs_part(services, page, request.query_params)
    elif shown == "samples":
        values |= await load_samples_part(services, job_id, request.query_params)
    elif shown == "lineage":
        kept = await load_difference(services, job_id)
        values["difference"] = None if kept is None else build_difference_view(kept.text, is_cut=kept.is_cut)
    elif shown == "history":
        asked = {"before": before, "after": after}
        values["history"] = await services.ledger.read(lambda c: load_history(c, job_id, EVENTS_SHOWN, **asked))
    values["done"] = "job.stop_asked" if done == "stop" and page.is_stopping else ""
    if done == "rerun" and page.lineage.rerun_of:
        values["done"] = "job.rerun_done"
    return pages.look.page(visit, "job.html", **values)


@router.get("/jobs/{job_id}/log.txt")
async def send_log(services: Services, _visit: Signed, job_id: str, attempt: Number = None) -> Response:
    """All that is here of one attempt's log, raw, as a file."""
    job, attempts = await services.ledger.read(lambda c: (load_job(c, job_id), list_attempts(c, job_id)))
    chosen = choose_attempt(job_id, attempts, attempt)
    if chosen is None:
        raise NotFound(
            f"job {job_id} has no log yet",
            why="no attempt has been begun",
            next_step="come back when it has started; its page says what it waits for",
        )
    require_log(chosen)
    headers = _as_file(f"{job.id}-{chosen.number}.log")
    return StreamingResponse(_pieces(services, chosen.id), media_type="application/octet-stream", headers=headers)


@router.get("/jobs/{job_id}/difference.diff")
async def send_difference(services: Services, _visit: Signed, job_id: str) -> Response:
    """All that is kept of the difference of the job's tree, as a file."""
    kept = await load_difference(services, job_id)
    if kept is None:
        raise NotFound(f"no difference is kept of job {job_id}", next_step="look at the page of its lineage")
    headers = _as_file(f"{job_id}.diff")
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


def _as_file(name: str) -> dict[str, str]:
    """The headers of what a browser is to keep and never to show: jobs write it."""
    return {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }


async def _pieces(services: ApiServices, attempt: str) -> AsyncIterator[bytes]:
    offset = 0
    while True:
        piece = await services.logs.read_log(attempt, offset, PIECE_BYTES)
        if not piece.content:
            return
        yield piece.content
        offset += len(piece.content)


def _live_address(page: JobPage, place: str | None, attempt: int | None) -> str:
    number = page.attempt.number if page.attempt is not None else 0
    followed = "" if place is None else f"&log={place}"
    pinned = "&pinned=1" if attempt is not None else ""
    return f"/live/jobs/{page.id}?events={page.last_event}&attempt={number}{followed}{pinned}"

"""Several jobs of the list paused or let go on together: asked with what each would lose, then told job by job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from fastapi import APIRouter, Request
from starlette.datastructures import FormData
from starlette.responses import RedirectResponse, Response

from starforge.contract.states import DesiredState, JobState
from starforge.contract.turns import GoOnRequest, PauseRequest
from starforge.errors import StarForgeError
from starforge_console.domain.progress import Loss
from starforge_console.ledger.listing import JobLine, load_lines
from starforge_console.web.deps import ApiServices, Services
from starforge_console.web.pages.fleets import NO_STORE
from starforge_console.web.pages.job_view import has_ended
from starforge_console.web.pages.jobs import PAGE_SIZE, say_done
from starforge_console.web.pages.services import Pages, PageServices
from starforge_console.web.pages.visit import Signed, Visit, account_of, load_form, safe_path, text_of

router = APIRouter(include_in_schema=False)


class Stays(StrEnum):
    """Why a chosen job is not asked to pause."""

    ENDED = "ended"
    OTHERS = "others"
    PAUSED = "paused"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The jobs that were chosen to be paused: `ready` lose nothing, those `at_risk` what is said, the rest stays."""

    ready: Sequence[JobLine]
    at_risk: Sequence[tuple[JobLine, Loss]]
    stays: Sequence[tuple[JobLine, Stays]]


@router.post("/jobs/pause")
async def pause_jobs(pages: Pages, services: Services, visit: Signed, request: Request) -> Response:
    """Say what a pause costs each of the chosen jobs, and ask; then pause them, and say which were not and why."""
    form = await load_form(request, visit)
    ids, back = _read_ids(form, "job"), _read_back(form)
    if text_of(form, "confirmed") != "yes":
        chosen = await _look(services, visit, ids)
        return pages.look.page(visit, "pause_jobs.html", nav="jobs", chosen=chosen, back=back)
    lose = _read_ids(form, "lose")
    given_up = frozenset(lose)
    asked = {one: PauseRequest(lose_progress=one in given_up) for one in dict.fromkeys([*ids, *lose])}
    refused = await services.turns.pause_all(account_of(visit), asked)
    if refused:
        return await _tell_left(pages, services, visit, Left("pause", len(asked), refused, back))
    return RedirectResponse(say_done(back, "paused" if asked else ""), 303, NO_STORE)


@router.post("/jobs/resume")
async def resume_jobs(pages: Pages, services: Services, visit: Signed, request: Request) -> Response:
    """Let the chosen jobs that are paused go on, and say which could not and why."""
    form = await load_form(request, visit)
    ids, back = _read_ids(form, "job"), _read_back(form)
    refused = await services.turns.resume_all(account_of(visit), ids, GoOnRequest())
    if refused:
        return await _tell_left(pages, services, visit, Left("resume", len(ids), refused, back))
    return RedirectResponse(say_done(back, "resumed" if ids else ""), 303, NO_STORE)


@dataclass(frozen=True, slots=True)
class Left:
    """What of `asked` jobs was not done, with the reason of each."""

    act: str
    asked: int
    refused: Mapping[str, StarForgeError]
    back: str


async def _tell_left(pages: PageServices, services: ApiServices, visit: Visit, left: Left) -> Response:
    found = await services.ledger.read(lambda c: load_lines(c, list(left.refused)))
    return pages.look.page(
        visit,
        "jobs_left.html",
        nav="jobs",
        act=left.act,
        left=[(one, found.get(one), error) for one, error in left.refused.items()],
        asked=left.asked - len(left.refused),
        back=left.back,
    )


async def _look(services: ApiServices, visit: Visit, ids: Sequence[str]) -> Chosen:
    found = await services.ledger.read(lambda c: load_lines(c, ids))
    lines = [found[one] for one in ids if one in found]
    stays = [(line, why) for line in lines if (why := _find_stay(line, visit)) is not None]
    kept = {line.job.id for line, _ in stays}
    mine = [line for line in lines if line.job.id not in kept]
    losses = {line.job.id: await services.turns.find_loss(line.job.id) for line in mine}
    return Chosen(
        ready=[line for line in mine if losses[line.job.id] is None],
        at_risk=[(line, loss) for line in mine if (loss := losses[line.job.id]) is not None],
        stays=stays,
    )


def _find_stay(line: JobLine, visit: Visit) -> Stays | None:
    if has_ended(line):
        return Stays.ENDED
    if not visit.may_change(line.job.user_id):
        return Stays.OTHERS
    if line.job.state == JobState.PAUSED or line.job.desired == DesiredState.PAUSE:
        return Stays.PAUSED
    return Stays.STOPPING if line.job.desired == DesiredState.STOP else None


def _read_ids(form: FormData, name: str) -> list[str]:
    return list(dict.fromkeys(one for one in form.getlist(name) if isinstance(one, str)))[:PAGE_SIZE]


def _read_back(form: FormData) -> str:
    return safe_path(text_of(form, "back", 2000))

"""The list of jobs: filtered, searched, grouped, a page at a time, and stopped together."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from starforge.contract.states import JobState
from starforge_console.ledger.listing import (
    JobLine,
    count_jobs,
    list_owners,
    list_projects,
    load_last_event,
    load_lines,
    search_jobs,
)
from starforge_console.ledger.search import ACTIVE, JobSearch
from starforge_console.web.deps import Services
from starforge_console.web.pages.job_view import has_ended
from starforge_console.web.pages.services import Pages
from starforge_console.web.pages.visit import Signed, account_of, load_form, safe_path, text_of
from starforge_console.web.steps import add_steps

PAGE_SIZE: Final = 50
TABS: Final = (
    "",
    ACTIVE,
    JobState.QUEUED.value,
    JobState.RUNNING.value,
    JobState.PAUSED.value,
    JobState.FAILED.value,
    JobState.SUCCEEDED.value,
    JobState.STOPPED.value,
)
_STATES: Final = frozenset({ACTIVE, *JobState})
DONE: Final = "done"
"""The part of an address that names what was just done."""
DONE_TO_JOBS: Final = ("stopped", "deleted", "paused", "resumed")
"""What the list says that it was just sent to after, each with words of its own."""

router = APIRouter(include_in_schema=False)

Name = Annotated[str, Query(max_length=200)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the address of the list asks for; "" does not filter."""

    state: str = ""
    user: str = ""
    project: str = ""
    sweep: str = ""
    q: str = ""
    group: str = ""
    page: int = 1

    @property
    def search(self) -> JobSearch:
        """The same for the ledger."""
        return JobSearch(
            state=self.state or None,
            user=self.user or None,
            project=self.project or None,
            sweep=self.sweep or None,
            text=self.q.strip(),
        )

    @property
    def is_filtered(self) -> bool:
        """Whether anything is left out."""
        return bool(self.state or self.user or self.project or self.sweep or self.q.strip())

    def url(self, **changes: Any) -> str:  # noqa: ANN401 - a member of any type
        """The address with some members changed; without `page` in it, the first page."""
        names = ("state", "user", "project", "sweep", "q", "group", "page")
        values = {name: getattr(self, name) for name in names if name != "page"} | changes
        kept = {name: value for name, value in values.items() if value and (name, value) != ("page", 1)}
        return f"/jobs?{urlencode(kept)}" if kept else "/jobs"


@router.get("/jobs")
async def show_jobs(  # noqa: PLR0913 - one parameter a filter
    pages: Pages,
    services: Services,
    visit: Signed,
    *,
    state: Name = "",
    user: Name = "",
    project: Name = "",
    sweep: Name = "",
    q: Name = "",
    group: Name = "",
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    done: Name = "",
) -> Response:
    """One page of the list."""
    tab, grouped = state.upper() if state.upper() in _STATES else "", "none" if group == "none" else ""
    wanted = Wanted(state=tab, user=user, project=project, sweep=sweep, q=q, group=grouped, page=page)
    lines, counts, event, owners, projects = await services.ledger.read(
        lambda c: (
            search_jobs(c, wanted.search, PAGE_SIZE, (page - 1) * PAGE_SIZE),
            count_jobs(c, wanted.search),
            load_last_event(c),
            list_owners(c),
            list_projects(c),
        )
    )
    return pages.look.page(
        visit,
        "jobs.html",
        nav="jobs",
        wanted=wanted,
        tabs=TABS,
        counts=counts,
        total=count_of(counts, wanted.state),
        groups=_group(await add_steps(services.series, lines), wanted),
        first=(page - 1) * PAGE_SIZE + 1,
        shown=len(lines),
        page_size=PAGE_SIZE,
        owners=owners,
        projects=projects,
        live=_live_address(lines, wanted, event, count_of(counts, wanted.state)),
        has_ended=has_ended,
        now=services.clock.now(),
        done=f"done.{done}" if done in DONE_TO_JOBS else "",
    )


@router.post("/jobs/stop")
async def stop_jobs(pages: Pages, services: Services, visit: Signed, request: Request) -> Response:
    """Ask once, then stop all that were chosen and may be stopped by this reader."""
    form = await load_form(request, visit)
    ids = list(dict.fromkeys(one for one in form.getlist("job") if isinstance(one, str)))[:PAGE_SIZE]
    back = safe_path(text_of(form, "back", 2000))
    found = await services.ledger.read(lambda c: load_lines(c, ids))
    if text_of(form, "confirmed") == "yes":
        refused = await services.jobs.stop_all(account_of(visit), ids)
        if not refused:
            return RedirectResponse(say_done(back, "stopped"), 303, {"Cache-Control": "no-store"})
        left = [(one, found.get(one), error) for one, error in refused.items()]
        asked = len(ids) - len(left)
        return pages.look.page(visit, "stop_jobs_left.html", nav="jobs", left=left, asked=asked, back=back)
    lines = [found[one] for one in ids if one in found and not has_ended(found[one])]
    mine = [line for line in lines if visit.may_change(line.job.user_id)]
    others = len(lines) - len(mine)
    return pages.look.page(visit, "stop_jobs.html", nav="jobs", lines=mine, others=others, back=back)


def count_of(counts: Any, state: str) -> int:  # noqa: ANN401 - what count_jobs gives
    """How many jobs the tab of `state` holds; "" is that of all."""
    if state:
        return int(counts.get(state, 0))
    return sum(count for name, count in counts.items() if name != ACTIVE)


def say_done(path: str, done: str) -> str:
    """The address `path` of one of our lists, with what was just done in place of what was done before."""
    parts = urlsplit(path)
    asked = [pair for pair in parse_qsl(parts.query) if pair[0] != DONE]
    query = urlencode([*asked, (DONE, done)] if done else asked)
    return f"{parts.path}?{query}" if query else parts.path


def _group(lines: Sequence[JobLine], wanted: Wanted) -> list[tuple[str, list[JobLine]]]:
    """The rows of each `@user/project`, in the order of its newest job; all under "" when they are not grouped."""
    if wanted.group == "none":
        return [("", list(lines))] if lines else []
    order: dict[str, int] = {}
    for line in lines:
        order.setdefault(_band(line), len(order))
    in_order = sorted(lines, key=lambda line: order[_band(line)])
    return [(band, list(rows)) for band, rows in groupby(in_order, _band)]


def _band(line: JobLine) -> str:
    return f"@{line.job.user}/{line.job.project}"


def _live_address(lines: Sequence[JobLine], wanted: Wanted, event: int, total: int) -> str:
    asked = {"after": event, "total": total, "jobs": ",".join(line.job.id for line in lines)}
    kept = {name: getattr(wanted, name) for name in ("state", "user", "project", "sweep", "q") if getattr(wanted, name)}
    return f"/live/jobs?{urlencode(asked | kept)}"

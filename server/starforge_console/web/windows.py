"""Routes of windows: when fleets, teams and profiles may run."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from starforge.contract.windows import (
    EDGES_SHOWN,
    MOST_EDGES,
    EdgeView,
    OpeningHours,
    SetWindow,
    WindowKind,
    WindowList,
    WindowView,
)
from starforge_console.accounts.windows import Hours, NextEdge, WindowNow
from starforge_console.domain.opening import WindowOf, describe_local
from starforge_console.domain.window_syntax import write_span
from starforge_console.web.deps import Operator, Reader, Services
from starforge_console.web.problems import problem_responses

router = APIRouter()


@router.get("/windows", tags=["queue"], responses=problem_responses(401, 403))
async def show_opening_hours(
    services: Services, account: Reader, *, edges: Annotated[int, Query(ge=1, le=MOST_EDGES)] = EDGES_SHOWN
) -> OpeningHours:
    """The windows that may bind the caller's jobs, and their next edges in order."""
    hours = services.opening_hours
    found = await hours.list_for(account)
    return OpeningHours(
        windows=tuple(map(show_window, found)), edges=tuple(map(show_edge, hours.list_edges(found, edges)))
    )


@router.get("/admin/windows", tags=["administration"], responses=problem_responses(401, 403))
async def list_all_windows(services: Services, _account: Operator) -> WindowList:
    """All windows, fleets first, by name."""
    return WindowList(items=tuple(map(show_window, await services.opening_hours.list_all())))


@router.put(
    "/admin/windows/{window_kind}/{window}", tags=["administration"], responses=problem_responses(401, 403, 404, 413)
)
async def set_window(
    services: Services, account: Operator, window_kind: WindowKind, window: str, request: SetWindow
) -> WindowView:
    """Let a fleet, a team or a profile run at these times only; what runs hears of it at once."""
    hours = Hours(zone=request.zone, open=request.open, without=request.without, goes_on=request.goes_on)
    return show_window(await services.opening_hours.put(WindowOf(window_kind, window), hours, account.user))


@router.delete(
    "/admin/windows/{window_kind}/{window}",
    tags=["administration"],
    status_code=204,
    responses=problem_responses(401, 403, 404),
)
async def remove_window(services: Services, _account: Operator, window_kind: WindowKind, window: str) -> Response:
    """Let a fleet, a team or a profile run at any time; jobs that its window stopped go on, where they were to."""
    await services.opening_hours.remove(WindowOf(window_kind, window))
    return Response(status_code=204)


def show_window(now: WindowNow) -> WindowView:
    """A window as a message."""
    kept = now.line.kept
    return WindowView(
        kind=kept.of.kind,
        name=kept.of.name,
        zone=kept.window.zone,
        open=tuple(map(write_span, kept.window.open)),
        without=tuple(day.isoformat() for day in sorted(kept.window.without)),
        goes_on=kept.goes_on,
        is_open=now.is_open,
        changes_at=None if now.change is None else float(now.change.at),
        set_by=now.line.set_by,
        set_at=now.line.set_at,
        lost=now.lost,
    )


def show_edge(one: NextEdge) -> EdgeView:
    """An edge as a message."""
    edge, kept = one.edge, one.kept
    return EdgeView(
        at=float(edge.at),
        edge=edge.kind.value,
        kind=kept.of.kind,
        name=kept.of.name,
        zone=kept.window.zone,
        local=describe_local(edge.at, kept.window.zone),
    )

"""Routes of retention: what would go, letting it go, and the hold that a backup takes. For administrators."""

from dataclasses import asdict
from typing import Annotated, Final

from fastapi import APIRouter, Query
from starlette.responses import Response

from starforge.contract.retention import (
    SHOWN_AT_MOST,
    Collection,
    FailedRemoval,
    HoldRequest,
    HoldView,
    LastCollection,
    RemovalView,
)
from starforge_console.domain.retention import Removal
from starforge_console.retention.collector import Collector, Outcome
from starforge_console.web.deps import Operator, Services
from starforge_console.web.problems import problem_responses

HOUR_S: Final = 3600.0
_LONGEST_ID: Final = 300

router = APIRouter(tags=["administration"])


@router.get("/admin/gc", response_model=Collection, responses=problem_responses(401, 403))
async def list_removable(services: Services, _account: Operator) -> Response:
    """What would go now, and why; nothing is changed."""
    return _json(await _build(services.retention, await services.retention.plan(SHOWN_AT_MOST)))


@router.post("/admin/gc", response_model=Collection, responses=problem_responses(401, 403, 409))
async def remove_removable(services: Services, account: Operator) -> Response:
    """Let go what may, a bounded amount of it; 409 while somebody holds the collector or it is at work."""
    return _json(await _build(services.retention, await services.retention.collect(account.user)))


@router.put("/admin/gc/hold", response_model=HoldView, responses=problem_responses(401, 403, 409, 413))
async def hold_collector(services: Services, account: Operator, request: HoldRequest) -> Response:
    """Remove nothing for a while, such as for a backup, beside any other hold.

    The answer comes once nothing is being removed. 409 where there are too many holds.
    """
    hold = await services.retention.hold(account.user, request.why or "", request.hours * HOUR_S)
    return Response(HoldView(**asdict(hold)).model_dump_json(), media_type="application/json")


@router.delete("/admin/gc/hold", status_code=204, responses=problem_responses(401, 403))
async def release_collector(
    services: Services, account: Operator, hold_id: Annotated[str, Query(alias="id", max_length=_LONGEST_ID)] = ""
) -> Response:
    """End the caller's holds, or the one of this `id`, whoever took it; fine when there is none. All others stand."""
    await services.retention.release(account.user, hold_id)
    return Response(status_code=204)


async def _build(collector: Collector, outcome: Outcome) -> Collection:
    holds = tuple(HoldView(**asdict(one)) for one in await collector.list_holds())
    last = await collector.find_last_run()
    return Collection(
        applied=outcome.is_applied,
        items=tuple(map(build_removal, outcome.items)),
        total_bytes=outcome.total_bytes,
        more=outcome.more,
        failed=tuple(FailedRemoval(removal=build_removal(one), error=error) for one, error in outcome.failed),
        expired=dict(outcome.expired),
        hold=next(iter(holds), None),
        holds=holds,
        last=None if last is None else LastCollection(**asdict(last)),
    )


def build_removal(one: Removal) -> RemovalView:
    """A removal as a message."""
    return RemovalView(
        kind=one.kind.value,
        job=one.job or None,
        attempt=one.number or None,
        name=one.name,
        bytes=one.bytes,
        why=one.why,
    )


def _json(answer: Collection) -> Response:
    return Response(answer.model_dump_json(), media_type="application/json")

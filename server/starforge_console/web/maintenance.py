"""Routes of maintenance."""

from fastapi import APIRouter

from starforge.contract.maintenance import BeginMaintenance, MaintenanceView
from starforge_console.web.deps import ApiServices, Operator, Reader, Services
from starforge_console.web.problems import problem_responses

router = APIRouter()


@router.get("/maintenance", tags=["queue"], responses=problem_responses(401, 403))
async def show_maintenance(services: Services, _account: Reader) -> MaintenanceView:
    """Whether jobs are started at present, and how many still run, are paused for it, or wait."""
    return await _show(services)


@router.post("/admin/maintenance/drain", tags=["administration"], responses=problem_responses(401, 403, 413))
async def begin_maintenance(
    services: Services, account: Operator, request: BeginMaintenance | None = None
) -> MaintenanceView:
    """Start nothing any more and pause everything that runs; fine when that is so already."""
    reason = (request or BeginMaintenance()).reason
    await services.maintenance.begin(account.user, reason or "")
    return await _show(services)


@router.post("/admin/maintenance/resume", tags=["administration"], responses=problem_responses(401, 403))
async def end_maintenance(services: Services, _account: Operator) -> MaintenanceView:
    """Start jobs again: exactly those that were paused for it go on by themselves. Fine when there is none."""
    await services.maintenance.end()
    return await _show(services)


async def _show(services: ApiServices) -> MaintenanceView:
    lasts, counts = await services.maintenance.look()
    return MaintenanceView(
        since=None if lasts is None else lasts.since,
        by="" if lasts is None else lasts.by,
        reason="" if lasts is None else lasts.reason,
        running=counts.running,
        paused=counts.paused,
        queued=counts.queued,
    )

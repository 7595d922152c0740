"""Routes about who asks: whose token it is, its end, and what its user may hold."""

from collections.abc import Sequence

from fastapi import APIRouter, Request
from starlette.responses import Response

from starforge.contract.api import WhoAmI
from starforge.contract.quotas import RUNS_NAMED, Held, OtherRuns, QuotaList, QuotaRun, QuotaView
from starforge_console.domain.statement import QuotaLine, RunUse
from starforge_console.ledger.statements import list_own
from starforge_console.web.deps import Reader, Services
from starforge_console.web.problems import problem_responses

router = APIRouter(tags=["console"])


@router.get("/whoami", responses=problem_responses(401, 403))
async def describe_caller(account: Reader) -> WhoAmI:
    """Whose token this is, and what it may do."""
    return WhoAmI(
        user=account.user,
        role=account.role,
        scopes=tuple(sorted(account.scopes)),
        token_expires_at=account.expires_at,
    )


@router.get("/quotas", responses=problem_responses(401, 403))
async def list_own_quotas(services: Services, account: Reader) -> QuotaList:
    """What limits the caller's jobs, the team's limit among it, and which runs count against it now."""
    now = services.clock.now()
    lines = await services.ledger.read(lambda c: list_own(c, account.user_id, now))
    return QuotaList(items=tuple(map(show_quota, lines)))


@router.post("/tokens/revoke-self", status_code=204, responses=problem_responses(401, 403))
async def revoke_own_token(services: Services, account: Reader, request: Request) -> Response:
    """End the token that this request carries, at once."""
    await services.accounts.revoke(account, request.headers.get("authorization"))
    return Response(status_code=204)


def show_quota(line: QuotaLine) -> QuotaView:
    """A limit as a message, with the runs that count against it."""
    limit = line.limit
    return QuotaView(
        kind=line.holder.kind,
        name=line.holder.name,
        gpus=limit.gpus,
        jobs=limit.jobs,
        series=None if limit.series is None else tuple(sorted(limit.series)),
        gpu_hours=limit.gpu_hours,
        storage_gib=limit.storage_gib,
        profiles=None if limit.profiles is None else tuple(sorted(limit.profiles)),
        held=Held(gpus=line.gpus, jobs=line.jobs),
        gpu_seconds=line.gpu_s,
        stored_bytes=line.bytes,
        runs=tuple(map(_show_run, line.runs[:RUNS_NAMED])),
        other_runs=_sum_up(line.runs[RUNS_NAMED:]),
    )


def _show_run(run: RunUse) -> QuotaRun:
    return QuotaRun(
        job=run.job,
        user=run.user,
        gpus=run.gpus,
        jobs=run.jobs,
        gpu_seconds=run.gpu_s,
        stored_bytes=run.bytes,
        unanswered=run.is_silent,
    )


def _sum_up(runs: Sequence[RunUse]) -> OtherRuns | None:
    if not runs:
        return None
    return OtherRuns(
        runs=len(runs),
        gpus=sum(run.gpus for run in runs),
        jobs=sum(run.jobs for run in runs),
        gpu_seconds=sum(run.gpu_s for run in runs),
        stored_bytes=sum(run.bytes for run in runs),
    )

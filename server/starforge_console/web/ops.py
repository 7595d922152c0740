"""Routes for whoever runs the console: whether it works, and its figures."""

from typing import Final

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import JSONResponse, Response

from starforge.contract.addresses import is_loopback
from starforge_console.accounts.sign_in import check_operator
from starforge_console.ledger.fleets import list_fleets
from starforge_console.web.deps import Services, peer_of

router = APIRouter(include_in_schema=False)

_FORWARDED: Final = frozenset({"forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"})


@router.get("/healthz")
async def check_health(services: Services) -> Response:
    """200 while the ledger can be read; needs no sign-in and tells nothing else."""
    await services.ledger.read(list_fleets)
    return JSONResponse({"status": "ok"})


@router.get("/metrics")
async def show_figures(services: Services, request: Request) -> Response:
    """The console's figures for Prometheus: for this machine's own processes, otherwise for who runs the console."""
    if not _is_of_this_machine(request):
        header = request.headers.get("authorization")
        check_operator(await services.accounts.authenticate(header, peer_of(request)))
    text: bytes = await request.app.state.figures.render()
    return Response(text, media_type=CONTENT_TYPE_LATEST)


def _is_of_this_machine(request: Request) -> bool:
    """Whether a process of this machine asks for itself; a proxy here says for whom it asks."""
    return _FORWARDED.isdisjoint(request.headers.keys()) and is_loopback(peer_of(request))

"""Routes of fleets, nodes and names of GPUs: everybody may read, administrators may change."""

from dataclasses import replace
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import Response

from starforge.contract.bounds import LARGEST_NUMBER
from starforge.contract.fleets import (
    AddGpuSeries,
    ChangeFleet,
    CreateFleet,
    DrainNode,
    EndUnknown,
    FleetDetail,
    FleetList,
    FleetSummary,
    GpuSeriesList,
    GpuSeriesView,
    JoinTokenList,
    JoinTokenView,
    MarkLost,
    MintedJoinToken,
    MintJoinToken,
    NodeChanged,
    NodeList,
)
from starforge.contract.ids import parse_attempt_id
from starforge.errors import Unavailable
from starforge_console.fleets.join_lines import build_join_lines
from starforge_console.fleets.served import build_fleet
from starforge_console.ledger.gpu_series import AddedSeries
from starforge_console.ledger.join_tokens import JoinToken
from starforge_console.ledger.nodes import NodeRow
from starforge_console.web.deps import Operator, Reader
from starforge_console.web.fleet_views import FleetServices, build_summary, load_detail, load_details
from starforge_console.web.install import Ways
from starforge_console.web.problems import problem_responses

router = APIRouter(tags=["fleets"])
_READ: Final = (401, 403)
_NAMED: Final = (401, 403, 404)
_CHANGED: Final = (401, 403, 404, 409)


async def fleet_services_of(request: Request) -> FleetServices:
    """What the application serves fleets with."""
    services: FleetServices | None = request.app.state.fleet_services
    if services is None:
        raise Unavailable("this console serves no fleets yet", next_step="repeat once it has started")
    return services


Fleets = Annotated[FleetServices, Depends(fleet_services_of)]


@router.get("/fleets", responses=problem_responses(*_READ))
async def list_all_fleets(fleets: Fleets, _account: Reader) -> FleetList:
    """All fleets, with how many machines and GPUs they have now."""
    return FleetList(items=tuple(detail.fleet for detail in await load_details(fleets)))


@router.post("/fleets", status_code=201, responses=problem_responses(401, 403, 409))
async def create_fleet(fleets: Fleets, _account: Operator, request: CreateFleet) -> FleetSummary:
    """Make a fleet; jobs may be placed there at once."""
    fleet = build_fleet(request.name, request.kind, request.network, request.user)
    fleet = replace(fleet, requires_limit=request.require_max_runtime)
    await fleets.fleets.create(fleet)
    return build_summary(fleet, ())


@router.get("/fleets/{fleet}", responses=problem_responses(*_NAMED))
async def show_fleet(fleets: Fleets, _account: Reader, fleet: str) -> FleetDetail:
    """One fleet with its machines: GPUs and who holds them, images being fetched, heartbeats, and what is unknown."""
    return await load_detail(fleets, fleets.administration.load_fleet(fleet))


@router.patch("/fleets/{fleet}", responses=problem_responses(*_NAMED, 413))
async def change_fleet(fleets: Fleets, account: Operator, fleet: str, request: ChangeFleet) -> FleetSummary:
    """Let a fleet take only jobs with a time limit, or all again; jobs that were admitted before stay admitted."""
    await fleets.fleets.require_limit(fleet, account.user, requires=request.require_max_runtime)
    return (await load_detail(fleets, fleets.administration.load_fleet(fleet))).fleet


@router.delete("/fleets/{fleet}", status_code=204, responses=problem_responses(*_CHANGED))
async def delete_fleet(fleets: Fleets, _account: Operator, fleet: str) -> Response:
    """Delete a fleet without jobs and nodes: its name may be used again, and the history of its jobs stays."""
    await fleets.administration.delete_fleet(fleet)
    return Response(status_code=204)


@router.post("/fleets/{fleet}/join-tokens", status_code=201, responses=problem_responses(*_CHANGED))
async def mint_join_token(
    account: Operator, fleets: Fleets, ways: Ways, fleet: str, request: MintJoinToken
) -> MintedJoinToken:
    """A new join token, shown this once, and the line to paste on a machine that shall join."""
    minted = await fleets.administration.mint_token(fleet, account.user, request.hours, request.uses)
    token = minted.text.reveal()
    lines = build_join_lines(ways.public_url, fleet, token)
    return MintedJoinToken(
        id=minted.kept.id,
        token=token,
        line=lines["curl"],
        lines=dict(lines),
        expires_at=minted.kept.expires_at,
        uses=minted.kept.uses_left,
        doubt=ways.doubt,
    )


@router.get("/fleets/{fleet}/join-tokens", responses=problem_responses(*_NAMED))
async def list_fleet_join_tokens(fleets: Fleets, _account: Operator, fleet: str) -> JoinTokenList:
    """The fleet's join tokens that still let somebody in, without their text."""
    return JoinTokenList(items=tuple(map(_build_token, await fleets.administration.list_tokens(fleet))))


@router.delete("/fleets/{fleet}/join-tokens/{token_id}", status_code=204, responses=problem_responses(*_NAMED))
async def revoke_fleet_join_token(
    fleets: Fleets, _account: Operator, fleet: str, token_id: Annotated[int, Path(ge=1, le=LARGEST_NUMBER)]
) -> Response:
    """Let no machine in any more with this token."""
    await fleets.administration.revoke_token(fleet, token_id)
    return Response(status_code=204)


@router.get("/nodes", responses=problem_responses(*_READ))
async def list_all_nodes(fleets: Fleets, _account: Reader) -> NodeList:
    """The machines of all fleets."""
    return NodeList(items=tuple(node for detail in await load_details(fleets) for node in detail.nodes))


@router.post("/nodes/{node}/drain", responses=problem_responses(*_CHANGED))
async def drain_node(fleets: Fleets, _account: Operator, node: str, request: DrainNode) -> NodeChanged:
    """Place nothing new on the node; what runs there stays, or with `pause` goes on elsewhere."""
    if not request.pause:
        return _build_changed(await fleets.administration.drain(node, request.why))
    row, jobs = await fleets.administration.drain_and_pause(node, request.why)
    return _build_changed(row).model_copy(update={"jobs": tuple(jobs)})


@router.post("/nodes/{node}/undrain", responses=problem_responses(*_CHANGED))
async def undrain_node(fleets: Fleets, _account: Operator, node: str) -> NodeChanged:
    """Place on the node again."""
    return _build_changed(await fleets.administration.undrain(node))


@router.post("/nodes/{node}/remove", responses=problem_responses(*_CHANGED))
async def remove_fleet_node(fleets: Fleets, _account: Operator, node: str) -> NodeChanged:
    """Take the node out of its fleet; refused while attempts live there."""
    return _build_changed(await fleets.administration.remove(node))


@router.post("/nodes/{node}/mark-lost", responses=problem_responses(*_CHANGED))
async def mark_node_lost(fleets: Fleets, _account: Operator, node: str, request: MarkLost) -> NodeChanged:
    """Declare that the machine is off or cut from the storage: its attempts fail as `node_lost` and run elsewhere."""
    lost = await fleets.administration.mark_lost(node, request.confirm)
    return _build_changed(lost.row).model_copy(update={"jobs": lost.jobs})


@router.post(
    "/nodes/{node}/end-unknown",
    status_code=202,
    response_class=Response,
    responses=problem_responses(*_CHANGED, 502),
)
async def end_unknown_attempt(fleets: Fleets, _account: Operator, node: str, request: EndUnknown) -> Response:
    """End a running container of this install that the ledger knows nothing of."""
    await fleets.administration.end_unknown(node, parse_attempt_id(request.attempt))
    return Response(status_code=202)


@router.get("/gpu-series", responses=problem_responses(*_READ))
async def list_gpu_series(fleets: Fleets, _account: Reader) -> GpuSeriesList:
    """The names of GPUs that administrators added to the built-in ones."""
    return GpuSeriesList(items=tuple(map(_build_series, fleets.hardware.list_added())))


@router.post("/gpu-series", status_code=201, responses=problem_responses(401, 403, 409))
async def add_gpu_series(fleets: Fleets, account: Operator, request: AddGpuSeries) -> GpuSeriesView:
    """Give a name of a GPU its series; it counts at once, in every fleet."""
    added = await fleets.hardware.add(request.name, request.series, account.user)
    fleets.administration.tell_of_hardware()
    return _build_series(added)


@router.delete("/gpu-series", status_code=204, responses=problem_responses(*_NAMED))
async def remove_gpu_series(
    fleets: Fleets, _account: Operator, name: Annotated[str, Query(min_length=1, max_length=200)]
) -> Response:
    """Forget a name that an administrator added."""
    await fleets.hardware.remove(name)
    fleets.administration.tell_of_hardware()
    return Response(status_code=204)


def _build_token(token: JoinToken) -> JoinTokenView:
    return JoinTokenView(
        id=token.id,
        uses_left=token.uses_left,
        created_by=token.created_by,
        created_at=token.created_at,
        expires_at=token.expires_at,
    )


def _build_changed(row: NodeRow) -> NodeChanged:
    return NodeChanged(node=row.name, fleet=row.fleet, state=row.state.value, fence=row.fence)


def _build_series(added: AddedSeries) -> GpuSeriesView:
    return GpuSeriesView(name=added.name, series=added.series, added_by=added.added_by, added_at=added.added_at)

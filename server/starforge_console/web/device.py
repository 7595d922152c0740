"""Routes of signing in by a code, in the shape of RFC 8628: begin, and ask whether somebody approved. For strangers."""

import json
from typing import Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from starforge.contract.api import PROBLEM_TYPE
from starforge.contract.device import BeginDevice, DeviceBegun, DeviceToken, PollDevice
from starforge.errors import CodeExpired, SignInDenied, SignInPending, StarForgeError
from starforge_console.accounts.device import INTERVAL_S, LIFE_S
from starforge_console.web.deps import Services, peer_of
from starforge_console.web.pages.services import Pages
from starforge_console.web.problems import problem_responses, render_error

PAGE: Final = "/device"
_OPEN: Final[dict[str, Any]] = {"security": []}

router = APIRouter(tags=["console"])


@router.post(
    "/device/code", response_model=DeviceBegun, responses=problem_responses(413), openapi_extra={"security": []}
)
async def begin_device_login(
    services: Services, pages: Pages, request: Request, asked: BeginDevice | None = None
) -> Response:
    """Begin to sign in: show the code and the address to whoever runs the command, then poll."""
    begun = await pages.devices.begin((asked or BeginDevice()).client_id, peer_of(request))
    address = services.settings.http.public_url.rstrip("/") + PAGE
    told = DeviceBegun(
        device_code=begun.device_code.reveal(),
        user_code=begun.user_code,
        verification_uri=address,
        verification_uri_complete=f"{address}?{urlencode({'code': begun.user_code})}",
        expires_in=LIFE_S,
        interval=INTERVAL_S,
    )
    return _secret(told.model_dump())


@router.post(
    "/device/token", response_model=DeviceToken, responses=problem_responses(400, 413), openapi_extra={"security": []}
)
async def poll_device_login(services: Services, pages: Pages, request: Request, asked: PollDevice) -> Response:
    """The token, once somebody approved the code on the page; until then 400, whose `code` and `error` say why not."""
    try:
        issued, scopes = await pages.devices.poll(asked.device_code, peer_of(request))
    except (SignInPending, SignInDenied, CodeExpired) as error:
        return _render_as_oauth(error)
    told = DeviceToken(
        access_token=issued.text.reveal(),
        expires_in=int(issued.kept.expires_at - services.clock.now()),
        scope=" ".join(sorted(scopes)),
    )
    return _secret(told.model_dump())


def _secret(body: dict[str, object]) -> Response:
    return JSONResponse(body, headers={"Cache-Control": "no-store", "Pragma": "no-cache"})


def _render_as_oauth(error: StarForgeError) -> Response:
    """The problem document with the members that programs of RFC 8628 look at."""
    answer = render_error(error)
    body = json.loads(bytes(answer.body)) | {"error": error.code, "error_description": str(error)}
    return Response(json.dumps(body), answer.status_code, {"Cache-Control": "no-store"}, PROBLEM_TYPE)

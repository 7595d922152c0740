"""Every error of the API as a problem document (RFC 9457)."""

import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from starforge.contract.api import PROBLEM_TYPE, Problem, RefusalView
from starforge.errors import Bug, Busy, SignInRequired, StarForgeError
from starforge_console.errors import AdmissionRefused, status_of
from starforge_console.web.faults import REQUEST_INVALID, fault_of

FAULTS_SHOWN: Final = 100


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route says of its errors in the OpenAPI document."""
    schema = {"$ref": "#/components/schemas/Problem"}
    # Whoever signs in is also told when its sf is too old.
    signed_in = (HTTPStatus.UPGRADE_REQUIRED,) if HTTPStatus.UNAUTHORIZED in statuses else ()
    encoded = (HTTPStatus.UNSUPPORTED_MEDIA_TYPE,) if HTTPStatus.REQUEST_ENTITY_TOO_LARGE in statuses else ()
    return {
        status: {"description": HTTPStatus(status).phrase, "content": {PROBLEM_TYPE: {"schema": schema}}}
        for status in (*statuses, *encoded, 422, *signed_in, 429, 503)
    }


def render_problem(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """The answer that carries `problem`."""
    body = problem.model_dump_json()
    return Response(body, status_code=problem.status, media_type=PROBLEM_TYPE, headers=dict(headers or {}))


def render_error(error: StarForgeError) -> Response:
    """The answer for an error of ours; what of it is for people stays as it was written."""
    problem = Problem(
        title=error.what,
        status=status_of(error),
        code=error.code,
        detail=error.why,
        next_step=error.next_step,
        refusals=error.refusals if isinstance(error, AdmissionRefused) else (),
    )
    return render_problem(problem, build_headers(error))


def build_headers(error: StarForgeError) -> dict[str, str]:
    """What an answer says of `error` beside its body: when to come back, and how to sign in."""
    headers: dict[str, str] = {}
    if isinstance(error, Busy):
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
    if isinstance(error, SignInRequired):
        headers["WWW-Authenticate"] = "Bearer"
    return headers


def handle_errors(app: FastAPI) -> None:
    """Let `app` answer every error, expected or not, with a problem document."""
    app.add_exception_handler(StarForgeError, _answer_error)
    app.add_exception_handler(RequestValidationError, _answer_faults)
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_exception_handler(Exception, _answer_bug)


async def _answer_error(_request: Request, error: Exception) -> Response:
    if not isinstance(error, StarForgeError):
        raise error
    return render_error(error)


async def _answer_faults(_request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    found = error.errors()
    faults = tuple(
        RefusalView(code=str(fault["type"]), what=f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}")
        for fault in found[:FAULTS_SHOWN]
    )
    problem = Problem(
        title=f"the request has {len(found)} faults" if len(found) != 1 else "the request has a fault",
        status=HTTPStatus.UNPROCESSABLE_ENTITY,
        code=REQUEST_INVALID.code,
        detail="; ".join(fault.what for fault in faults),
        next_step=REQUEST_INVALID.next_step,
        refusals=faults,
    )
    return render_problem(problem)


async def _answer_http_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    status = HTTPStatus(error.status_code)
    fault = fault_of(status)
    title = f"{request.method} {request.url.path}: {status.phrase.lower()}"
    problem = Problem(title=title, status=status, code=fault.code, next_step=fault.next_step)
    return render_problem(problem, error.headers)


async def _answer_bug(request: Request, _error: Exception) -> Response:
    problem = Problem(
        title=f"{request.method} {request.url.path} met a fault of the console's own",
        status=HTTPStatus.INTERNAL_SERVER_ERROR,
        code=Bug.code,
        next_step="report this with the console's log",
    )
    return render_problem(problem)

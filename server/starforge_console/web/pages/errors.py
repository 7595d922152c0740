"""Errors as pages: what happened, why, and what to do next; the API goes on answering with problem documents."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final, TypeAlias
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from starforge.errors import Bug, Busy, SignInRequired, StarForgeError
from starforge_console.errors import AdmissionRefused, status_of
from starforge_console.web.faults import REQUEST_INVALID, fault_of
from starforge_console.web.pages.services import load_page_services
from starforge_console.web.pages.visit import SESSION_COOKIE, visit_of, visitor_of
from starforge_console.web.problems import build_headers

LIVE: Final = "/live/"
SIGN_IN: Final = "/signin"
_NO_PAGES: Final = ("/api/", "/healthz", "/metrics")
_WORDED: Final = frozenset({401, 403, 404, 405, 409, 413, 422, 429})

Handler: TypeAlias = Callable[[Request, Exception], Response | Awaitable[Response]]


def answer_errors(app: FastAPI) -> None:
    """Let the routes that are pages answer errors with pages, and leave the answers of all others as they are."""
    for kind, answer in list(app.exception_handlers.items()):
        app.add_exception_handler(kind, _choose(answer))


def _choose(of_api: Handler) -> Handler:
    async def answer(request: Request, error: Exception) -> Response:
        if _wants_page(request, error):
            return await _answer_page(request, error)
        answered = of_api(request, error)
        return answered if isinstance(answered, Response) else await answered

    return answer


def _wants_page(request: Request, error: Exception) -> bool:
    """Pages answer with pages; an address that nobody serves does so to whoever reads HTML."""
    if request.url.path.startswith(_NO_PAGES):
        return False
    return not isinstance(error, HTTPException) or "text/html" in request.headers.get("accept", "")


async def _answer_page(request: Request, error: Exception) -> Response:
    told = _describe(request, error)
    if request.url.path.startswith(LIVE):
        headers = build_headers(error) if isinstance(error, Busy) else {}
        return PlainTextResponse(told.what, told.status, headers | {"Cache-Control": "no-store"})
    if isinstance(error, SignInRequired) and not request.url.path.startswith(SIGN_IN):
        return _to_sign_in(request)
    pages = load_page_services(request)
    # What went wrong may be the ledger: a page about that does not ask the ledger who reads it.
    visit = visitor_of(request) if told.status >= HTTPStatus.INTERNAL_SERVER_ERROR else await visit_of(request)
    words = told.status if told.status in _WORDED else 500
    answer = pages.look.page(visit, "error.html", told.status, error=told, says=f"error.{words}")
    if isinstance(error, Busy):
        answer.headers.update(build_headers(error))
    return answer


def _to_sign_in(request: Request) -> Response:
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    asked = {"next": here} if request.method == "GET" and here not in {"/", "/jobs"} else {}
    asked |= {"ended": "1"} if SESSION_COOKIE in request.cookies else {}
    answer = RedirectResponse(f"{SIGN_IN}?{urlencode(asked)}" if asked else SIGN_IN, 303)
    answer.headers["Cache-Control"] = "no-store"
    return answer


class _Told:
    """An error in the words it came with, which are English."""

    def __init__(self, status: int, code: str, what: str, error: StarForgeError | None = None) -> None:
        self.status = status
        self.code = code
        self.what = what
        self.why = error.why if error is not None else ""
        self.next_step = error.next_step if error is not None else ""
        self.refusals = error.refusals if isinstance(error, AdmissionRefused) else ()


def _describe(request: Request, error: Exception) -> _Told:
    path = f"{request.method} {request.url.path}"
    if isinstance(error, StarForgeError):
        return _Told(status_of(error), error.code, error.what, error)
    if isinstance(error, RequestValidationError):
        faults = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()[:5])
        return _Told(422, REQUEST_INVALID.code, faults)
    if isinstance(error, HTTPException):
        return _Told(error.status_code, fault_of(error.status_code).code, path)
    return _Told(500, Bug.code, path)

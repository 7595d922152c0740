"""Ingest over HTTP: what runners send while an attempt runs. Plain Starlette: every job comes here all the time."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from starforge.contract.api import PROBLEM_TYPE
from starforge.contract.bounds import BODY_BYTES
from starforge.contract.capsule import INGEST_PREFIX, CapsuleError, ExitRecord
from starforge.errors import InputError, StarForgeError
from starforge_console.errors import StreamGap, TokenRefused, status_of
from starforge_console.ingest.finalise import EXIT_RECORD_BYTES
from starforge_console.ingest.presence import Presence
from starforge_console.ingest.receive import Receiver
from starforge_console.ingest.tokens import IngestTokens
from starforge_console.ledger.reports import IngestGrant
from starforge_console.telemetry.metrics import IngestCounters
from starforge_console.wakeups import BACKEND, Wakeups, job_topic
from starforge_console.web.ingest_body import build_room, read_body
from starforge_console.web.problems import build_headers
from starforge_console.web.room import Room

_OFFSET_DIGITS: Final = 18
_TOKEN_CHARACTERS: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestServices:
    """What ingest is built from."""

    receiver: Receiver
    tokens: IngestTokens
    presence: Presence
    wakeups: Wakeups
    counters: IngestCounters
    room: Room = field(default_factory=build_room)


def build_ingest(services: IngestServices) -> Starlette:
    """The application that runners talk to. Every request needs the token of an attempt that may report."""
    handlers = _Handlers(services)
    refuse = _refusals(services.counters)
    return Starlette(
        routes=[
            Route(f"{INGEST_PREFIX}/streams/{{stream}}", handlers.stream, methods=["POST"]),
            Route(f"{INGEST_PREFIX}/exit", handlers.exit, methods=["POST"]),
            Route(f"{INGEST_PREFIX}/heartbeat", handlers.heartbeat, methods=["POST"]),
        ],
        exception_handlers={StarForgeError: refuse, HTTPException: _not_served, ClientDisconnect: _left},
    )


class _Handlers:
    def __init__(self, services: IngestServices) -> None:
        self._services = services

    async def stream(self, request: Request) -> Response:
        """Take bytes of one stream."""
        grant = await self._authenticate(request)
        offset = _parse_offset(request.query_params.get("offset", ""))
        with self._services.room.hold(grant.attempt.id) as hold:
            content = await read_body(request, BODY_BYTES, hold)
            stream = request.path_params["stream"]
            received = await self._services.receiver.take(grant.attempt, stream, offset, content)
        return self._answer(grant, received.received_to)

    async def exit(self, request: Request) -> Response:
        """Hear that the attempt has ended: the record itself is read from the storage, this only makes it sooner."""
        grant = await self._authenticate(request)
        with self._services.room.hold(grant.attempt.id) as hold:
            record = _parse_exit(await read_body(request, EXIT_RECORD_BYTES, hold))
        if record.attempt != grant.attempt.id:
            raise InputError(
                f"the record is of attempt {record.attempt!r:.80}, the token of {grant.attempt.id}",
                next_step="send the record of the attempt that the token is for",
            )
        self._services.wakeups.notify(BACKEND, job_topic(grant.attempt.job))
        return self._answer(grant, None)

    async def heartbeat(self, request: Request) -> Response:
        """Hear that the attempt runs, and tell it what it shall do."""
        return self._answer(await self._authenticate(request), None)

    async def _authenticate(self, request: Request) -> IngestGrant:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not 0 < len(token) <= _TOKEN_CHARACTERS:
            raise TokenRefused("no ingest token came with the request", next_step="send it as 'Authorization: Bearer'")
        return await self._services.tokens.load_grant(token)

    def _answer(self, grant: IngestGrant, received_to: int | None) -> Response:
        # Only now: an attempt whose requests come to nothing is read from its spool instead.
        self._services.presence.note(grant.attempt.id)
        wish = self._services.tokens.wish_of(grant)
        return _json({"received_to": received_to, "desired": wish.desired.value, "grace_s": wish.grace_s})


def _parse_offset(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _OFFSET_DIGITS):
        raise InputError(f"the offset {text!r:.40} is no count of bytes", next_step="add ?offset=N to the address")
    return int(text)


def _parse_exit(body: bytes) -> ExitRecord:
    try:
        return ExitRecord.from_json(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            "the exit record is no JSON that can be read",
            why=str(error),
            next_step="send the record as the runner wrote it",
        ) from None
    except CapsuleError as error:
        raise InputError(
            "the exit record cannot be used", why=str(error), next_step="send the record as the runner wrote it"
        ) from None


def _json(document: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> Response:
    media_type = "application/json" if status == 200 else PROBLEM_TYPE  # noqa: PLR2004 - the status OK
    return Response(msgspec.json.encode(document), status, headers, media_type)


def _refusals(counters: IngestCounters) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def _refuse(_request: Request, error: Exception) -> Response:
        if not isinstance(error, StarForgeError):
            raise error
        counters.refused.labels(error.code).inc()
        return _build_problem(error)

    return _refuse


def _build_problem(error: StarForgeError) -> Response:
    status = status_of(error)
    document = {
        "type": "about:blank",
        "title": error.what,
        "status": status,
        "code": error.code,
        "detail": error.why,
        "next_step": error.next_step,
    }
    if isinstance(error, StreamGap):
        document["received_to"] = error.received_to
    return _json(document, status, build_headers(error))


async def _not_served(_request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    document = {"type": "about:blank", "title": error.detail, "status": error.status_code, "code": "not_served"}
    return _json(document, error.status_code, dict(error.headers or {}))


async def _left(_request: Request, _error: Exception) -> Response:
    """Nobody reads this: the sender went away in the middle of its body."""
    return Response(status_code=400)

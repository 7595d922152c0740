"""A job's log for the page's script, part by part, and as a file: raw, or as it is shown."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from starforge.errors import NotFound
from starforge.logtext.reading import LogText
from starforge.said.sentence import say
from starforge_console.ledger.views import AttemptRecord
from starforge_console.web.attachments import build_attachment
from starforge_console.web.attempts import choose_logs, require_log
from starforge_console.web.deps import ApiServices, LogReader, Services
from starforge_console.web.log_files import PIECE_BYTES, LogFile, iterate_file, measure_file
from starforge_console.web.log_lines import find_attempt
from starforge_console.web.log_windows import LINES_SHOWN, load_around
from starforge_console.web.pages.log_view import (
    BEFORE,
    AskedOfLog,
    LogAsked,
    LogView,
    describe_window,
    find_error,
    load_hits,
)
from starforge_console.web.pages.services import Pages
from starforge_console.web.pages.visit import Signed
from starforge_console.web.ranges import parse_range

router = APIRouter(include_in_schema=False)

Number = Annotated[int | None, Query(ge=1, le=1_000_000)]


@router.get("/jobs/{job_id}/log/part")
async def send_part(pages: Pages, services: Services, visit: Signed, job_id: str, asked: AskedOfLog) -> Response:
    """Lines around one, or around the first error, as a fragment; it says where the lines before and after begin."""
    chosen = await _load_attempt(services, job_id, asked.attempt)
    line = await find_error(services, job_id, chosen, asked.node) if asked.is_error else asked.line
    view = LogView(asked=asked)
    if line is not None:
        logs = await choose_logs(services, job_id, asked.node)
        window = await load_around(logs, chosen.id, line, BEFORE, LINES_SHOWN)
        view = LogView(asked=asked, target=line, **describe_window(window))
    return _fragment(pages.look.part(visit.words, "job/log_part.html", log=view, **_names(job_id, chosen, asked)))


@router.get("/jobs/{job_id}/log/find")
async def send_hits(pages: Pages, services: Services, visit: Signed, job_id: str, asked: AskedOfLog) -> Response:
    """What a search finds from a byte on, as a fragment that says where to go on."""
    chosen = await _load_attempt(services, job_id, asked.attempt)
    logs = await choose_logs(services, job_id, asked.node)
    view = LogView(asked=asked, **(await load_hits(logs, chosen.id, asked) if asked.is_search else {}))
    return _fragment(pages.look.part(visit.words, "job/log_hits.html", log=view, **_names(job_id, chosen, asked)))


@router.get("/jobs/{job_id}/log.txt")
async def send_log(  # noqa: PLR0913 - which log, and how
    services: Services,
    _visit: Signed,
    request: Request,
    job_id: str,
    *,
    attempt: Number = None,
    node: Annotated[int, Query(ge=0, le=99_999)] = 0,
    rendered: bool = False,
) -> Response:
    """All that is here of one attempt's log as a file: as it is shown, or raw, and then a range may be asked for."""
    chosen = await _load_attempt(services, job_id, attempt)
    logs = await choose_logs(services, job_id, node)
    name = f"{job_id}-{chosen.number}" + (f"-node-{node}" if node else "")
    if rendered:
        return StreamingResponse(
            _render(logs, chosen.id),
            media_type="text/plain; charset=utf-8",
            headers=build_attachment(f"{name}.txt"),
        )
    content = await measure_file(logs, chosen.id)
    return _answer_range(logs, chosen.id, content, request, build_attachment(f"{name}.log"))


async def _load_attempt(services: ApiServices, job_id: str, number: int | None) -> AttemptRecord:
    """The attempt that is meant. Raises NotFound where none was begun, or its log was removed."""
    chosen = await find_attempt(services, job_id, number)
    if chosen is None:
        raise NotFound(
            say("form.no_log", job=job_id),
            why=say("form.no_log_why"),
            next_step=say("form.no_log_next"),
        )
    require_log(chosen)
    return chosen


def _names(job_id: str, attempt: AttemptRecord, asked: LogAsked) -> dict[str, object]:
    return {"job_id": job_id, "number": attempt.number, "of_node": asked.of_node}


def _fragment(text: str) -> Response:
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return Response(text, media_type="text/html; charset=utf-8", headers=headers)


def _answer_range(
    logs: LogReader, attempt: str, content: LogFile, request: Request, headers: dict[str, str]
) -> Response:
    """The file, or the part of it that the request asks for."""
    size_bytes = content.size_bytes
    headers |= {"Accept-Ranges": "bytes", "ETag": content.tag}
    if content.missing:
        headers["X-Log-Missing"] = ", ".join(f"{begin}-{end}" for begin, end in content.missing[:20])
    asked = request.headers.get("range") if request.headers.get("if-range", content.tag) == content.tag else None
    span = parse_range(asked, size_bytes)
    if span is None:
        return Response(status_code=416, headers=headers | {"Content-Range": f"bytes */{size_bytes}"})
    first, end = span
    headers["Content-Length"] = str(end - first)
    is_part = span != (0, size_bytes)
    if is_part:
        headers["Content-Range"] = f"bytes {first}-{end - 1}/{size_bytes}"
    body = iterate_file(logs, attempt, content, (first, end - first))
    return StreamingResponse(body, 206 if is_part else 200, media_type="application/octet-stream", headers=headers)


async def _render(logs: LogReader, attempt: str) -> AsyncIterator[str]:
    """The log as it is shown, line by line, with what is missing named in its place."""
    text, offset = LogText(colour=False), 0
    while True:
        part = await logs.read_part(attempt, offset, PIECE_BYTES)
        if part.gap is not None:
            begin, end = part.gap
            yield f"{text.finish()}[starforge: bytes {begin} to {end} of this log are not here]\n"
        elif part.content:
            yield text.feed(part.content)
        else:
            yield text.finish()
            return
        offset = part.next_offset

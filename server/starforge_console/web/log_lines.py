"""Routes about the lines of a log: a search, and windows on them as they are shown."""

from typing import Annotated, Final

from fastapi import APIRouter, Query
from starlette.responses import Response

from starforge.contract.logs import HITS_AT_MOST, LINES_AT_MOST, LogHit, LogHits, LogLine, LogLines
from starforge.errors import InputError
from starforge.logtext.levels import find_level
from starforge.logtext.render import Line
from starforge_console.ledger.views import AttemptRecord, list_attempts, load_job
from starforge_console.web.attempts import choose_attempt, choose_logs, require_log
from starforge_console.web.deps import ApiServices, Reader, Services
from starforge_console.web.log_search import Found, Wanted, search_log
from starforge_console.web.log_windows import LogWindow, Missing, load_around, load_end
from starforge_console.web.problems import problem_responses

LARGEST: Final = (1 << 53) - 1
"""The largest whole number that every reader of JSON keeps."""
QUERY_LENGTH: Final = 500

router = APIRouter(tags=["jobs"])

Attempt = Annotated[int | None, Query(ge=1, le=LARGEST, description="default: the newest")]
Node = Annotated[int, Query(ge=0, le=99_999, description="what this node of the attempt printed; 0 leads")]
Count = Annotated[int, Query(ge=0, le=LINES_AT_MOST)]


@router.get("/jobs/{job_id}/log/search", response_model=LogHits, responses=problem_responses(401, 403, 404))
async def search(  # noqa: PLR0913 - what is searched for, and where
    services: Services,
    _account: Reader,
    job_id: str,
    *,
    q: Annotated[str, Query(max_length=QUERY_LENGTH, description="a text, in any case; no pattern")] = "",
    start: Annotated[
        int, Query(alias="from", ge=0, le=LARGEST, description="the byte to begin at, as `next` said")
    ] = 0,
    attempt: Attempt = None,
    rank: Annotated[int | None, Query(ge=0, le=99_999, description="only what this rank wrote")] = None,
    errors: Annotated[bool, Query(description="only lines that speak of an error")] = False,
    node: Node = 0,
    limit: Annotated[int, Query(ge=1, le=HITS_AT_MOST)] = 50,
) -> Response:
    """Lines of one attempt's log, oldest first. Each answer takes a bounded time; `next` says where to go on."""
    if not q and rank is None and not errors:
        raise InputError("nothing to search for", next_step="give a text as q, a rank, or errors=true")
    if "\n" in q:
        raise InputError(
            "a text of several lines is in no line", why="each line is searched by itself", next_step="give one of them"
        )
    logs = await choose_logs(services, job_id, node)
    chosen = await find_attempt(services, job_id, attempt)
    if chosen is None:
        empty = LogHits(
            attempt=0, items=(), next=None, searched_from=start, searched_to=start, received_to=0, ended=False
        )
        return _answer(empty)
    wanted = Wanted(text=q, rank=rank, errors=errors)
    return _answer(_build_hits(chosen, await search_log(logs, chosen.id, wanted, start, limit)))


@router.get("/jobs/{job_id}/log/lines", response_model=LogLines, responses=problem_responses(401, 403, 404))
async def show_lines(  # noqa: PLR0913 - what is asked
    services: Services,
    _account: Reader,
    job_id: str,
    *,
    line: Annotated[int | None, Query(ge=1, le=LARGEST, description="a line's number")] = None,
    offset: Annotated[int | None, Query(ge=0, le=LARGEST, description="or a byte within a line")] = None,
    before: Count = 0,
    after: Count = 100,
    attempt: Attempt = None,
    node: Node = 0,
) -> Response:
    """Lines around one, as they are shown; without a line or a byte the end of the log, `before` lines of it."""
    logs = await choose_logs(services, job_id, node)
    chosen = await find_attempt(services, job_id, attempt)
    if chosen is None:
        return _answer(
            LogLines(attempt=0, items=(), earlier=None, later=None, is_open=False, received_to=0, ended=False)
        )
    if line is None and offset is not None:
        line = await logs.number_of(chosen.id, offset)
    if line is None:
        window = await load_end(logs, chosen.id, max(1, before))
    else:
        window = await load_around(logs, chosen.id, line, before, after)
    return _answer(_build_lines(chosen, window))


async def find_attempt(services: ApiServices, job_id: str, number: int | None) -> AttemptRecord | None:
    """The attempt that is meant; None where none was begun. Raises NotFound."""
    _, attempts = await services.ledger.read(lambda c: (load_job(c, job_id), list_attempts(c, job_id)))
    chosen = choose_attempt(job_id, attempts, number)
    if chosen is not None:
        require_log(chosen)
    return chosen


def _build_hits(attempt: AttemptRecord, found: Found) -> LogHits:
    return LogHits(
        attempt=attempt.number,
        items=tuple(
            LogHit(line=hit.number, offset=hit.offset, text=hit.text, begin=hit.begin, end=hit.end, level=hit.level)
            for hit in found.hits
        ),
        next=found.next_offset,
        searched_from=found.searched_from,
        searched_to=found.searched_to,
        received_to=found.received_to,
        ended=found.ended,
    )


def _build_lines(attempt: AttemptRecord, window: LogWindow) -> LogLines:
    items = [_build_line(item) for item in window.items]
    if window.open_line is not None:
        items.append(_build_line(window.open_line))
    return LogLines(
        attempt=attempt.number,
        items=tuple(items),
        earlier=window.earlier,
        later=window.later,
        is_open=window.open_line is not None,
        received_to=window.received_to,
        ended=window.ended,
    )


def _build_line(item: Line | Missing) -> LogLine:
    if isinstance(item, Missing):
        text = f"[starforge: bytes {item.begin} to {item.end} of this log are not here]"
        return LogLine(number=None, offset=item.begin, text=text, level="gap", missing=(item.begin, item.end))
    text = item.text
    return LogLine(
        number=item.number, offset=item.offset, text=text, level=find_level(text), omitted_bytes=item.omitted_bytes
    )


def _answer(message: LogHits | LogLines) -> Response:
    return Response(message.model_dump_json(), media_type="application/json", headers={"Cache-Control": "no-store"})

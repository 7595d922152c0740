"""Routes that wait for something new: a job's events and the bytes of its log."""

from dataclasses import dataclass, replace
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response

from starforge.contract.api import (
    HEADER_LOG_ATTEMPT,
    HEADER_LOG_ENDED,
    HEADER_LOG_NEXT_ATTEMPT,
    HEADER_LOG_RECEIVED_TO,
    EventList,
)
from starforge.contract.logs import HEADER_LOG_MISSING, HEADER_LOG_NEXT_OFFSET, HEADER_LOG_OFFSET
from starforge.contract.states import has_ended_for_good
from starforge_console.ingest.logs import LinePlace, LogPart
from starforge_console.ingest.streams import log_stream
from starforge_console.ledger.views import AttemptRecord, JobRecord, list_attempts, list_events, load_job
from starforge_console.wakeups import job_topic, stream_topic
from starforge_console.web.attempts import choose_attempt, choose_logs, require_log
from starforge_console.web.deps import ApiServices, LogReader, LogSlice, Polls, Reader, Services
from starforge_console.web.log_lines import LARGEST, Node, find_attempt
from starforge_console.web.polls import LONGEST_WAIT_S
from starforge_console.web.problems import problem_responses
from starforge_console.web.views import build_event

LOG_BYTES: Final = 1 << 20
"""The most that one answer carries of a log."""

router = APIRouter(tags=["jobs"])

Wait = Annotated[float, Query(ge=0, le=LONGEST_WAIT_S, description="how long to wait for something new, in seconds")]


@router.get("/jobs/{job_id}/events", response_model=EventList, responses=problem_responses(401, 403, 404))
async def follow_events(
    services: Services,
    polls: Polls,
    _account: Reader,
    job_id: str,
    *,
    after: Annotated[int, Query(ge=0, le=LARGEST)] = 0,
    wait_s: Wait = 0,
) -> Response:
    """The job's events after one, oldest first; waits for the first of them."""

    async def look() -> EventList:
        _, found = await services.ledger.read(lambda c: (load_job(c, job_id), list_events(c, job_id, after)))
        return EventList(items=tuple(map(build_event, found)))

    events = await polls.until(look, lambda seen: bool(seen.items), (job_topic(job_id),), wait_s)
    return Response(events.model_dump_json(), media_type="application/json")


_LOG_RESPONSES = {
    200: {
        "description": "The bytes as the job wrote them; empty when there is nothing new.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        "headers": {
            HEADER_LOG_RECEIVED_TO: {"schema": {"type": "integer"}, "description": "Bytes of this attempt's log here."},
            HEADER_LOG_ENDED: {"schema": {"type": "string", "enum": ["true", "false"]}},
            HEADER_LOG_ATTEMPT: {"schema": {"type": "integer"}, "description": "The attempt that wrote these bytes."},
            HEADER_LOG_NEXT_ATTEMPT: {"schema": {"type": "integer"}, "description": "Whose log comes after this."},
            HEADER_LOG_OFFSET: {"schema": {"type": "integer"}, "description": "Where these bytes begin."},
            HEADER_LOG_NEXT_OFFSET: {"schema": {"type": "integer"}, "description": "Where to go on."},
            HEADER_LOG_MISSING: {"schema": {"type": "string"}, "description": "A range that is not here, passed over."},
        },
    },
    **problem_responses(401, 403, 404),
}


@router.get("/jobs/{job_id}/log", response_class=Response, responses=_LOG_RESPONSES)
async def follow_log(  # noqa: PLR0913 - what is asked, and for how long
    services: Services,
    polls: Polls,
    _account: Reader,
    job_id: str,
    *,
    offset: Annotated[int, Query(ge=0, le=LARGEST)] = 0,
    line: Annotated[int | None, Query(ge=1, le=LARGEST, description="begin at this line instead")] = None,
    tail: Annotated[int | None, Query(ge=1, le=LARGEST, description="or so many lines before the end")] = None,
    gaps: Annotated[Literal["fill", "skip"], Query(description="what stands for bytes that are not here")] = "fill",
    attempt: Annotated[int | None, Query(ge=1, le=LARGEST, description="default: the newest")] = None,
    node: Node = 0,
    wait_s: Wait = 0,
) -> Response:
    """Raw bytes of one attempt's log from `offset` (within that attempt) on; waits for the first of them.

    Bytes that are not here are filled with a marker of the same length, so that offsets hold for whoever counts bytes;
    with `gaps=skip` an answer at such a range holds no bytes, names the range, and says where to go on.
    """
    asked = _Asked(offset, is_skipping=gaps == "skip", node=node, logs=await choose_logs(services, job_id, node))
    if line is not None or tail is not None:
        chosen = await find_attempt(services, job_id, attempt)
        asked = replace(asked, offset=await _find_offset(asked.logs, chosen, (line, tail)))
    view = await _look(services, job_id, attempt, asked)
    if not view.is_news:
        # The attempt is held on to while waiting: another one's bytes would not begin at this offset.
        pinned = view.number or None
        topics = (job_topic(job_id), *_stream_topics(view, node))
        view = await polls.until(
            lambda: _look(services, job_id, pinned, asked),
            lambda seen: seen.is_news or (seen.number or None) != pinned,
            topics,
            wait_s,
        )
    return _render(view, asked, named=attempt is not None)


@dataclass(frozen=True, slots=True)
class _Asked:
    """Of which node, from which byte on, and whether what is missing is passed over."""

    offset: int
    is_skipping: bool
    node: int
    logs: LogReader


@dataclass(frozen=True, slots=True)
class _LogView:
    """One attempt's log at one moment, with the job around it. `attempt` None: none was begun."""

    job: JobRecord
    attempt: AttemptRecord | None
    content: LogSlice | LogPart | None

    @property
    def number(self) -> int:
        return 0 if self.attempt is None else self.attempt.number

    @property
    def attempt_ended(self) -> bool:
        """Whether nothing will be added to this attempt's log."""
        if self.content is None:
            return self.job_ended
        return self.content.ended

    @property
    def job_ended(self) -> bool:
        """Whether no further attempt comes by itself."""
        return has_ended_for_good(self.job.state, self.job.retry_at)

    @property
    def has_newer(self) -> bool:
        return self.number < self.job.attempt_number

    @property
    def gap(self) -> tuple[int, int] | None:
        """The range that is missing here and is passed over."""
        return self.content.gap if isinstance(self.content, LogPart) else None

    @property
    def is_news(self) -> bool:
        """Whether there is something to tell at once: bytes, or that no more come."""
        has_bytes = self.content is not None and len(self.content.content) > 0
        return has_bytes or self.gap is not None or (self.attempt_ended and (self.job_ended or self.has_newer))


async def _look(services: ApiServices, job_id: str, number: int | None, asked: _Asked) -> _LogView:
    job, attempts = await services.ledger.read(lambda c: (load_job(c, job_id), list_attempts(c, job_id)))
    attempt = choose_attempt(job_id, attempts, number)
    if attempt is None:
        return _LogView(job, None, None)
    require_log(attempt)
    read = asked.logs.read_part if asked.is_skipping else asked.logs.read_log
    return _LogView(job, attempt, await read(attempt.id, asked.offset, LOG_BYTES))


async def _find_offset(logs: LogReader, chosen: AttemptRecord | None, wanted: tuple[int | None, int | None]) -> int:
    """Where the line begins that is wanted, by its number or by how many follow it."""
    if chosen is None:
        return 0
    line, tail = wanted
    end = (await logs.read_part(chosen.id, 0, 0)).received_to
    if line is None:
        last = await logs.number_of(chosen.id, end)
        is_open = (await logs.find_line(chosen.id, last) or LinePlace(last, end)).offset < end
        line = max(1, last + is_open - (tail or 1))
    place = await logs.find_line(chosen.id, line)
    return end if place is None else place.offset


def _stream_topics(view: _LogView, node: int) -> tuple[str, ...]:
    return () if view.attempt is None else (stream_topic(view.attempt.id, log_stream(node)),)


def _render(view: _LogView, asked: _Asked, *, named: bool) -> Response:
    at_end = (view.content is None or not view.content.content) and view.gap is None
    content = view.content.content if view.content is not None else b""
    ended = view.attempt_ended and (named or (view.job_ended and not view.has_newer))
    headers = {
        HEADER_LOG_RECEIVED_TO: str(view.content.received_to if view.content is not None else 0),
        HEADER_LOG_ENDED: "true" if ended else "false",
        HEADER_LOG_OFFSET: str(asked.offset),
        HEADER_LOG_NEXT_OFFSET: str(asked.offset + len(content) if view.gap is None else view.gap[1]),
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
    if view.gap is not None:
        headers[HEADER_LOG_MISSING] = f"{view.gap[0]}-{view.gap[1]}"
    if view.attempt is not None:
        headers[HEADER_LOG_ATTEMPT] = str(view.attempt.number)
        if view.attempt_ended and view.has_newer and at_end:
            headers[HEADER_LOG_NEXT_ATTEMPT] = str(view.attempt.number + 1)
    return Response(content, media_type="application/octet-stream", headers=headers)

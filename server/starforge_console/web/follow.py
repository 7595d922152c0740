"""Routes that wait for something new: a job's events and the bytes of its log."""

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Query
from starlette.responses import Response

from starforge.contract.api import (
    HEADER_LOG_ATTEMPT,
    HEADER_LOG_ENDED,
    HEADER_LOG_NEXT_ATTEMPT,
    HEADER_LOG_RECEIVED_TO,
    EventList,
)
from starforge.contract.capsule import STREAM_LOG
from starforge.contract.states import has_ended_for_good
from starforge_console.ledger.views import AttemptRecord, JobRecord, list_attempts, list_events, load_job
from starforge_console.wakeups import job_topic, stream_topic
from starforge_console.web.attempts import choose_attempt
from starforge_console.web.deps import ApiServices, LogSlice, Polls, Reader, Services
from starforge_console.web.polls import LONGEST_WAIT_S
from starforge_console.web.problems import problem_responses
from starforge_console.web.views import build_event

LOG_BYTES: Final = 1 << 20
"""The most that one answer carries of a log."""
LARGEST: Final = (1 << 53) - 1

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
    attempt: Annotated[int | None, Query(ge=1, le=LARGEST, description="default: the newest")] = None,
    wait_s: Wait = 0,
) -> Response:
    """Raw bytes of one attempt's log from `offset` (within that attempt) on; waits for the first of them."""
    view = await _look(services, job_id, attempt, offset)
    if not view.is_news:
        # The attempt is held on to while waiting: another one's bytes would not begin at this offset.
        pinned = view.number or None
        topics = (job_topic(job_id), *_stream_topics(view))
        view = await polls.until(
            lambda: _look(services, job_id, pinned, offset),
            lambda seen: seen.is_news or (seen.number or None) != pinned,
            topics,
            wait_s,
        )
    return _render(view, named=attempt is not None)


@dataclass(frozen=True, slots=True)
class _LogView:
    """One attempt's log at one moment, with the job around it. `attempt` None: none was begun."""

    job: JobRecord
    attempt: AttemptRecord | None
    content: LogSlice | None

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
    def is_news(self) -> bool:
        """Whether there is something to tell at once: bytes, or that no more come."""
        has_bytes = self.content is not None and len(self.content.content) > 0
        return has_bytes or (self.attempt_ended and (self.job_ended or self.has_newer))


async def _look(services: ApiServices, job_id: str, number: int | None, offset: int) -> _LogView:
    job, attempts = await services.ledger.read(lambda c: (load_job(c, job_id), list_attempts(c, job_id)))
    attempt = choose_attempt(job_id, attempts, number)
    if attempt is None:
        return _LogView(job, None, None)
    return _LogView(job, attempt, await services.logs.read_log(attempt.id, offset, LOG_BYTES))


def _stream_topics(view: _LogView) -> tuple[str, ...]:
    return () if view.attempt is None else (stream_topic(view.attempt.id, STREAM_LOG),)


def _render(view: _LogView, *, named: bool) -> Response:
    at_end = view.content is None or not view.content.content
    ended = view.attempt_ended and (named or (view.job_ended and not view.has_newer))
    headers = {
        HEADER_LOG_RECEIVED_TO: str(view.content.received_to if view.content is not None else 0),
        HEADER_LOG_ENDED: "true" if ended else "false",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
    if view.attempt is not None:
        headers[HEADER_LOG_ATTEMPT] = str(view.attempt.number)
        if view.attempt_ended and view.has_newer and at_end:
            headers[HEADER_LOG_NEXT_ATTEMPT] = str(view.attempt.number + 1)
    content = view.content.content if view.content is not None else b""
    return Response(content, media_type="application/octet-stream", headers=headers)

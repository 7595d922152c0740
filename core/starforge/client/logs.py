"""How bytes and hits of a log are asked for, and what the console answers."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from starforge.client.http import Reply, Request
from starforge.contract import api
from starforge.contract.logs import (
    HEADER_LOG_MISSING,
    HEADER_LOG_NEXT_OFFSET,
    HEADER_LOG_OFFSET,
    HITS_AT_MOST,
)
from starforge.errors import Unavailable

_SKIP: Final = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogAsk:
    """From where on a log is asked for, and how long its first bytes are waited for.

    `line` and `tail` count lines, and go before `offset`; `attempt` None is the newest, `node` 0 the one that leads.
    """

    offset: int = 0
    line: int | None = None
    tail: int | None = None
    attempt: int | None = None
    node: int = 0
    wait_s: int = 0


@dataclass(frozen=True, slots=True)
class LogPart:
    """Bytes of a log that begin at `offset`; reading goes on at `next_offset`.

    `missing` is a range that is not at the console: there are no bytes then, and reading goes on behind it. `ended`:
    nothing will be added to the log.
    """

    content: bytes
    received_to: int
    ended: bool
    offset: int = 0
    next_offset: int = 0
    missing: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuestion:
    """What is searched for in a log."""

    text: str = ""
    rank: int | None = None
    attempt: int | None = None
    node: int = 0


def build_log_request(job: str, ask: LogAsk) -> Request:
    """The request for bytes of a log."""
    query: dict[str, str | int] = {"offset": ask.offset, "wait_s": ask.wait_s, "gaps": _SKIP}
    chosen = {"line": ask.line, "tail": ask.tail, "attempt": ask.attempt, "node": ask.node or None}
    query |= {name: value for name, value in chosen.items() if value is not None}
    path = f"/jobs/{quote(job, safe='')}/log"
    return Request(method="GET", path=path, query=query, repeatable=False, wait_s=ask.wait_s)


def parse_log_reply(reply: Reply, ask: LogAsk) -> LogPart:
    """What was answered. Raises Unavailable for an answer that is none, or of a console that cannot count lines."""
    received_to = reply.headers.get(api.HEADER_LOG_RECEIVED_TO.lower(), "")
    if not received_to.isdigit():
        raise Unavailable(
            "the answer about the log does not say how far it goes",
            why="no StarForge console?",
            next_step="check that the address is that of a StarForge console: sf status",
        )
    offset = reply.headers.get(HEADER_LOG_OFFSET.lower(), "")
    if not offset.isdigit() and (ask.line is not None or ask.tail is not None):
        raise Unavailable(
            "this console cannot begin a log at a line", why="its version is older", next_step="begin at an --offset"
        )
    begin = int(offset) if offset.isdigit() else ask.offset
    following = reply.headers.get(HEADER_LOG_NEXT_OFFSET.lower(), "")
    first, _, behind = reply.headers.get(HEADER_LOG_MISSING.lower(), "").partition("-")
    return LogPart(
        content=reply.body,
        received_to=int(received_to),
        ended=reply.headers.get(api.HEADER_LOG_ENDED.lower(), "").lower() == "true",
        offset=begin,
        next_offset=int(following) if following.isdigit() else begin + len(reply.body),
        missing=(int(first), int(behind)) if first.isdigit() and behind.isdigit() else None,
    )


def build_search_query(question: LogQuestion, start: int, attempt: int | None) -> dict[str, str | int]:
    """The query for the hits from a byte on."""
    query: dict[str, str | int] = {"from": start, "limit": HITS_AT_MOST}
    chosen = {"q": question.text or None, "rank": question.rank, "attempt": attempt, "node": question.node or None}
    return query | {name: value for name, value in chosen.items() if value is not None}

"""Asks a hub whether the console may read a model or dataset, and which commit a revision is.

Two questions: what the revision is, and whether one of its files could be had, for a hub describes a gated repository
to everybody. An answer that the hub did not give itself (a proxy's, a gateway's) is none.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

import httpx2

from starforge.wording import cut_middle
from starforge_console.clock import Clock
from starforge_console.domain.inputs import UNANSWERED, HubAnswer, HubRef, HubStanding, is_commit
from starforge_console.settings.console import HubSettings

KEPT_S: Final = 60.0
"""How long an answer is good: submissions often come in bursts that all name the same."""
_KEPT_AT_MOST: Final = 1000
_OPEN_TO_ALL: Final = frozenset({"README.md", ".gitattributes", "LICENSE"})
"""Files that a hub shows of a gated repository too."""
_WORDS_AT_MOST: Final = 200
_BODY_AT_MOST: Final = 8 << 20

_OK: Final = 200
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_BY_CODE: Final[Mapping[str, HubStanding]] = {
    "RepoNotFound": HubStanding.NOT_FOUND,
    "RevisionNotFound": HubStanding.REVISION_NOT_FOUND,
    "GatedRepo": HubStanding.GATED,
}
_BAD_TOKEN: Final = "Invalid credentials"  # noqa: S105 - the hub's words, no secret
_UNSETTLED: Final = frozenset({408, 425, 429})
_PROXY_AUTH: Final = 407


class Hub:
    """One hub, asked as one account. Questions about the same reference at the same time are one question."""

    def __init__(self, settings: HubSettings, clock: Clock) -> None:
        self.endpoint = settings.hf_endpoint.rstrip("/")
        self._token = settings.token
        self._timeout_s = settings.hf_timeout_s
        self._clock = clock
        self._kept: dict[HubRef, tuple[float, HubAnswer]] = {}
        self._asking: dict[HubRef, asyncio.Task[HubAnswer]] = {}

    async def ask(self, ref: HubRef) -> HubAnswer:
        """Whether the console may read `ref`, and which commit it is; within the time limit."""
        kept = self._kept.get(ref)
        if kept is not None and self._clock.monotonic() < kept[0]:
            return kept[1]
        asking = self._asking.get(ref)
        if asking is None:
            asking = self._asking[ref] = asyncio.create_task(self._ask_now(ref))
            asking.add_done_callback(lambda _: self._asking.pop(ref, None))
        return await asyncio.shield(asking)

    async def _ask_now(self, ref: HubRef) -> HubAnswer:
        headers = {} if self._token is None else {"Authorization": f"Bearer {self._token.reveal()}"}
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                httpx2.AsyncClient(headers=headers, timeout=self._timeout_s) as client,
            ):
                answer = await self._ask_both(client, ref)
        except (TimeoutError, httpx2.TimeoutException):
            answer = HubAnswer(HubStanding.SILENT, why=f"no answer within {self._timeout_s:g} s")
        except httpx2.ProxyError as error:
            answer = HubAnswer(HubStanding.BLOCKED, why=f"the proxy says: {_shorten(str(error))}")
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            answer = HubAnswer(HubStanding.SILENT, why=_shorten(str(error)) or type(error).__name__)
        if self._token is not None:
            answer = replace(answer, why=mask(answer.why, self._token.reveal()))
        if answer.standing not in UNANSWERED:
            if len(self._kept) >= _KEPT_AT_MOST:
                self._kept.clear()
            self._kept[ref] = (self._clock.monotonic() + KEPT_S, answer)
        return answer

    async def _ask_both(self, client: httpx2.AsyncClient, ref: HubRef) -> HubAnswer:
        revision = quote(ref.revision, safe="")
        url = f"{self.endpoint}/api/{ref.kind}s/{ref.repo}/revision/{revision}"
        async with client.stream("GET", url, follow_redirects=True) as described:
            if described.status_code != _OK:
                return explain_answer(described)
            commit, files = _read_description(await _read_body(described))
        if commit is None:
            server = _shorten(described.headers.get("server", "")) or "a server that is no hub"
            return HubAnswer(HubStanding.BLOCKED, why=f"an answer without a commit from {server}")
        asked = next((name for name in files if name not in _OPEN_TO_ALL), None)
        if asked is None:
            return HubAnswer(HubStanding.READABLE, commit=commit)
        prefix = "datasets/" if ref.kind == "dataset" else ""
        offered = await client.head(f"{self.endpoint}/{prefix}{ref.repo}/resolve/{commit}/{quote(asked)}")
        if offered.status_code == _OK or offered.status_code in _REDIRECTS:
            return HubAnswer(HubStanding.READABLE, commit=commit)
        return explain_answer(offered)


def mask(text: str, token: str) -> str:
    """`text` without the token: a server may say in its error what it was sent. Pure."""
    return text.replace(token, "***")


def explain_answer(answer: httpx2.Response) -> HubAnswer:
    """What an answer other than "here it is" says. Pure."""
    status, code = answer.status_code, answer.headers.get("X-Error-Code", "")
    words = _shorten(answer.headers.get("X-Error-Message", ""))
    why = f"{status} {words}".strip()
    if code in _BY_CODE:
        return HubAnswer(_BY_CODE[code], why=why)
    if status in _UNSETTLED or status >= 500:  # noqa: PLR2004 - the server's own trouble
        return HubAnswer(HubStanding.DISTURBED, why=why)
    if status == _PROXY_AUTH or not _is_the_hubs(answer):
        server = _shorten(answer.headers.get("server", "")) or "a server"
        return HubAnswer(HubStanding.BLOCKED, why=f"{status} from {server} that is no hub")
    if status == 401:  # noqa: PLR2004 - the hub says so of a bad token, and of what does not exist
        standing = HubStanding.TOKEN_REFUSED if words.startswith(_BAD_TOKEN) else HubStanding.NOT_FOUND
        return HubAnswer(standing, why=why)
    standing = {403: HubStanding.FORBIDDEN, 404: HubStanding.NOT_FOUND}.get(status, HubStanding.DISTURBED)
    return HubAnswer(standing, why=why)


def _is_the_hubs(answer: httpx2.Response) -> bool:
    """Whether a hub wrote the answer: it names its errors and its requests, and speaks JSON; gateways do neither."""
    headers = answer.headers
    kind = headers.get("Content-Type", "")
    return "X-Error-Message" in headers or ("X-Request-Id" in headers and not kind.startswith("text/html"))


async def _read_body(answer: httpx2.Response) -> bytes:
    """The body; empty where it is longer than any hub's, of which no more is held than that."""
    body = bytearray()
    async for part in answer.aiter_bytes():
        body += part
        if len(body) > _BODY_AT_MOST:
            return b""
    return bytes(body)


def _read_description(body: bytes) -> tuple[str | None, list[str]]:
    """The commit of a revision, and the names of its files."""
    try:
        description: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None, []
    match description:
        case {"sha": str(commit), **rest} if is_commit(commit):
            siblings = rest.get("siblings")
            rows = [one for one in siblings if isinstance(one, dict)] if isinstance(siblings, list) else []
            names = [row.get("rfilename") for row in rows]
            return commit, [name for name in names if isinstance(name, str)]
    return None, []


def _shorten(text: str) -> str:
    return cut_middle(" ".join(text.split()), _WORDS_AT_MOST)

"""One node's daemon over HTTP: the wire of `starforge.contract.wire`, and what each way of not answering means."""

import errno
import ssl
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx2
import msgspec

from starforge.contract.executor import LogChunk, Swept
from starforge.contract.ids import AttemptId
from starforge.contract.launch import LaunchRequest, Secret
from starforge.contract.observation import NoSignal, Observation
from starforge.contract.wire import (
    FENCE_HEADER,
    FENCE_PATH,
    HEALTH_PATH,
    INSTALL_HEADER,
    LAUNCH_PATH,
    LOGS_PATH,
    OBSERVE_PATH,
    REAP_PATH,
    STOP_PATH,
    STORAGE_HEADER,
    SWEEP_PATH,
    NodeReport,
    Observe,
    OneAttempt,
    Stop,
    Sweep,
    decode,
    decode_error,
    decode_observations,
    encode,
)
from starforge.errors import BackendUnreachable, SpecError
from starforge.said.sentence import say
from starforge.trust.contexts import build_client_context
from starforge_console.executors.node.directory import KnownNode

CONNECT_TIMEOUT_S: Final = 5.0
_IDLE_S: Final = 60.0
"""Shorter than the daemon keeps a connection, so that it is never closed as a call begins."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """How daemons are called.

    Attributes:
        install: Whose attempts these are.
        key_file: The console's own key and certificate, as PEM in one file.
        request_timeout_s: FORGE_NODE_REQUEST_TIMEOUT_S.
        launch_timeout_s: FORGE_NODE_LAUNCH_TIMEOUT_S, for an image that is there already.
        storage_id: What the mark of the storage says.
        legacy_token: FORGE_NODE_TOKEN, for machines named in the console's settings.

    """

    install: str
    key_file: Path
    storage_id: str = ""
    request_timeout_s: float = 15.0
    launch_timeout_s: float = 120.0
    legacy_token: Secret | None = None


class NodeSilent(BackendUnreachable):
    """No answer came from the daemon: whether the request took effect is not known."""


class NodeLink:
    """One daemon at one address with one certificate; another of either is another link.

    Every call raises NodeSilent when no answer came, and BackendUnreachable when it could not be understood or the
    machine's engine does not answer: what it did is not known then.
    """

    def __init__(self, node: KnownNode, settings: LinkSettings) -> None:
        self.node = node
        self._settings = settings
        self._client = self._open_client()

    async def close(self) -> None:
        """End the connections."""
        await self._client.aclose()

    async def launch(self, request: LaunchRequest, fence: int) -> None:
        """Start `request`. Raises NoCapacity, NodeFault and LaunchRefused, too, as the daemon says."""
        timeout = _timeout(self._settings.launch_timeout_s)
        await self._post(LAUNCH_PATH, encode(request), {FENCE_HEADER: str(fence)}, timeout)

    async def observe(self, attempts: Collection[AttemptId] | None) -> dict[AttemptId, Observation]:
        """What the daemon says of `attempts`; of everything of this install for None."""
        message = Observe(attempts=None if attempts is None else tuple(attempts))
        return _read(await self._post(OBSERVE_PATH, encode(message)), decode_observations)

    async def fence(self, attempt: AttemptId) -> Observation:
        """Fence it for ever, and say what is held of it."""
        told = _read(await self._post(FENCE_PATH, encode(OneAttempt(attempt=attempt))), decode_observations)
        return told.get(attempt, NoSignal(reason=say("host.said_nothing")))

    async def stop(self, attempt: AttemptId, remaining_s: float) -> None:
        """Begin to stop it."""
        await self._post(STOP_PATH, encode(Stop(attempt=attempt, remaining_s=max(0.0, remaining_s))))

    async def reap(self, attempt: AttemptId) -> None:
        """Remove what is left of it. Raises Conflict while it runs."""
        await self._post(REAP_PATH, encode(OneAttempt(attempt=attempt)))

    async def sweep(self, known: Collection[AttemptId]) -> Swept:
        """Remove what is idle and not known."""
        return _read(await self._post(SWEEP_PATH, encode(Sweep(known=tuple(known)))), _decode_swept)

    async def health(self) -> NodeReport:
        """What the node says of itself."""
        return _read(await self._ask("GET", HEALTH_PATH), lambda content: decode(content, NodeReport))

    async def greet_anew(self) -> str:
        """Ask for its health on a fresh connection: empty text when that works, else how it fails."""
        link = NodeLink(self.node, self._settings)
        try:
            await link.health()
        except NodeSilent as error:
            return error.why
        finally:
            await link.close()
        return ""

    async def logs(self, attempt: AttemptId, cursor: str | None) -> AsyncIterator[LogChunk]:
        """The engine's own output behind `cursor`."""
        asked = {"attempt": attempt, **({"cursor": cursor} if cursor else {})}
        with self._translating():
            async with self._client.stream("GET", LOGS_PATH, params=asked) as answer:
                if answer.status_code != HTTPStatus.OK:
                    raise decode_error(await answer.aread())
                async for line in answer.aiter_lines():
                    yield _read_log_line(line)

    async def _post(
        self,
        path: str,
        body: bytes,
        headers: Mapping[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,  # noqa: ASYNC109 - a limit per read, not for the whole
    ) -> bytes:
        extra: dict[str, Any] = {} if timeout is None else {"timeout": timeout}
        return await self._ask("POST", path, content=body, headers=dict(headers or {}), **extra)

    async def _ask(self, method: str, path: str, **options: Any) -> bytes:  # noqa: ANN401 - passed on
        with self._translating():
            answer = await self._client.request(method, path, **options)
        if answer.status_code == HTTPStatus.OK:
            return answer.content
        raise decode_error(answer.content)

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except (httpx2.HTTPError, httpx2.InvalidURL, ssl.SSLError, OSError) as error:
            raise NodeSilent(
                say("host.silent_at", node=self.node.name, address=self.node.advertise), why=explain_silence(error)
            ) from error

    def _open_client(self) -> httpx2.AsyncClient:
        node, settings = self.node, self._settings
        headers = {INSTALL_HEADER: settings.install, "content-type": "application/json"}
        verify: ssl.SSLContext | bool = False  # a legacy node is called without TLS
        scheme = "https"
        if node.legacy:
            scheme = "http"
            headers[STORAGE_HEADER] = settings.storage_id
            if settings.legacy_token is not None:
                headers["authorization"] = f"Bearer {settings.legacy_token.reveal()}"
        else:
            verify = self._build_context()
        return httpx2.AsyncClient(
            base_url=f"{scheme}://{node.advertise}",
            headers=headers,
            verify=verify,
            trust_env=False,  # a proxy would answer in the node's place
            timeout=_timeout(settings.request_timeout_s),
            limits=httpx2.Limits(keepalive_expiry=_IDLE_S),
        )

    def _build_context(self) -> ssl.SSLContext:
        try:
            return build_client_context(self._settings.key_file, self.node.certificate)
        except (OSError, ValueError, TypeError) as error:
            raise NodeSilent(
                say("host.uncallable", node=self.node.name),
                why=say("host.uncallable_why", key=str(self._settings.key_file), why=str(error)),
                next_step=say("host.join_again"),
            ) from error


def explain_silence(error: BaseException) -> str:
    """Why no answer came, with what to look at: nobody sees the network from here but by its errors."""
    said, number = str(error).lower(), _find_errno(error)
    for matches, meaning in _SILENCES:
        if matches(error, number, said):
            return meaning
    return str(error) or type(error).__name__


_NO_ROUTE: Final = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EACCES})
_SILENCES: Final[tuple[tuple[Callable[[BaseException, int | None, str], bool], str], ...]] = (
    (
        lambda _error, _number, said: "certificate" in said,
        say("host.other_certificate"),
    ),
    (
        lambda error, _number, _said: isinstance(error, httpx2.RemoteProtocolError),
        say("host.cut"),
    ),
    (
        lambda _error, number, said: number == errno.ECONNREFUSED or "connection refused" in said,
        say("host.refused"),
    ),
    (
        lambda _error, number, said: number in _NO_ROUTE or "unreachable" in said or "no route" in said,
        say("host.no_route"),
    ),
    (
        lambda error, _number, _said: isinstance(error, httpx2.ConnectTimeout),
        say("host.timed_out"),
    ),
    (
        lambda error, _number, _said: isinstance(error, httpx2.TimeoutException),
        say("host.late"),
    ),
)
"""Looked at from the top; the first that matches counts."""


def _find_errno(error: BaseException | None) -> int | None:
    while error is not None:
        if isinstance(error, OSError) and error.errno is not None:
            return error.errno
        error = error.__cause__ or error.__context__
    return None


def _timeout(read_s: float) -> httpx2.Timeout:
    return httpx2.Timeout(read_s, connect=min(CONNECT_TIMEOUT_S, read_s))


def _read(content: bytes, decoder: Callable[[bytes], _T]) -> _T:
    try:
        return decoder(content)
    except SpecError as error:
        raise BackendUnreachable(say("host.unreadable"), why=str(error)) from error


def _decode_swept(content: bytes) -> Swept:
    return decode(content, Swept)


def _read_log_line(line: str) -> LogChunk:
    """One line of a log's answer: a piece, or the error that ended it."""
    try:
        broken = msgspec.json.decode(line, type=dict[str, Any]).get("error")
        if isinstance(broken, str):
            raise decode_error(broken.encode())
        return decode(line.encode(), LogChunk)
    except (msgspec.DecodeError, SpecError) as error:
        raise BackendUnreachable(say("host.log_unreadable"), why=str(error)) from error

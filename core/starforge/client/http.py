"""The console's API over HTTP: one request, its credential, its retries, its typed errors."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import IO, TYPE_CHECKING, Final, Self
from urllib.parse import urlsplit

import httpx2

import starforge
from starforge.client.problems import read_error
from starforge.contract.addresses import is_loopback
from starforge.contract.api import API_PREFIX, CLIENT_PRODUCT
from starforge.errors import BackendUnreachable, Busy, InputError, Unavailable

if TYPE_CHECKING:
    import ssl

Body = bytes | Iterator[bytes]

_FIRST_PAUSE_S: Final = 0.25
_MAX_PAUSE_S: Final = 8.0
_TIMEOUT_S: Final = 30.0
_CONNECT_S: Final = 10.0
_NO_SUCCESS: Final = 300
_PARTIAL_CONTENT: Final = 206
_DOWNLOAD_TRIES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call. `repeatable`: the server answers a repeat as it answered the first, `tries` times at most.

    `renew` gives the call for the next try, where that depends on what the server has by then.
    """

    method: str
    path: str
    query: Mapping[str, str | int | Sequence[str]] = field(default_factory=dict)
    json: object = None
    body: Callable[[], Body] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    tries: int = 4
    wait_s: float = 0.0
    renew: "Callable[[], Request] | None" = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A successful answer; the names in `headers` are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Tag:
    """Which content of a file a download is of; `keep` is told of it once it is known."""

    def __init__(self, value: str | None = None, keep: Callable[[str], object] = str) -> None:
        self.value = value
        self._keep = keep

    def note(self, value: str | None) -> None:
        """Take what an answer said."""
        if value is not None and value != self.value:
            self.value = value
            self._keep(value)


class Connection:
    """Speaks to one server; `close` it at the end."""

    def __init__(self, server: str, token: str | None, *, pause: Callable[[float], object] = time.sleep) -> None:
        self.server = parse_server(server)
        self._token = token
        self._pause = pause
        headers = {"User-Agent": f"{CLIENT_PRODUCT}/{starforge.__version__}", "Accept": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        self._client = httpx2.Client(
            base_url=self.server + API_PREFIX,
            headers=headers,
            timeout=httpx2.Timeout(_TIMEOUT_S, connect=_CONNECT_S),
            trust_env=not _is_this_machine(self.server),
            verify=_choose_authorities(self.server),
            follow_redirects=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def make_twin(self) -> "Connection":
        """Another connection to the same server with the same credential, to be closed by whoever uses it."""
        return Connection(self.server, self._token, pause=self._pause)

    def close(self) -> None:
        """Give the connections back; only for the thread that uses them."""
        self._client.close()

    def send(self, request: Request) -> Reply:
        """The answer to `request`; what is repeatable is repeated while the server is busy or away.

        Raises:
            StarForgeError: the answer is no success, typed by what to do; BackendUnreachable when none came.

        """
        tries = request.tries if request.repeatable else 1
        for turn in range(1, tries):
            try:
                return self.send_once(request)
            except Unavailable as error:
                self._pause(_pause_s(error, turn))
                request = request.renew() if request.renew else request
        return self.send_once(request)

    def send_once(self, request: Request) -> Reply:
        """As `send`, without repeating."""
        timeout = httpx2.Timeout(_TIMEOUT_S + request.wait_s, connect=_CONNECT_S)
        with self._telling_of_silence():
            response = self._client.request(
                request.method,
                request.path,
                params=dict(request.query),
                json=request.json,
                content=request.body() if request.body else None,
                headers=dict(request.headers),
                timeout=timeout,
            )
        headers = {name.lower(): value for name, value in response.headers.items()}
        if response.status_code >= _NO_SUCCESS:
            raise read_error(response.status_code, headers, response.content)
        return Reply(response.status_code, headers, response.content)

    def download(
        self, path: str, file: IO[bytes], progress: Callable[[int], object], *, tag: "Tag | None" = None
    ) -> None:
        """Write what lies at `path` into `file` from its place on; after a cut it goes on where it was.

        With a tag a file that has changed since begins anew, and `progress` is told what was taken back.

        Raises:
            StarForgeError: as `send` does.

        """
        for turn in range(1, _DOWNLOAD_TRIES):
            try:
                return self._download_once(path, file, progress, tag or Tag())
            except Unavailable as error:
                self._pause(_pause_s(error, turn))
        return self._download_once(path, file, progress, tag or Tag())

    def _download_once(self, path: str, file: IO[bytes], progress: Callable[[int], object], tag: "Tag") -> None:
        start = file.tell()
        headers = {"Accept": "*/*", **({"Range": f"bytes={start}-"} if start else {})}
        headers |= {"If-Range": tag.value} if start and tag.value is not None else {}
        with self._telling_of_silence(), self._client.stream("GET", path, headers=headers) as response:
            if response.status_code >= _NO_SUCCESS:
                told = {name.lower(): value for name, value in response.headers.items()}
                raise read_error(response.status_code, told, response.read())
            if start and response.status_code != _PARTIAL_CONTENT:
                file.seek(0)
                file.truncate()
                progress(-start)
            tag.note(response.headers.get("etag"))
            for piece in response.iter_bytes():
                file.write(piece)
                progress(len(piece))

    @contextlib.contextmanager
    def _telling_of_silence(self) -> Iterator[None]:
        """Raises BackendUnreachable for whatever means that no answer came."""
        try:
            yield
        except httpx2.TransportError as error:
            raise BackendUnreachable(
                f"no answer from {self.server}",
                why=_describe(error),
                next_step="check that the console runs and that the address is right",
            ) from error
        except RuntimeError as error:  # what a closed client raises
            raise BackendUnreachable(
                f"the connection to {self.server} was closed", next_step="run the command again"
            ) from error


def parse_server(text: str) -> str:
    """A server's address without a slash at the end.

    Raises:
        InputError: it is no http or https address, or carries a password, a path with a query, or a fragment.

    """
    parts = urlsplit(text.strip())
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InputError(f"{text!r} is no server's address", next_step="write it as https://forge.example.org")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise InputError("the server's address holds more than host, port and path", next_step="leave the rest out")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def is_readable_on_the_way(server: str) -> bool:
    """Whether others can read what is sent to the server at this address."""
    return server.startswith("http://") and not _is_this_machine(server)


def _choose_authorities(server: str) -> "ssl.SSLContext | bool":
    """Whom to believe about a certificate: `SSL_CERT_FILE` also where nothing else of the environment counts.

    Reading every authority's certificate takes longer than a call, and plain HTTP asks for none.
    """
    if not server.startswith("https://"):
        return False
    own = os.environ.get("SSL_CERT_FILE")
    if not own or not _is_this_machine(server):
        return True
    import ssl  # noqa: PLC0415 - most servers are asked without it

    return ssl.create_default_context(cafile=own)


def _is_this_machine(server: str) -> bool:
    """Such a server is never asked through a proxy."""
    return is_loopback(urlsplit(server).hostname or "")


def _pause_s(error: Unavailable, turn: int) -> float:
    if isinstance(error, Busy):
        return error.retry_after_s
    return min(_FIRST_PAUSE_S * 2.0 ** (turn - 1), _MAX_PAUSE_S)


def _describe(error: Exception) -> str:
    text = str(error)
    return text or type(error).__name__

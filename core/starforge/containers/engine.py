"""One Docker engine over its HTTP API on a Unix socket: typed calls, one connection each, a time-out on every read.

Silence, a refused or a cut connection is BackendUnreachable: whether the call took effect is then not known. An answer
other than success is EngineError with the engine's own words.
"""

import base64
import http.client
import json
import re
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal, TypeAlias, cast
from urllib.parse import quote, urlencode

from starforge.contract.launch import RegistryLogin
from starforge.errors import BackendUnreachable, Unavailable
from starforge.wording import cut_middle

Document: TypeAlias = dict[str, Any]
"""A JSON object as the engine sends it; its members are named in the engine's API reference."""

KNOWN_API: Final = (1, 41)
OLDEST_API: Final = (1, 40)
_READ_TIMEOUT_S: Final = 15.0
_START_TIMEOUT_S: Final = 60.0
_FRAME_HEADER_BYTES: Final = 8
_LONGEST_MESSAGE: Final = 8192
_PEER: Final = struct.Struct("iII")
_OTHER_API: Final = re.compile(r"client version \S+ is too (?:old|new)")
_MUTE: Final = (OSError, http.client.HTTPException)


class EngineError(Unavailable):
    """The engine answered, and the answer is an error: `status` and its own `message`.

    Of a message beyond 8192 characters the middle is left out: a registry's answer may stand in it, of any length.
    """

    code = "engine_error"

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        self.message = cut_middle(message, _LONGEST_MESSAGE)
        super().__init__(f"the engine answered {status}: {self.message}")


class _Connection(http.client.HTTPConnection):
    def __init__(self, socket_path: str, timeout_s: float | None) -> None:
        super().__init__("engine", timeout=timeout_s)
        self._socket_path = socket_path

    def connect(self) -> None:
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.settimeout(self.timeout)
            sock.connect(self._socket_path)
        except BaseException:
            sock.close()
            raise
        self.sock = sock


class Stream:
    """JSON lines that arrive as things happen. `close` may be called from another thread and ends the iteration."""

    def __init__(self, connection: _Connection, method: str, path: str, headers: Mapping[str, str]) -> None:
        self._connection = connection
        self._request = (method, path, headers)
        self._sock = connection.sock  # the response keeps it open when the connection lets go of it
        self._response: http.client.HTTPResponse | None = None
        self._closed = False

    def open(self) -> None:
        """Ask, and wait until the engine begins to answer. Iterating does it too."""
        method, path, headers = self._request
        with _asking(path):
            self._response = _ask(self._connection, method, path, None, headers)

    def set_timeout(self, timeout_s: float | None) -> None:
        """Wait at most so long for the next line."""
        self._sock.settimeout(timeout_s)

    def __iter__(self) -> Iterator[Document]:
        if self._response is None:
            self.open()
        while line := self._read_line():
            try:
                yield cast("Document", json.loads(line))
            except ValueError as error:
                raise BackendUnreachable("the engine's stream broke off", why=f"{line[:200]!r} is no JSON") from error

    def close(self) -> None:
        """End the stream, and with it what the engine does for it alone (a pull)."""
        self._closed = True
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:  # the other side has closed already
            return

    def release(self) -> None:
        """Give the connection back; only by the thread that iterates."""
        if self._response is not None:
            self._response.close()
        self._connection.close()
        self._sock.close()

    def _read_line(self) -> bytes:
        if self._response is None:
            return b""
        try:
            return self._response.readline()
        except TimeoutError as error:
            raise BackendUnreachable("the engine's stream has gone silent") from error
        except (*_MUTE, ValueError) as error:
            if self._closed:
                return b""
            raise BackendUnreachable("the engine's stream was cut", why=_say(error)) from error


class Engine:
    """The engine behind `socket_path`. Safe to use from several threads: calls share nothing but the API version."""

    def __init__(self, socket_path: str, read_timeout_s: float = _READ_TIMEOUT_S) -> None:
        """`read_timeout_s` is how long any answer may take that the engine has no reason to delay."""
        self.socket_path = socket_path
        self._read_timeout_s = read_timeout_s
        self._version: str | None = None

    def ping(self) -> None:
        """Return when the engine answers."""
        self._text("GET", "/_ping", versioned=False)

    def version(self) -> Document:
        """Versions of the engine and of the API that it speaks."""
        return self._json("GET", "/version", versioned=False)

    def info(self) -> Document:
        """The engine's view of its machine: ID, DockerRootDir, NCPU, MemTotal, Architecture."""
        return self._json("GET", "/info")

    def create(self, name: str, body: Mapping[str, object]) -> Document:
        """Make a container without starting it: Id and Warnings."""
        return self._json("POST", "/containers/create?" + urlencode({"name": name}), body)

    def start(self, container: str) -> None:
        """Start it; one that runs already stays as it is. An exited one would run again: never call it for those."""
        self._text("POST", f"/containers/{container}/start", timeout_s=_START_TIMEOUT_S)

    def list_containers(self, *labels: str) -> list[Document]:
        """Every container, ended ones too, that carries all of `labels` (`name` or `name=value`)."""
        query = urlencode({"all": "1", "filters": json.dumps({"label": labels})})
        return cast("list[Document]", self._decode(self._text("GET", "/containers/json?" + query)))

    def inspect(self, container: str, timeout_s: float | None = None) -> Document:
        """State, Config and HostConfig of one container; `timeout_s` is how long that may take, where it matters."""
        path = f"/containers/{container}/json"
        return cast("Document", self._decode(self._text("GET", path, timeout_s=timeout_s)))

    def kill(self, container: str, signal: str) -> None:
        """Send a signal to the container's first process."""
        self._text("POST", f"/containers/{container}/kill?" + urlencode({"signal": signal}))

    def stop(self, container: str, timeout_s: float) -> None:
        """TERM, and KILL after `timeout_s`; returns when it has ended.

        The engine goes on when the caller leaves; a second, shorter stop overtakes the first.
        """
        whole_s = max(0, round(timeout_s))
        path = f"/containers/{container}/stop?t={whole_s}"
        self._text("POST", path, timeout_s=whole_s + _START_TIMEOUT_S)

    def remove(self, container: str, *, force: bool = False) -> None:
        """Remove it with its anonymous volumes; a running one only with `force`, which kills it."""
        query = urlencode({"v": "1", "force": str(force).lower()})
        self._text("DELETE", f"/containers/{container}?{query}", timeout_s=_START_TIMEOUT_S)

    def logs(self, container: str, since: str) -> Iterator[tuple[Literal["stdout", "stderr"], bytes]]:
        """Lines that the engine kept of the container's output, each behind its time, from `since` (Unix time) on."""
        query = urlencode({"stdout": "1", "stderr": "1", "timestamps": "1", "since": since})
        with self._open("GET", f"/containers/{container}/logs?{query}") as response:
            while len(header := response.read(_FRAME_HEADER_BYTES)) == _FRAME_HEADER_BYTES:
                stream, size = header[0], int.from_bytes(header[4:], "big")
                yield ("stderr" if stream == 2 else "stdout"), response.read(size)  # noqa: PLR2004 - the API's number

    def list_images(self) -> list[Document]:
        """Every image that is present: Id, RepoTags and Size."""
        return cast("list[Document]", self._decode(self._text("GET", "/images/json")))

    def inspect_image(self, image: str) -> Document:
        """Id, RepoDigests and Architecture of an image that is present."""
        return self._json("GET", f"/images/{quote(image, safe='/:@')}/json")

    def pull(self, repository: str, tag: str, login: RegistryLogin | None, timeout_s: float) -> Stream:
        """Fetch `repository` at `tag` (or digest) as the stream is read. The pull lives as long as the stream does."""
        headers = {} if login is None else {"X-Registry-Auth": _build_auth(repository, login)}
        path = "/images/create?" + urlencode({"fromImage": repository, "tag": tag})
        return self._connect_stream("POST", path, headers, timeout_s)

    def events(self, *labels: str) -> Stream:
        """What happens to containers with all of `labels`, from now on. Idle streams are silent without an end."""
        filters = json.dumps({"type": ["container"], "label": labels})
        path = "/events?" + urlencode({"filters": filters})
        stream = self._connect_stream("GET", path, {}, self._read_timeout_s)
        try:
            stream.open()
        except BaseException:
            stream.release()
            raise
        stream.set_timeout(None)
        return stream

    def find_listener(self) -> int | None:
        """The process that listens at the socket: the engine, or whoever opened the socket for it."""
        try:
            with socket.socket(socket.AF_UNIX) as peer:
                peer.settimeout(self._read_timeout_s)
                peer.connect(self.socket_path)
                pid, _uid, _gid = _PEER.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
        except OSError:
            return None
        return int(pid) or None

    def _json(self, method: str, path: str, body: Mapping[str, object] | None = None, **options: bool) -> Document:
        return cast("Document", self._decode(self._text(method, path, body, **options)))

    @staticmethod
    def _decode(content: bytes) -> object:
        try:
            return json.loads(content)
        except ValueError as error:
            raise BackendUnreachable("the engine's answer cannot be read", why=f"{content[:200]!r}") from error

    def _text(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        versioned: bool = True,
        timeout_s: float | None = None,
    ) -> bytes:
        prefix = self._find_prefix() if versioned else ""
        connection = _Connection(self.socket_path, self._read_timeout_s if timeout_s is None else timeout_s)
        try:
            with _asking(path):
                response = _ask(connection, method, prefix + path, body)
                try:
                    return response.read()
                finally:
                    connection.close()
        except EngineError as error:
            if not _OTHER_API.search(error.message):
                raise
            self._version = None  # another engine answers behind this socket now: ask it what it speaks
            raise BackendUnreachable("the engine speaks another API than before", why=error.message) from error

    @contextmanager
    def _open(self, method: str, path: str) -> Iterator[http.client.HTTPResponse]:
        prefix = self._find_prefix()
        connection = _Connection(self.socket_path, self._read_timeout_s)
        with _asking(path):
            try:
                yield _ask(connection, method, prefix + path, None)
            finally:
                connection.close()

    def _connect_stream(self, method: str, path: str, headers: Mapping[str, str], timeout_s: float) -> Stream:
        prefix = self._find_prefix()
        connection = _Connection(self.socket_path, timeout_s)
        with _asking(path):
            connection.connect()
        return Stream(connection, method, prefix + path, headers)

    def _find_prefix(self) -> str:
        if self._version is None:
            described = self.version()
            newest, oldest = str(described.get("ApiVersion", "")), str(described.get("MinAPIVersion", "1.0"))
            self._version = choose_version(newest, oldest)
        return "/v" + self._version


@contextmanager
def _asking(path: str) -> Iterator[None]:
    try:
        yield
    except _MUTE as error:
        raise BackendUnreachable(
            f"the engine did not answer {path.partition('?')[0]}",
            why=_say(error),
            next_step="look whether dockerd runs and whether its socket may be used",
        ) from error


def _ask(
    connection: _Connection,
    method: str,
    path: str,
    body: Mapping[str, object] | None,
    headers: Mapping[str, str] | None = None,
) -> http.client.HTTPResponse:
    content = None if body is None else json.dumps(body).encode()
    given = dict(headers or {}) | ({"Content-Type": "application/json"} if content is not None else {})
    try:
        connection.request(method, path, content, given)
        response = connection.getresponse()
        if response.status < http.client.BAD_REQUEST:
            return response
        message = _read_message(response.read())
    except BaseException:
        connection.close()
        raise
    connection.close()
    raise EngineError(response.status, message)


def _read_message(content: bytes) -> str:
    try:
        return str(json.loads(content)["message"]).strip()
    except (ValueError, KeyError, TypeError):
        return content.decode(errors="replace").strip()


def choose_version(newest: str, oldest: str) -> str:
    """The API version to speak with an engine that speaks `oldest` to `newest`: the known one, or its nearest."""
    try:
        ceiling, floor = (tuple(int(part) for part in text.split(".")) for text in (newest, oldest))
    except ValueError as error:
        raise EngineError(0, f"{newest!r} is no API version: this is no Docker engine") from error
    if ceiling < OLDEST_API:
        raise EngineError(0, f"the engine speaks API {newest}; 1.40 (Docker 19.03) is the oldest that is understood")
    return ".".join(str(part) for part in max(min(ceiling, KNOWN_API), floor))


def _build_auth(repository: str, login: RegistryLogin) -> str:
    server = repository.split("/", 1)[0]
    document: Sequence[tuple[str, str]] = (
        ("username", login.username),
        ("password", login.password.reveal()),
        ("serveraddress", server),
    )
    return base64.urlsafe_b64encode(json.dumps(dict(document)).encode()).decode()


def _say(error: BaseException) -> str:
    return str(error) or type(error).__name__

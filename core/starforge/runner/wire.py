"""One HTTP exchange with ingest: a kept connection, bounded in time, and what the answer means."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any, Dict, Optional
from urllib.parse import urlsplit

from starforge.contract.capsule import INGEST_PREFIX, Ingest

_TIMEOUT_S = 10.0
_ANSWER_BYTES = 64 << 10


class NoTransport(Exception):
    """This Python or this address allows no connection at all; trying again is of no use."""


class Unreachable(Exception):
    """No whole answer came; trying again later is of use."""


@dataclass(frozen=True)
class Answer:
    """What ingest said: the status, the JSON object (empty when there was none) and Retry-After in seconds."""

    status: int
    document: Dict[str, Any]
    retry_after_s: Optional[float]


class Wire:
    """Posts to one ingest address. Not for several threads."""

    def __init__(self, ingest: Ingest, token: str) -> None:
        """Raises NoTransport when the address needs TLS and this Python has none, or when it is no address."""
        parts = urlsplit(ingest.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise NoTransport(f"the ingest address {ingest.url!r} is neither http:// nor https://")
        self._path = parts.path.rstrip("/") + INGEST_PREFIX
        self._headers = {"Authorization": f"Bearer {token}"}
        if parts.scheme == "https":
            self._connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=_TIMEOUT_S, context=_build_tls(ingest.ca_pem)
            )
        else:
            self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=_TIMEOUT_S)

    def post(self, path: str, body: bytes, headers: Optional[Dict[str, str]] = None) -> Answer:
        """Send one request. Raises Unreachable for anything but a whole answer."""
        try:
            self._connection.request("POST", self._path + path, body, {**self._headers, **(headers or {})})
            response = self._connection.getresponse()
            content = response.read(_ANSWER_BYTES)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._connection.close()
            raise Unreachable(f"{type(error).__name__}: {error}") from error
        if not response.isclosed():
            self._connection.close()
        return Answer(response.status, _read_object(content), _read_seconds(response.getheader("Retry-After")))

    def close(self) -> None:
        """Close the connection; the next `post` would open it again."""
        self._connection.close()


def _build_tls(ca_pem: Optional[str]) -> Any:  # noqa: ANN401 - an ssl.SSLContext, where there is such a module
    try:
        import ssl  # noqa: PLC0415 - a minimal Python may lack it
    except ImportError as error:
        raise NoTransport(f"the image's Python has no TLS ({error})") from error
    context = ssl.create_default_context()
    if ca_pem:
        try:
            context.load_verify_locations(cadata=ca_pem)
        except (ssl.SSLError, ValueError) as error:
            raise NoTransport(f"the capsule's certificate authority cannot be read ({error})") from error
    return context


def _read_object(content: bytes) -> Dict[str, Any]:
    try:
        document = json.loads(content) if content else {}
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _read_seconds(text: Optional[str]) -> Optional[float]:
    try:
        return max(0.0, float(text)) if text else None
    except ValueError:
        return None  # a date; the usual back-off serves as well

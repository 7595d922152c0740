"""A process that speaks to a machine's port as anybody in its network could: what tests themselves may not do.

Reads one order as JSON on standard input and writes what it heard as JSON: status and body of an answer, or nothing.
"""

import contextlib
import http.client
import json
import socket
import ssl
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

_ANSWER_S: Final = 20.0


def main() -> None:
    """Carry out the order."""
    order = json.load(sys.stdin)
    json.dump(_ORDERS[order.pop("do")](**order), sys.stdout)


def ask(address: list[Any], method: str, path: str, key: str | None, headers: dict[str, str]) -> list[Any]:
    """One request over TLS, with the key and certificate in the file `key` if there is one."""
    host, port = address
    context = _trust_anybody()
    if key is not None:
        context.load_cert_chain(key)
    connection = http.client.HTTPSConnection(host, port, timeout=_ANSWER_S, context=context)
    with contextlib.closing(connection):
        try:
            connection.request(method, path, b"{}" if method == "POST" else None, headers)
            answer = connection.getresponse()
            return [answer.status, dict(answer.getheaders()), answer.read(4096).decode()]
        except (ssl.SSLError, ConnectionError, http.client.RemoteDisconnected):
            return []


def speak_plainly(address: list[Any]) -> str:
    """What comes back of a request without TLS, as hexadecimal digits."""
    heard = b""
    with socket.create_connection(tuple(address), timeout=_ANSWER_S) as sock:
        sock.sendall(b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            while piece := sock.recv(4096):
                heard += piece
    return heard.hex()


def show_certificate(address: list[Any]) -> str:
    """The certificate that is shown to whoever connects, as hexadecimal digits."""
    with (
        socket.create_connection(tuple(address), timeout=_ANSWER_S) as sock,
        _trust_anybody().wrap_socket(sock) as line,
    ):
        return (line.getpeercert(binary_form=True) or b"").hex()


def _trust_anybody() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


_ORDERS: Final[Mapping[str, Callable[..., object]]] = {
    "ask": ask,
    "plain": speak_plainly,
    "certificate": show_certificate,
}

if __name__ == "__main__":
    main()

"""TLS contexts in which each side lets in exactly one certificate, the other's, whatever the clocks say.

Standard library alone. Python has no name for two things that OpenSSL does: see the constants.
"""

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self

_NO_CHECK_TIME: Final = ssl.VerifyFlags(0x200000)
"""X509_V_FLAG_NO_CHECK_TIME of OpenSSL: the certificate is pinned, so its dates say nothing, and clocks err."""


def build_server_context(own: Path, peer: str) -> ssl.SSLContext:
    """A context that presents the key and certificate in `own` and lets in the PEM certificate `peer` alone.

    Raises:
        OSError: `own` cannot be read (ssl.SSLError: it holds no pair, or `peer` is no certificate).

    """
    context = _build(ssl.PROTOCOL_TLS_SERVER, own, peer)
    context.num_tickets = 0  # every connection proves its certificate
    return context


def build_client_context(own: Path, peer: str) -> ssl.SSLContext:
    """The same for the side that connects; the address is not compared, for the pin says more. Raises as above."""
    return _build(ssl.PROTOCOL_TLS_CLIENT, own, peer)


class LiveContext(ssl.SSLContext):
    """A server's context that is built anew for each connection whenever `load` gives another one.

    A context only ever learns certificates and forgets none, so a join that renews them needs a new one; servers take
    their context once and ask it to wrap each connection.
    """

    def __new__(cls, load: Callable[[], ssl.SSLContext]) -> Self:
        """`load` gives the context of the moment."""
        context = super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)
        context._load = load
        return context

    def __init__(self, load: Callable[[], ssl.SSLContext]) -> None:
        self._load = load

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:  # noqa: ANN401 - passed on
        """One connection, in the context of the moment."""
        return self._load().wrap_bio(*arguments, **options)


def _build(protocol: int, own: Path, peer: str) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(own)
    context.load_verify_locations(cadata=peer)
    context.verify_flags |= _NO_CHECK_TIME
    return context

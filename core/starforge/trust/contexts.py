"""TLS contexts in which each side lets in exactly one certificate, the other's, whatever the clocks say.

Standard library alone. Python has no name for two things that OpenSSL does: see the constants.
"""

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

_NO_CHECK_TIME: Final = ssl.VerifyFlags(0x200000)
"""X509_V_FLAG_NO_CHECK_TIME of OpenSSL: the certificate is pinned, so its dates say nothing, and clocks err."""


def build_server_context(own: Path, peer: str, refused: Callable[[str], None] | None = None) -> ssl.SSLContext:
    """A context that presents the key and certificate in `own` and lets in the PEM certificate `peer` alone.

    `refused` is told why somebody was not let in: in TLS 1.3 the caller learns nothing, and event loops say nothing.

    Raises:
        OSError: `own` cannot be read (ssl.SSLError: it holds no pair, or `peer` is no certificate).

    """
    context = _build(ssl.PROTOCOL_TLS_SERVER, own, peer)
    context.num_tickets = 0  # every connection proves its certificate
    if refused is not None:
        context.sslobject_class = _build_telling(refused)
    return context


def build_client_context(own: Path, peer: str) -> ssl.SSLContext:
    """The same for the side that connects; the address is not compared, for the pin says more. Raises as above."""
    return _build(ssl.PROTOCOL_TLS_CLIENT, own, peer)


def _build_telling(refused: Callable[[str], None]) -> type[ssl.SSLObject]:
    class Telling(ssl.SSLObject):
        def do_handshake(self) -> None:
            try:
                super().do_handshake()
            except ssl.SSLWantReadError:
                raise
            except ssl.SSLError as error:
                refused(" ".join(filter(None, (error.reason, getattr(error, "verify_message", "")))))
                raise

    return Telling


def _build(protocol: int, own: Path, peer: str) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(own)
    context.load_verify_locations(cadata=peer)
    context.verify_flags |= _NO_CHECK_TIME
    return context

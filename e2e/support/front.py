"""A TLS front before a test's console, with a certificate that a private CA signed."""

import asyncio
import contextlib
import datetime as dt
import ipaddress
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY: Final = dt.timedelta(days=1)
_PIECE: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Front:
    """`port` speaks TLS, and whoever trusts `ca_file` trusts it."""

    port: int
    ca_file: Path


@contextlib.contextmanager
def tls_front(address: str, target_port: int, folder: Path) -> Iterator[Front]:
    """A front at `address` that passes everything on to `target_port` of this host."""
    folder.mkdir(parents=True, exist_ok=True)
    ca_file, chain = folder / "ca.pem", folder / "front.pem"
    write_certificates(address, ca_file, chain)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    door = _Door(address, target_port, context)
    thread = threading.Thread(target=lambda: asyncio.run(door.serve()), name="tls front", daemon=True)
    thread.start()
    if not door.ready.wait(20):
        raise TimeoutError("the TLS front did not start")
    try:
        yield Front(door.port, ca_file)
    finally:
        door.close()
        thread.join(20)


class _Door:
    """The loop of a front, in a thread of its own."""

    def __init__(self, address: str, target_port: int, context: ssl.SSLContext) -> None:
        self.ready = threading.Event()
        self.port = 0
        self._place = (address, target_port, context)
        self._end: Callable[[], object] = lambda: None

    async def serve(self) -> None:
        """Until `close`; what is under way then is cut."""
        address, target_port, context = self._place
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(partial(_pass_on, target_port), address, 0, ssl=context)
        self.port = int(server.sockets[0].getsockname()[1])
        self._end = partial(loop.call_soon_threadsafe, stop.set)
        self.ready.set()
        await stop.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)  # an aborted transport is closed in the loop's next turn

    def close(self) -> None:
        """End it; from any thread."""
        self._end()


async def _pass_on(target_port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    ends = [writer]
    try:
        to_read, to_write = await asyncio.open_connection("127.0.0.1", target_port)
        ends.append(to_write)
        tasks = [asyncio.create_task(_copy(reader, to_write)), asyncio.create_task(_copy(to_read, writer))]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for end in ends:
            end.close()
        await asyncio.gather(*(end.wait_closed() for end in ends), return_exceptions=True)
    except OSError:
        return
    finally:
        for end in ends:  # also when the front itself ends in the middle
            end.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(_PIECE):
        writer.write(piece)
        await writer.drain()


def write_certificates(address: str, ca_file: Path, chain: Path) -> None:
    """A private CA, and in `chain` a key with the certificate that it signed for `address`."""
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test CA")])
    now = dt.datetime.now(dt.UTC)
    identifier = x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key())
    usage = x509.KeyUsage(*(name in {"digital_signature", "key_cert_sign", "crl_sign"} for name in _USES))
    ca = (
        x509.CertificateBuilder(
            ca_name, ca_name, ca_key.public_key(), x509.random_serial_number(), now - _DAY, now + _DAY
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(identifier, critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "console")])
    own = (
        x509.CertificateBuilder(ca_name, name, key.public_key(), x509.random_serial_number(), now - _DAY, now + _DAY)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    ca_file.write_bytes(ca.public_bytes(pem))
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    chain.write_bytes(private + own.public_bytes(pem))


_USES: Final = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)

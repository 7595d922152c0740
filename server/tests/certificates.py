"""Certificates of tests: each made for the names that a test says, and trusted by whoever trusts its file."""

import datetime as dt
from functools import cache
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY: Final = dt.timedelta(days=1)


@cache
def make_certificate(*hosts: str) -> bytes:
    """A key and a certificate for `hosts`, which is its own authority, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "made by a test")])
    now = dt.datetime.now(dt.UTC)
    names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - _DAY, now + _DAY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    private: Any = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    return bytes(private + certificate.public_bytes(pem))

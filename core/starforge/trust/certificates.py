"""Makes the key and the self-signed certificate of one side. Only joining, and a console's first start, need this."""

import datetime as dt
from dataclasses import dataclass, field
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import NameOID

from starforge.errors import SpecError

_LIFE: Final = dt.timedelta(days=36500)
"""Nobody checks the dates: the other side trusts exactly this certificate, until one of them joins again."""
_BEFORE: Final = dt.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Identity:
    """A private key and its certificate, as PEM in one text: one file holds both, so that they change together."""

    pem: str = field(repr=False)

    @property
    def certificate(self) -> str:
        """The certificate alone, as PEM."""
        return self.pem[self.pem.index("-----BEGIN CERTIFICATE-----") :]


def make_identity(name: str) -> Identity:
    """A new Ed25519 key with a certificate for `name` (letters, digits, dots and dashes; 64 at most)."""
    key = Ed25519PrivateKey.generate()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(now + _LIFE)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, None)
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Identity((private + certificate.public_bytes(serialization.Encoding.PEM)).decode("ascii"))


def load_public_key(certificate: str) -> bytes:
    """The Ed25519 public key (32 bytes) in the PEM `certificate`.

    Raises:
        SpecError: it is no certificate, or one of another kind of key, or there is more in the text: what reads the
            same text later, such as OpenSSL, might stumble over that, or trust it.

    """
    try:
        found = x509.load_pem_x509_certificate(certificate.encode())
        key = found.public_key()
    except (ValueError, x509.InvalidVersion) as error:
        raise SpecError("the certificate cannot be read", why=str(error), next_step="join again") from error
    if found.public_bytes(serialization.Encoding.PEM).decode("ascii").strip() != certificate.strip():
        raise SpecError(
            "the certificate cannot be used",
            why="the text holds more than one certificate as PEM",
            next_step="join with this release's forgelet",
        )
    if not isinstance(key, Ed25519PublicKey):
        raise SpecError("the certificate's key is not an Ed25519 key", next_step="join with this release's forgelet")
    return key.public_bytes_raw()

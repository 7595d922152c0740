"""Signs with a node's key and checks what it signed."""

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from starforge.errors import ProjectError


class Signer:
    """Signs with one private key."""

    def __init__(self, pem: str) -> None:
        """`pem` holds the private key. Raises ProjectError when it does not."""
        try:
            key = load_pem_private_key(pem.encode(), None)
        except (ValueError, TypeError) as error:
            raise ProjectError("the node's key cannot be read", next_step="join again") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise ProjectError("the node's key is not an Ed25519 key", next_step="join again")
        self._key = key

    def sign(self, message: bytes) -> bytes:
        """64 bytes."""
        return self._key.sign(message)


def is_signed(public_key: bytes, signature: bytes, message: bytes) -> bool:
    """Whether `signature` over `message` was made with the private key of `public_key` (32 bytes)."""
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True

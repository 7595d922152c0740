"""What nodes sign, and whether they did: the key is that of the certificate which the node joined with."""

import base64
import binascii
from dataclasses import dataclass
from typing import Final

from starforge.contract.registration import REJOIN_PURPOSE, JoinRequest, signed_bytes
from starforge_console.errors import NotTheNode
from starforge_console.ledger.nodes import NodeRow

_KEYS_AT_MOST: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedBody:
    """A body as it was sent, and what came in its headers. `signature` is not checked yet."""

    epoch: int
    counter: int
    signature: bytes
    body: bytes


class Proofs:
    """Checks signatures for one install."""

    def __init__(self, install: str) -> None:
        self._install = install
        self._keys: dict[str, bytes] = {}

    def require(self, row: NodeRow, purpose: bytes, signed: SignedBody) -> None:
        """Raises NotTheNode unless `signed` was signed with the key of the node's present certificate."""
        numbers = (signed.epoch, signed.counter)
        message = signed_bytes(purpose, self._install, row.name, numbers, signed.body)
        if not row.certificate or not self._is_signed(row.certificate, signed.signature, message):
            raise NotTheNode(
                f"the signature is not that of node {row.name}",
                why="the machine joined again with another key, or this is another machine",
                next_step="run 'forgelet join' on the machine again",
            )

    def is_rejoin(self, row: NodeRow, request: JoinRequest) -> bool:
        """Whether the machine that asks holds the key which the node last signed with."""
        try:
            signature = base64.b64decode(request.rejoin_proof or "", validate=True)
        except (binascii.Error, ValueError):
            return False
        message = signed_bytes(REJOIN_PURPOSE, self._install, row.name, (0, 0), request.certificate.encode())
        known = filter(None, (row.certificate, row.previous_certificate))
        return any(self._is_signed(certificate, signature, message) for certificate in known)

    def _is_signed(self, certificate: str, signature: bytes, message: bytes) -> bool:
        from starforge.trust.signatures import is_signed  # noqa: PLC0415 - of use only where nodes are

        return is_signed(self._load_key(certificate), signature, message)

    def _load_key(self, certificate: str) -> bytes:
        from starforge.trust.certificates import load_public_key  # noqa: PLC0415 - the same

        key = self._keys.get(certificate)
        if key is None:
            if len(self._keys) >= _KEYS_AT_MOST:
                self._keys.clear()
            key = self._keys[certificate] = load_public_key(certificate)
        return key

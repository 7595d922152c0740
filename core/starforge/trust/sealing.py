"""Seals values that are kept on a disk: AES-256 in GCM, each bound to the one thing that it was sealed for."""

import os
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_FORM: Final = b"\x01"
"""The first byte of everything sealed, so that a later form can be told from this one."""
_NONCE_BYTES: Final = 12


class NotOpened(ValueError):
    """This key does not open it: it was sealed with another one, for something else, or it was changed since."""


def seal(key: bytes, value: bytes, bound_to: str) -> bytes:
    """`value`, which only `key` (32 bytes) opens, and only as what belongs to `bound_to`; other bytes each time."""
    nonce = os.urandom(_NONCE_BYTES)
    return _FORM + nonce + AESGCM(key).encrypt(nonce, value, bound_to.encode())


def unseal(key: bytes, sealed: bytes, bound_to: str) -> bytes:
    """What was sealed. Raises NotOpened."""
    nonce = sealed[len(_FORM) : len(_FORM) + _NONCE_BYTES]
    if not sealed.startswith(_FORM) or len(nonce) < _NONCE_BYTES:
        raise NotOpened("these bytes were not sealed here")
    try:
        return AESGCM(key).decrypt(nonce, sealed[len(_FORM) + _NONCE_BYTES :], bound_to.encode())
    except InvalidTag as error:
        raise NotOpened("this key does not open it") from error

"""Seals values that are kept on a disk: AES-256 in GCM, each bound to the one thing that it was sealed for."""

import hashlib
import os
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_FORM: Final = b"\x02"
"""The first byte of everything sealed, so that one form can be told from another."""
_FORM_WITHOUT_KEY_ID: Final = b"\x01"
_KEY_ID_BYTES: Final = 8
_NONCE_BYTES: Final = 12


class NotOpened(ValueError):
    """This key does not open it: it was sealed with another one, for something else, or it was changed since."""


def build_head(key: bytes) -> bytes:
    """How everything begins that is sealed with `key` (32 bytes); it tells keys apart and says nothing of them."""
    return _FORM + hashlib.sha256(b"starforge: which key this is" + key).digest()[:_KEY_ID_BYTES]


def seal(key: bytes, value: bytes, bound_to: str) -> bytes:
    """`value`, which only `key` (32 bytes) opens, and only as what belongs to `bound_to`; other bytes each time."""
    head, nonce = build_head(key), os.urandom(_NONCE_BYTES)
    return head + nonce + AESGCM(key).encrypt(nonce, value, bound_to.encode())


def unseal(key: bytes, sealed: bytes, bound_to: str) -> bytes:
    """What was sealed, also by a release that did not say with which key. Raises NotOpened."""
    head = build_head(key)
    if sealed.startswith(_FORM_WITHOUT_KEY_ID):
        head = _FORM_WITHOUT_KEY_ID
    elif not sealed.startswith(head):
        raise NotOpened("another key sealed it" if sealed.startswith(_FORM) else "these bytes were not sealed here")
    nonce, rest = sealed[len(head) :][:_NONCE_BYTES], sealed[len(head) + _NONCE_BYTES :]
    if len(nonce) < _NONCE_BYTES:
        raise NotOpened("these bytes were not sealed here")
    try:
        return AESGCM(key).decrypt(nonce, rest, bound_to.encode())
    except InvalidTag as error:
        raise NotOpened("this key does not open it") from error

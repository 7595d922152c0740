"""The token with which one attempt reports: derived, so that a repeated launch hands out the same one."""

import base64
import hashlib
import hmac
import os
from pathlib import Path
from typing import Final

from starforge.contract.ids import AttemptId

KEY_BYTES: Final = 32
_PREFIX: Final = "sfa_"


def load_or_make_key(path: Path) -> bytes:
    """The key at `path` (0600), made on the first call."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return path.read_bytes()
    with os.fdopen(descriptor, "wb") as file:
        key = os.urandom(KEY_BYTES)
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    return key


def attempt_token(key: bytes, attempt: AttemptId) -> str:
    """The ingest token of `attempt`: nobody without the key can tell it, and it is the same each time."""
    mac = hmac.new(key, b"ingest-token:" + attempt.encode(), hashlib.sha256).digest()
    return _PREFIX + base64.urlsafe_b64encode(mac).decode().rstrip("=")

"""The token with which one attempt reports: derived, so that a repeated launch hands out the same one."""

import base64
import hashlib
import hmac
import os
from pathlib import Path
from typing import Final

from starforge.contract.ids import AttemptId
from starforge.durable import write_once
from starforge_console.errors import SettingsError

KEY_BYTES: Final = 32
_PREFIX: Final = "sfa_"


def load_or_make_key(path: Path) -> bytes:
    """The key at `path` (0600), made on the first call. It appears whole or not at all.

    Raises:
        SettingsError: what lies there is no key; with a short one anybody could compute tokens.

    """
    if not path.exists():
        write_once(path, os.urandom(KEY_BYTES), 0o600)
    key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise SettingsError(
            f"{path} holds {len(key)} bytes, not a key of {KEY_BYTES}",
            why="it was cut short or replaced",
            next_step="remove it and start again; running jobs then report from their spool alone",
        )
    return key


def attempt_token(key: bytes, attempt: AttemptId) -> str:
    """The ingest token of `attempt`: nobody without the key can tell it, and it is the same each time."""
    mac = hmac.new(key, b"ingest-token:" + attempt.encode(), hashlib.sha256).digest()
    return _PREFIX + base64.urlsafe_b64encode(mac).decode().rstrip("=")

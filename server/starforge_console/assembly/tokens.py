"""The token with which one attempt reports: derived, so that a repeated launch hands out the same one."""

import base64
import hashlib
import hmac
import os
import secrets
from pathlib import Path
from typing import Final

from starforge.contract.ids import AttemptId
from starforge_console.errors import SettingsError

KEY_BYTES: Final = 32
_PREFIX: Final = "sfa_"


def load_or_make_key(path: Path) -> bytes:
    """The key at `path` (0600), made on the first call. It appears whole or not at all.

    Raises:
        SettingsError: what lies there is no key; with a short one anybody could compute tokens.

    """
    if not path.exists():
        _make_key(path)
    key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise SettingsError(
            f"{path} holds {len(key)} bytes, not a key of {KEY_BYTES}",
            why="it was cut short or replaced",
            next_step="remove it and start again; running jobs then report from their spool alone",
        )
    return key


def _make_key(path: Path) -> None:
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(os.urandom(KEY_BYTES))
        file.flush()
        os.fsync(file.fileno())
    try:
        path.hardlink_to(fresh)
    except FileExistsError:
        pass  # another start was faster: its key is the one
    finally:
        fresh.unlink()


def attempt_token(key: bytes, attempt: AttemptId) -> str:
    """The ingest token of `attempt`: nobody without the key can tell it, and it is the same each time."""
    mac = hmac.new(key, b"ingest-token:" + attempt.encode(), hashlib.sha256).digest()
    return _PREFIX + base64.urlsafe_b64encode(mac).decode().rstrip("=")

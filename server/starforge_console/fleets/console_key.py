"""The console's own key and certificate: what nodes let in, made when the first of them joins or is called."""

import os
import secrets
from pathlib import Path
from typing import Final

from starforge.durable import sync_folder
from starforge_console.errors import SettingsError

KEY_FILE: Final = "node-key.pem"
_BEGIN: Final = "-----BEGIN CERTIFICATE-----"


def load_or_make_certificate(path: Path) -> str:
    """The console's certificate (PEM) of the file `path`, which holds its key, too (0600) and appears whole or not.

    It is kept beside the ledger and never in it: a copy of the ledger opens no machine.

    Raises:
        SettingsError: what lies there holds no certificate, or the file cannot be made.

    """
    try:
        if not path.exists():
            _make(path)
        text = path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be used", why=str(error), next_step="mend that, then repeat") from error
    if _BEGIN not in text:
        raise SettingsError(
            f"{path} holds no certificate",
            why="it was cut short or replaced",
            next_step="put the file back from a copy; without one remove it, and join every node again",
        )
    return text[text.index(_BEGIN) :]


def _make(path: Path) -> None:
    from starforge.trust.certificates import make_identity  # noqa: PLC0415 - most starts find the file there

    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(make_identity("starforge-console").pem.encode("ascii"))
        file.flush()
        os.fsync(file.fileno())
    try:
        path.hardlink_to(fresh)
    except FileExistsError:
        pass  # another one was faster: its key is the one
    finally:
        fresh.unlink()
    sync_folder(path.parent)

"""The console's own key and certificate: what nodes let in, made when the first of them joins or is called."""

from pathlib import Path
from typing import Final

from starforge.durable import write_once
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

    write_once(path, make_identity("starforge-console").pem.encode("ascii"), 0o600)

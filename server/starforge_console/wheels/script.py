"""The script that a machine installs forgelet with, made for this console: its address and its CA stand in it.

What containers trust of the same CA is read here too.
"""

import re
import shlex
from importlib.resources import files
from pathlib import Path
from typing import Final

from starforge.errors import Unavailable

SCRIPT_FILE: Final = "install.sh"

_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----\n[A-Za-z0-9+/=\n]+-----END CERTIFICATE-----")


def build_script(public_url: str, ca_file: Path | None) -> str:
    """The whole script. Raises Unavailable when the file with the CA cannot be used."""
    template = files("starforge_console.wheels").joinpath(SCRIPT_FILE).read_text(encoding="utf-8")
    url = shlex.quote(public_url.rstrip("/"))
    return template.replace("@URL@", url).replace("@CA@", "" if ca_file is None else _load_certificates(ca_file))


def load_private_ca(url: str, ca_file: Path | None) -> str | None:
    """The CA that `url` is trusted by beside the usual ones; None without TLS or a CA. Raises as `build_script`."""
    return None if ca_file is None or not url.startswith("https://") else _load_certificates(ca_file)


def _load_certificates(path: Path) -> str:
    """The certificates in `path` and nothing else of it: whatever lies beside them is not for everybody."""
    try:
        found = _CERTIFICATE.findall(path.read_text(encoding="ascii").replace("\r\n", "\n"))
        why = "" if found else "no certificate is in it"
    except (OSError, UnicodeDecodeError) as error:
        found, why = [], str(error)
    if not found:
        raise Unavailable(
            f"FORGE_PUBLIC_CA_FILE {path} cannot be used",
            why=why,
            next_step="name the PEM file of the CA that signed the certificate of FORGE_PUBLIC_URL",
        )
    return "\n".join(found)

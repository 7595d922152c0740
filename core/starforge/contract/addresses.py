"""What addresses say: where a console calls a node (`HOST:PORT`), and whether a host is the machine itself."""

import ipaddress
import re
from typing import Final
from urllib.parse import urlsplit

from starforge.errors import InputError

_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?\.?")
_PORTS: Final = range(1, 1 << 16)


def check_advertise(address: str) -> str:
    """`address` when a console could call it.

    Raises:
        InputError: it has another form, or names every address and so none.

    """
    host, port = split_address(address)
    if not host or port not in _PORTS:
        raise _refuse(address, "it must read HOST:PORT, with an IPv6 address in brackets")
    try:
        known = ipaddress.ip_address(host)
    except ValueError:
        if not _HOST.fullmatch(host) or host.replace(".", "").isdigit():
            raise _refuse(address, f"{host!r} is neither an address nor a host's name") from None
        return address
    if known.is_unspecified or known.is_multicast:
        raise _refuse(address, f"{host} names no single machine")
    return address


def split_address(address: str) -> tuple[str, int | None]:
    """Host, without brackets, and port; an empty host for what has another form."""
    bracketed = re.fullmatch(r"\[([0-9A-Fa-f:.]+)\]:\d{1,5}", address)
    try:
        parts = urlsplit(f"//{address}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "", None
    if parts.netloc != address or parts.username is not None or ((":" in host or "[" in address) and not bracketed):
        return "", None
    return host, port


def is_loopback(host: str) -> bool:
    """Whether the host, an address without brackets or a name, is the machine that reads it. No name is looked up."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _refuse(address: str, why: str) -> InputError:
    return InputError(
        f"{address!r:.80} is no address at which the console could call a node",
        why=why,
        next_step="join again with --advertise HOST:PORT",
    )

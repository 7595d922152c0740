"""Asks the system for the addresses of a host, which is how a name says whose network it lies in."""

import asyncio
import ipaddress
import socket
from collections.abc import Sequence

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


async def resolve(host: str, port: int) -> Sequence[Address]:
    """The addresses of a host, best first, as the system says. Raises OSError and UnicodeError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [ipaddress.ip_address(str(address[0]).partition("%")[0]) for *_, address in found]

"""Whom an address stands for, where callers are counted. Pure."""

import ipaddress
from functools import lru_cache
from typing import Final

_OF_ONE: Final = 64
"""Whoever has an IPv6 address has so long a network, with more addresses than could be counted."""


@lru_cache(maxsize=4096)
def find_source(peer: str) -> str:
    """What a caller at `peer` is counted as: the address, of IPv6 its network, of anything else itself."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, _OF_ONE), strict=False))

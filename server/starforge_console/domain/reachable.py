"""Which addresses the console may call because a user named them: public ones, and what is allowed beside. Pure."""

import ipaddress
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from starforge.errors import InputError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_UNICAST: Final = ipaddress.ip_network("2000::/3")
"""Whatever is public of IPv6 lies in it; outside are forms that stand for other addresses, and what nobody gave out."""
_DELETE: Final = "\x7f"
_SCHEMES: Final = frozenset({"http", "https"})
_DEFAULT_PORT: Final = {"http": 80, "https": 443}


def parse_target(url: str) -> tuple[str, int]:
    """Host and port of an address that may be named.

    Raises:
        InputError: it is no http or https address, or holds a user, a password or a fragment.

    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _refuse("it is no address", str(error)) from None
    if parts.scheme not in _SCHEMES or not host or any(ord(one) <= ord(" ") or one == _DELETE for one in url):
        raise _refuse("it is no http or https address")
    if not host.isascii():
        raise _refuse("its host is not in ASCII", "it goes into a header as it stands: write it with xn--")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise _refuse("it holds a user, a password or a fragment")
    return host, port or _DEFAULT_PORT[parts.scheme]


def find_refused(addresses: Iterable[Address], allowed: Iterable[Network]) -> Address | None:
    """The first address that may not be called; None when all may."""
    networks = tuple(allowed)
    return next((one for one in addresses if not _may_be_called(one, networks)), None)


def name_network(address: Address) -> str:
    """Whose the address is: `public`, or `loopback`, `link-local` or `private`."""
    if _may_be_called(address, ()):
        return "public"
    meant = _unwrap(address)
    if meant.is_loopback:
        return "loopback"
    return "link-local" if meant.is_link_local else "private"


def _may_be_called(address: Address, allowed: tuple[Network, ...]) -> bool:
    meant = _unwrap(address)
    if any(one in network for network in allowed for one in (address, meant)):
        return True
    if meant.version == _UNICAST.version and meant not in _UNICAST:
        return False
    return meant.is_global and not meant.is_multicast


def _unwrap(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for, where it stands for one."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo or (None, address))[1]


def _refuse(fault: str, why: str = "") -> InputError:
    return InputError(
        f"this cannot be a webhook's address: {fault}", why=why, next_step="write it as https://HOST/PATH"
    )

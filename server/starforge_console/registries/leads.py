"""Whether a registry may lead the console to another host: users name registries, and behind a registry may be anybody.

A host of the registry's own domain may be led to, and one that an administrator named. The former not if it lies in a
network that is not public and that the registry itself does not lie in. A name that does not resolve here is left to
the proxy that resolves it.
"""

import ipaddress
from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import httpx2

from starforge.contract.addresses import is_loopback
from starforge.trust.resolving import Address
from starforge_console.domain.reachable import name_network

_DEFAULT_PORTS: Final = {"https": 443, "http": 80}
_LABELS_OF_A_DOMAIN: Final = 2

Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]


class Leads:
    """Where one registry, at `url`, may lead to; `named` are the hosts that an administrator named."""

    def __init__(self, url: httpx2.URL, named: AbstractSet[str], resolve: Resolve) -> None:
        self._url = url
        self._named = named
        self._resolve = resolve

    async def find_refused(self, url: httpx2.URL) -> str:
        """Why it may not lead there; empty where it may."""
        host, own = _normalize(url.host), _normalize(self._url.host)
        if host == own or host in self._named or (is_loopback(host) and is_loopback(own)):
            return ""
        if not is_of_its_domain(host, own):
            return f"it leads to {host}, which is not of its domain, and FORGE_IMAGE_LED_TO does not name it"
        foreign = await self._find_networks(url) - {"public"}
        if foreign and (foreign := foreign - await self._find_networks(self._url)):
            return f"it leads to {host} in a {min(foreign)} network, and FORGE_IMAGE_LED_TO does not name that"
        return ""

    async def _find_networks(self, url: httpx2.URL) -> frozenset[str]:
        try:
            addresses = await self._resolve(url.host, url.port or _DEFAULT_PORTS[url.scheme])
        except (OSError, UnicodeError):
            return frozenset()
        return frozenset(map(name_network, addresses))


def is_of_its_domain(host: str, registry: str) -> bool:
    """Whether `host` belongs to whoever the registry's host belongs to, as far as names tell. Pure."""
    if _is_address(host) or _is_address(registry):
        return host == registry
    labels = registry.split(".")
    domain = ".".join(labels[1:]) if len(labels) > _LABELS_OF_A_DOMAIN else registry
    return host == domain or (len(labels) >= _LABELS_OF_A_DOMAIN and host.endswith(f".{domain}"))


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _normalize(host: str) -> str:
    return host.lower().rstrip(".")

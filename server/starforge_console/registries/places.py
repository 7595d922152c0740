"""Where registries are spoken to: over TLS, but on loopback and where an administrator allows plain HTTP. Pure."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

import httpx2

from starforge.contract.addresses import is_loopback
from starforge.contract.images import DOCKER_HUB

_ADDRESS_OF_HUB: Final = "registry-1.docker.io"
_LARGEST_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class Place:
    """Where one registry answers. `plain_http` are the registries beside it that need no TLS."""

    url: httpx2.URL
    plain_http: AbstractSet[str]

    @property
    def is_plain(self) -> bool:
        """Whether it is spoken to without TLS."""
        return self.url.scheme == "http"

    @property
    def is_local(self) -> bool:
        """Whether it is this machine, which no proxy leads to."""
        return is_loopback(self.url.host)

    def owns(self, url: httpx2.URL) -> bool:
        """Whether `url` is of this registry itself: what is a secret to it is told to nobody else."""
        return _origin(url) == _origin(self.url)

    def may_lead_to(self, url: httpx2.URL) -> bool:
        """Whether the registry may send the console there: never from TLS to plain HTTP, never with a login in it."""
        if url.userinfo or not url.host or not _has_port(url):
            return False
        if url.scheme == "https":
            return True
        return self.is_plain and url.scheme == "http" and may_be_plain(url.netloc.decode("ascii"), self.plain_http)


def build_place(registry: str, plain_http: AbstractSet[str]) -> Place | None:
    """Where `registry`, as images name it, answers; None where no address can be made of it."""
    host = _ADDRESS_OF_HUB if registry == DOCKER_HUB else registry
    scheme = "http" if may_be_plain(registry, plain_http) else "https"
    try:
        url = httpx2.URL(f"{scheme}://{host}")
    except httpx2.InvalidURL:
        return None
    return Place(url, plain_http) if _has_port(url) else None


def may_be_plain(registry: str, plain_http: AbstractSet[str]) -> bool:
    """Whether the registry, HOST[:PORT], may be spoken to without TLS."""
    host = registry.rpartition(":")[0] if registry.rpartition(":")[2].isdigit() else registry
    return registry in plain_http or is_loopback(host.strip("[]"))


def _has_port(url: httpx2.URL) -> bool:
    """Whether the port is one: an address may hold any number, which no socket takes."""
    return url.port is None or 0 < url.port <= _LARGEST_PORT


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port

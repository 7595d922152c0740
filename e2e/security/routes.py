"""Every route of the three servers, as the applications themselves have them: a new one is here by itself."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from fastapi.routing import iter_route_contexts
from prometheus_client import CollectorRegistry
from starlette.routing import BaseRoute, Route

from starforge_console.telemetry.metrics import IngestCounters
from starforge_console.web.api import build_application
from starforge_console.web.ingest import IngestServices, build_ingest
from starforge_console.web.nodes import NODE_PATHS
from starforge_forgelet.api import build_app

_IMPLIED: Final = "HEAD"
"""Whoever may get something may ask for its head."""

_NOTHING: Final[Any] = None
"""Nobody is asked for anything here."""
_PARTS: Final = ("receiver", "tokens", "presence", "wakeups")


@dataclass(frozen=True, slots=True, order=True)
class Spot:
    """One route: a method at a path, whose parameters stand in braces."""

    path: str
    method: str

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def list_console_routes() -> list[Spot]:
    """Those of the port for pages and API; what nodes send is answered before the others."""
    contexts = iter_route_contexts(build_application().routes)
    found = {Spot(str(one.path), method) for one in contexts for method in one.methods or ()}
    return sorted({spot for spot in found if spot.method != _IMPLIED} | {Spot(path, "POST") for path in NODE_PATHS})


def list_ingest_routes() -> list[Spot]:
    """Those of the port that jobs report to."""
    services = IngestServices(**dict.fromkeys(_PARTS, _NOTHING), counters=IngestCounters(CollectorRegistry()))
    return _list_plain(build_ingest(services).routes)


def list_forgelet_routes() -> list[Spot]:
    """Those of a machine's daemon."""
    return _list_plain(build_app(_NOTHING).routes)


def _list_plain(routes: Iterable[BaseRoute]) -> list[Spot]:
    found = [one for one in routes if isinstance(one, Route)]
    return sorted(Spot(one.path, method) for one in found for method in (one.methods or set()) - {_IMPLIED})

"""The codes of requests that no route of ours has seen, and so no error class names: one code for one case."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Fault:
    """A code, what happened, what whoever sent the request can do, and the statuses that it comes with."""

    code: str
    what: str
    next_step: str
    statuses: str


ROUTE_UNKNOWN: Final = Fault(
    "route_unknown", "Nothing is served at this address.", "see /api/v1/openapi.json for what there is", "404"
)
METHOD_NOT_ALLOWED: Final = Fault(
    "method_not_allowed",
    "The address is served, but not for this method.",
    "see /api/v1/openapi.json for what there is",
    "405",
)
REQUEST_INVALID: Final = Fault(
    "request_invalid",
    "The request is no HTTP, too slow or too large in its head, or its path, query or body does not fit its route.",
    "mend what is listed and send it again",
    "400, 408, 422, 429, 431",
)
FAULTS: Final = (METHOD_NOT_ALLOWED, REQUEST_INVALID, ROUTE_UNKNOWN)

_BY_STATUS: Final[Mapping[int, Fault]] = MappingProxyType(
    {HTTPStatus.NOT_FOUND: ROUTE_UNKNOWN, HTTPStatus.METHOD_NOT_ALLOWED: METHOD_NOT_ALLOWED}
)


def fault_of(status: int) -> Fault:
    """What an answer of `status` by the web framework itself means; pages and API say it with the same code."""
    return _BY_STATUS.get(status, REQUEST_INVALID)

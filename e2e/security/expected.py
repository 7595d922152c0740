"""Who is let in where: one table for every route of the console's port, by families."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum, auto
from fnmatch import fnmatchcase
from typing import Final

from e2e.security.people import Caller
from e2e.security.routes import Spot


class Outcome(StrEnum):
    """What comes of a request."""

    LET_IN = auto()
    """Neither sent to sign in nor refused; what was asked for may not be there all the same."""
    REFUSED = auto()
    NOTHING_DONE = auto()
    """Answered, and nothing has changed: a form about several jobs says of each what became of it."""


@dataclass(frozen=True, slots=True)
class Family:
    """Routes with the same right to them. `decide` is asked of people alone: of strangers it is `open` that counts."""

    decide: Callable[[Caller], bool]
    open: bool = False
    otherwise: Outcome = Outcome.REFUSED

    def expect(self, caller: Caller) -> Outcome:
        """What must come of the caller's request."""
        if self.open:
            return Outcome.LET_IN
        if not caller.role:
            return Outcome.REFUSED
        return Outcome.LET_IN if self.decide(caller) else self.otherwise


def _reads(caller: Caller) -> bool:
    return "read" in caller.may


def _submits(caller: Caller) -> bool:
    return "submit" in caller.may


def _owns(caller: Caller) -> bool:
    return caller.is_owner or caller.operates


OPEN: Final = Family(lambda _: True, open=True)
READ: Final = Family(_reads)
SUBMIT: Final = Family(_submits)
OWN: Final = Family(lambda who: _submits(who) and _owns(who))
EACH: Final = Family(lambda who: _submits(who) and _owns(who), otherwise=Outcome.NOTHING_DONE)
OWN_TOKEN: Final = Family(lambda who: who.is_owner or who.administers)
OPERATE: Final = Family(lambda who: who.operates)
ADMINISTER: Final = Family(lambda who: who.administers)
MACHINES: Final = Family(lambda _: False)
"""No user's token helps here: a join token or the machine's own key does."""

TABLE: Final[Sequence[tuple[Family, str]]] = (
    (
        OPEN,
        """
        GET /healthz
        GET /api/v1/meta
        GET /api/v1/openapi.json
        POST /api/v1/device/code
        POST /api/v1/device/token
        GET /install.sh
        GET /simple/*
        GET /files/{name}
        GET /locks/{tag}.txt
        GET /static/*
        GET /signin
        POST /signin
        GET /signin/{code}
        POST /signin/{code}
        POST /signout
        POST /preferences
        GET /oidc/start
        GET /oidc/callback
        """,
    ),
    (
        READ,
        """
        GET /api/v1/methods*
        GET /api/v1/profiles
        GET /api/v1/whoami
        GET /api/v1/quotas
        GET /api/v1/tokens
        POST /api/v1/tokens/revoke-self
        POST /api/v1/tokens/revoke-others
        GET /api/v1/jobs*
        GET /api/v1/job-counts
        POST /api/v1/admission
        POST /api/v1/sweeps/admission
        GET /api/v1/sweeps*
        GET /api/v1/compare
        GET /api/v1/blobs/{digest}
        GET /api/v1/fleets
        GET /api/v1/fleets/{fleet}
        GET /api/v1/nodes
        GET /api/v1/gpu-series
        GET /api/v1/queue
        GET /api/v1/capacity
        GET /api/v1/windows
        GET /api/v1/maintenance
        GET /
        GET /overview
        GET /queue
        GET /jobs*
        GET /compare*
        POST /jobs/compare
        GET /sweeps/{sweep_id}
        GET /catalog*
        GET /fleets
        GET /fleets/{fleet}
        GET /account
        GET /tokens
        POST /tokens
        POST /tokens/end-others
        GET /device
        POST /device
        POST /device/decide
        GET /live/*
        """,
    ),
    (
        SUBMIT,
        """
        POST /api/v1/jobs
        POST /api/v1/jobs/{job_id}/rerun
        POST /api/v1/sweeps
        PUT /api/v1/blobs/{digest}
        GET /api/v1/secrets
        PUT /api/v1/secrets/{name}
        DELETE /api/v1/secrets/{name}
        GET /api/v1/webhooks
        POST /api/v1/webhooks
        POST /jobs/{job_id}/rerun
        POST /secrets
        POST /secrets/{name}/remove
        """,
    ),
    (
        OWN,
        """
        POST /api/v1/jobs/{job_id}/stop
        POST /api/v1/jobs/{job_id}/pause
        POST /api/v1/jobs/{job_id}/resume
        POST /api/v1/jobs/{job_id}/retry
        DELETE /api/v1/jobs/{job_id}
        POST /api/v1/sweeps/{sweep_id}/stop
        GET /api/v1/webhooks/{webhook_id}
        POST /api/v1/webhooks/{webhook_id}/test
        POST /api/v1/webhooks/{webhook_id}/enable
        DELETE /api/v1/webhooks/{webhook_id}
        POST /jobs/{job_id}/stop
        POST /jobs/{job_id}/delete
        POST /jobs/{job_id}/pause
        POST /jobs/{job_id}/resume
        POST /jobs/{job_id}/retry
        POST /sweeps/{sweep_id}/stop
        """,
    ),
    (
        EACH,
        """
        POST /jobs/stop
        POST /jobs/pause
        POST /jobs/resume
        """,
    ),
    (
        OWN_TOKEN,
        """
        DELETE /api/v1/tokens/{token_id}
        POST /tokens/{token_id}/revoke
        """,
    ),
    (
        OPERATE,
        """
        GET /metrics
        POST /api/v1/fleets
        PATCH /api/v1/fleets/{fleet}
        DELETE /api/v1/fleets/{fleet}
        GET /api/v1/fleets/{fleet}/join-tokens
        POST /api/v1/fleets/{fleet}/join-tokens
        DELETE /api/v1/fleets/{fleet}/join-tokens/{token_id}
        POST /api/v1/nodes/{node}/drain
        POST /api/v1/nodes/{node}/undrain
        POST /api/v1/nodes/{node}/remove
        POST /api/v1/nodes/{node}/mark-lost
        POST /api/v1/nodes/{node}/end-unknown
        POST /api/v1/gpu-series
        DELETE /api/v1/gpu-series
        PUT /api/v1/admin/queue/{job_id}
        GET /api/v1/admin/gc
        POST /api/v1/admin/gc
        PUT /api/v1/admin/gc/hold
        DELETE /api/v1/admin/gc/hold
        GET /api/v1/admin/windows
        PUT /api/v1/admin/windows/{window_kind}/{window}
        DELETE /api/v1/admin/windows/{window_kind}/{window}
        POST /api/v1/admin/maintenance/drain
        POST /api/v1/admin/maintenance/resume
        POST /queue/{job_id}
        GET /new-fleet
        POST /new-fleet
        POST /fleets/{fleet}/limit
        POST /fleets/{fleet}/join-tokens
        POST /fleets/{fleet}/join-tokens/{token_id}/revoke
        POST /fleets/{fleet}/gpu-series
        POST /gpu-series/remove
        GET /fleets/{fleet}/delete
        POST /fleets/{fleet}/delete
        GET /fleets/{fleet}/nodes/{node}/{act}
        POST /fleets/{fleet}/nodes/{node}/end-unknown
        POST /fleets/{fleet}/nodes/{node}/{act}
        GET /admin
        POST /admin/window
        POST /admin/gpu-series
        POST /admin/maintenance
        POST /admin/retention
        """,
    ),
    (
        ADMINISTER,
        """
        GET /api/v1/admin/users
        POST /api/v1/admin/users
        PUT /api/v1/admin/users/{user}/role
        PUT /api/v1/admin/users/{user}/active
        PUT /api/v1/admin/users/{user}/team
        GET /api/v1/admin/quotas
        PUT /api/v1/admin/quotas/{kind}/{holder}
        DELETE /api/v1/admin/quotas/{kind}/{holder}
        GET /api/v1/admin/audit
        GET /api/v1/admin/registries
        PUT /api/v1/admin/registries/{registry}
        DELETE /api/v1/admin/registries/{registry}
        POST /admin/team
        POST /admin/quota
        POST /admin/registry
        POST /admin/users
        GET /admin/users/{name}
        POST /admin/users/{name}/role
        POST /admin/users/{name}/active
        POST /admin/users/{name}/link
        """,
    ),
    (
        MACHINES,
        """
        POST /api/v1/nodes/join
        POST /api/v1/nodes/{node}/epoch
        POST /api/v1/nodes/{node}/heartbeat
        """,
    ),
)
"""What changes something is named whole; a star stands for the rest of an address that is read alone."""


def list_lines() -> list[tuple[Family, Spot]]:
    """The table, line by line."""
    split = ((family, line.split()) for family, text in TABLE for line in text.strip().splitlines())
    return [(family, Spot(path, method)) for family, (method, path) in split]


def find_families(spot: Spot) -> list[Family]:
    """The families that a route is in: one, unless the table or the route is wrong."""
    return [family for family, line in list_lines() if _covers(line, spot)]


def find_unused(spots: Sequence[Spot]) -> list[str]:
    """Lines of the table that no route is left for."""
    return [str(line) for _, line in list_lines() if not any(_covers(line, spot) for spot in spots)]


def _covers(line: Spot, spot: Spot) -> bool:
    if line.method != spot.method:
        return False
    literal: Mapping[str, str] = {"[": "[[]", "?": "[?]"}
    pattern = "".join(literal.get(sign, sign) for sign in line.path)
    return fnmatchcase(spot.path, pattern)

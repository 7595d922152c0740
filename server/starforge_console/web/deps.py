"""What the API needs of the rest of the console, handed over by the composition root."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, Protocol

from fastapi import Depends, Request
from prometheus_client import CollectorRegistry

from starforge.contract.api import CLIENT_PRODUCT
from starforge.contract.executor import FleetView
from starforge.contract.ids import AttemptId
from starforge.contract.results import Curve
from starforge.contract.versions import check_client
from starforge.recipes.model import Recipe
from starforge_console.accounts.people import People
from starforge_console.accounts.registry_logins import RegistryLogins
from starforge_console.accounts.secrets import UserSecrets
from starforge_console.accounts.sign_in import Accounts, check_administrator, check_operator, check_scope
from starforge_console.accounts.windows import OpeningHours
from starforge_console.admission.admit import Admission
from starforge_console.admission.sweeps import SweepAdmission
from starforge_console.blobs.store import BlobStore
from starforge_console.clock import Clock
from starforge_console.diagnosis.diagnoser import Diagnoser
from starforge_console.domain.drawing import EVERYTHING, Look, Window
from starforge_console.domain.points import Columns
from starforge_console.domain.roles import Scope
from starforge_console.ingest.logs import LinePlace, LogPart
from starforge_console.ingest.presence import Presence
from starforge_console.jobs.control import JobControl
from starforge_console.jobs.maintenance import MaintenanceControl
from starforge_console.jobs.one_by_one import OneByOne
from starforge_console.jobs.queue_places import QueuePlaces
from starforge_console.jobs.sweeps import SweptJobs
from starforge_console.jobs.turns import JobTurns
from starforge_console.ledger.accounts import Account
from starforge_console.ledger.audit import Actor, Via, act_as
from starforge_console.ledger.database import Database
from starforge_console.retention.collector import Collector
from starforge_console.scheduler.explain import Explainer
from starforge_console.settings.console import ConsoleSettings
from starforge_console.wakeups import Wakeups
from starforge_console.web.polls import LongPolls
from starforge_console.webhooks.registration import Webhooks

OLDEST_CLIENT: Final = "0.1.0"
"""The oldest `sf` whose requests are understood here."""
_CLIENT: Final = re.compile(rf"{CLIENT_PRODUCT}/([0-9][0-9.]{{0,40}})")


class LogSlice(Protocol):
    """Bytes of an attempt's log. `ended`: nothing will be added to it."""

    @property
    def content(self) -> bytes:
        """The bytes from the asked offset on; empty when there are none yet."""

    @property
    def received_to(self) -> int:
        """How many bytes of the log are here."""

    @property
    def ended(self) -> bool:
        """Whether nothing will be added."""


class LogReader(Protocol):
    """The logs that ingest has received."""

    def of_node(self, rank: int) -> "LogReader":
        """The logs of what this node of each attempt printed; 0 leads, and is what is read here."""

    async def read_log(self, attempt: str, from_byte: int, limit_bytes: int) -> LogSlice:
        """At most `limit_bytes` of the attempt's log from `from_byte` on."""

    async def read_part(self, attempt: str, from_byte: int, limit_bytes: int) -> LogPart:
        """At most `limit_bytes` of the attempt's log from `from_byte` on, or what is missing there."""

    async def find_line(self, attempt: str, number: int) -> LinePlace | None:
        """Where line `number` begins, or the first one behind it that is here; None when the log ends before it."""

    async def number_of(self, attempt: str, offset: int) -> int:
        """The number of the line that holds the byte at `offset`."""

    async def find_missing(self, attempt: str, produced_bytes: int | None = None) -> tuple[tuple[int, int], ...]:
        """The ranges of the log that are not here, up to `produced_bytes` where that is known."""

    async def remove_logs(self, attempts: Sequence[str]) -> None:
        """Remove the files that hold the logs of these attempts; fine when there are none."""


class CurveReader(Protocol):
    """The curves that ingest has received."""

    async def curve(
        self, job: str, key: str, points: int, attempt: int | None = None, window: Window = EVERYTHING
    ) -> Curve:
        """At most about `points` points that keep minima and maxima; of one attempt alone if asked. Raises NotFound."""

    async def curves(
        self, wanted: Sequence[tuple[str, str]], points: int, attempt: int | None = None
    ) -> Mapping[tuple[str, str], Curve]:
        """The same of several (job, key); what is not there is left out."""

    async def look(self, wanted: Mapping[tuple[str, str], Look]) -> Mapping[tuple[str, str], Curve]:
        """The same of several, each as it is asked for."""

    def points(self, job: str, key: str, attempt: int | None = None) -> AsyncIterator[tuple[int, Columns]]:
        """Every point in order of arrival, with the attempt that reported it."""


FindNative = Callable[[str, AttemptId], Awaitable[str | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServices:
    """Everything that the routes of the API use.

    `views` gives the fleets' capacity as last heard, `find_native` what was sent to a fleet to start an attempt.
    """

    ledger: Database
    series: Database
    logs: LogReader
    curves: CurveReader
    presence: Presence
    blobs: BlobStore
    accounts: Accounts
    admission: Admission
    sweeps: SweepAdmission
    secrets: UserSecrets
    registry_logins: RegistryLogins
    catalog: Mapping[str, Recipe]
    retention: Collector
    views: Callable[[], Sequence[FleetView]]
    explainer: Explainer
    find_native: FindNative
    clock: Clock
    wakeups: Wakeups
    settings: ConsoleSettings
    metrics: CollectorRegistry
    webhooks: Webhooks
    one_by_one: OneByOne = field(default_factory=OneByOne)

    @property
    def people(self) -> People:
        """Users, teams and their limits."""
        return People(self.ledger, self.wakeups, self.clock, self.accounts)

    @property
    def opening_hours(self) -> OpeningHours:
        """When fleets, teams and profiles may run."""
        return OpeningHours(self.ledger, self.clock, self.wakeups)

    @property
    def diagnoser(self) -> Diagnoser:
        """Finds out why attempts failed."""
        return Diagnoser(ledger=self.ledger, logs=self.logs, clock=self.clock)

    @property
    def jobs(self) -> JobControl:
        """What people may do with jobs."""
        return JobControl(
            ledger=self.ledger,
            series=self.series,
            logs=self.logs,
            blobs=self.blobs,
            clock=self.clock,
            wakeups=self.wakeups,
            storage_root=self.settings.storage_root,
            one_by_one=self.one_by_one,
        )

    @property
    def swept_jobs(self) -> SweptJobs:
        """What people may do with all the jobs of a sweep."""
        return SweptJobs(self.jobs)

    @property
    def maintenance(self) -> MaintenanceControl:
        """Whether jobs are started at present."""
        return MaintenanceControl(ledger=self.ledger, clock=self.clock, wakeups=self.wakeups)

    @property
    def queue_places(self) -> QueuePlaces:
        """Where administrators put queued jobs."""
        return QueuePlaces(ledger=self.ledger, clock=self.clock, wakeups=self.wakeups)

    @property
    def turns(self) -> JobTurns:
        """Pauses jobs and lets them go on."""
        return JobTurns(
            ledger=self.ledger,
            catalog=self.catalog,
            clock=self.clock,
            wakeups=self.wakeups,
            one_by_one=self.one_by_one,
        )


async def services_of(request: Request) -> ApiServices:
    """The services that the application was built with."""
    services: ApiServices = request.app.state.services
    return services


async def polls_of(request: Request) -> LongPolls:
    """The application's long polls."""
    polls: LongPolls = request.app.state.polls
    return polls


async def reader_of(request: Request) -> Account:
    """Whoever asks, signed in and allowed to read, with an `sf` that is not too old where it is one."""
    client = _CLIENT.match(request.headers.get("user-agent", ""))
    if client is not None:
        check_client(client[1], OLDEST_CLIENT)
    services: ApiServices = request.app.state.services
    account = await services.accounts.authenticate(request.headers.get("authorization"), peer_of(request))
    check_scope(account, Scope.READ)
    act_as(build_actor(account, Via.API, request))
    return account


async def submitter_of(account: Annotated[Account, Depends(reader_of)]) -> Account:
    """Whoever asks, signed in and allowed to submit, stop and delete."""
    check_scope(account, Scope.SUBMIT)
    return account


async def operator_of(account: Annotated[Account, Depends(reader_of)]) -> Account:
    """Whoever asks, signed in and allowed to look after machines, queue and everybody's jobs."""
    check_operator(account)
    return account


async def administrator_of(account: Annotated[Account, Depends(reader_of)]) -> Account:
    """Whoever asks, signed in and allowed to do everything."""
    check_administrator(account)
    return account


def build_actor(account: Account, via: Via, request: Request) -> Actor:
    """Whom the audit log names for what this request does."""
    now = request.app.state.services.clock.now()
    return Actor(user=account.user, via=via, at=now, peer=peer_of(request), token=account.token_id)


def peer_of(request: Request) -> str:
    """The address that the request came from."""
    return request.client.host if request.client is not None else "unknown"


Services = Annotated[ApiServices, Depends(services_of)]
Polls = Annotated[LongPolls, Depends(polls_of)]
Reader = Annotated[Account, Depends(reader_of)]
Submitter = Annotated[Account, Depends(submitter_of)]
Operator = Annotated[Account, Depends(operator_of)]
Administrator = Annotated[Account, Depends(administrator_of)]

"""The fleets of this console and the executor of each; a fleet that is made while the console runs counts at once."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import structlog

from starforge.contract.executor import Executor
from starforge.contract.launch import IMAGE_USER, Network, parse_user
from starforge.errors import Conflict, InputError, LaunchRefused, Unavailable
from starforge.said.sentence import say
from starforge_console.clock import Clock
from starforge_console.ledger.audit import audited
from starforge_console.ledger.database import Database
from starforge_console.ledger.fleet_deletion import delete_fleet
from starforge_console.ledger.fleets import Fleet, add_fleet, list_fleets, require_limit
from starforge_console.settings.console import FleetKind
from starforge_console.wakeups import BACKEND, NODES, QUEUE, Wakeups

_log = structlog.get_logger("fleets")
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")


class ServedFleets(Mapping[str, Executor]):
    """Executors by fleet. Whoever goes through them sees those that there were when it began."""

    def __init__(self, ledger: Database, build: Callable[[Fleet], Executor], wakeups: Wakeups, clock: Clock) -> None:
        """`build` gives the executor of a fleet's kind, and raises for a kind that it does not know."""
        self._ledger = ledger
        self._build = build
        self._wakeups = wakeups
        self._clock = clock
        self._fleets: dict[str, Fleet] = {}
        self._executors: dict[str, Executor] = {}
        self._running = False

    def __getitem__(self, fleet: str) -> Executor:
        return self._executors[fleet]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._executors))

    def __len__(self) -> int:
        return len(self._executors)

    @property
    def fleets(self) -> Mapping[str, Fleet]:
        """The fleets themselves; always the present ones."""
        return MappingProxyType(self._fleets)

    async def load(self) -> None:
        """Build an executor for each fleet of the ledger; whoever runs them starts them. Raises what `build` does."""
        for fleet in await self._ledger.read(list_fleets):
            self._executors[fleet.name] = self._build(fleet)
            self._fleets[fleet.name] = fleet

    def begin(self) -> None:
        """From now on the executors that are there have been started, and a new one is started when it is made."""
        self._running = True

    async def create(self, fleet: Fleet) -> None:
        """Keep a new fleet and serve it at once.

        Raises:
            InputError: its name or user cannot be one.
            Conflict: the name is taken, or there is a fleet of this host already.
            Unavailable: the console is still starting.

        """
        check_fleet_name(fleet.name)
        check_job_user(fleet.user)
        if not self._running:
            raise Unavailable(say("form.still_starting"), next_step=say("form.in_a_moment"))
        if fleet.kind != FleetKind.NODE and any(one.kind == fleet.kind for one in self._fleets.values()):
            of_host = fleet.kind == FleetKind.LOCAL
            what = say("form.one_host_fleet") if of_host else say("form.one_cluster")
            raise Conflict(what, next_step=say("form.one_host_fleet_next"))
        executor = self._build(fleet)
        told = say("did.fleet_made", fleet=fleet.name, kind=fleet.kind)
        await self._ledger.write(audited(lambda c: add_fleet(c, fleet, self._clock.now()), told))
        await executor.start(lambda: self._wakeups.notify(BACKEND, QUEUE))
        self._executors[fleet.name], self._fleets[fleet.name] = executor, fleet
        self._wakeups.notify(QUEUE, BACKEND, NODES)

    async def require_limit(self, name: str, by: str, *, requires: bool) -> None:
        """Let the fleet take only jobs with a time limit from now on, or all again; the log keeps who said so.

        Raises NotFound.
        """
        told = say("did.fleet_limit_required", fleet=name) if requires else say("did.fleet_limit_released", fleet=name)
        await self._ledger.write(audited(lambda c: require_limit(c, name, requires=requires), told))
        _log.info("what a fleet takes was changed", fleet=name, only_with_a_time_limit=requires, by=by)
        self._fleets[name] = replace(self._fleets[name], requires_limit=requires)
        self._wakeups.notify(QUEUE, NODES)

    async def delete(self, name: str) -> None:
        """Serve the fleet no more; history goes on naming it, and a new one may have its name.

        Raises:
            NotFound: there is no such fleet.
            Conflict: jobs, nodes or attempts are left; it says how many.

        """
        told = say("did.fleet_deleted", fleet=name)
        await self._ledger.write(audited(lambda c: delete_fleet(c, name, self._clock.now()), told))
        self._fleets.pop(name, None)
        executor = self._executors.pop(name, None)
        if executor is not None:
            await executor.close()
        self._wakeups.notify(QUEUE, BACKEND, NODES)


def build_fleet(name: str, kind: str, network: str = Network.BRIDGE.value, user: str | None = None) -> Fleet:
    """A fleet from words. Raises InputError for a kind or a network that there is not."""
    kinds, networks = [one.value for one in FleetKind], [one.value for one in Network]
    if kind not in kinds:
        raise InputError(
            say("form.no_kind", kind=f"{kind!r:.80}"), next_step=say("form.no_kind_next", kinds=", ".join(kinds))
        )
    if network not in networks:
        raise InputError(
            say("form.no_network", network=f"{network!r:.80}"),
            next_step=say("form.choose_of", options=", ".join(networks)),
        )
    found = FleetKind(kind).own_network or Network(network)
    return Fleet(name=name, kind=kind, network=found, user=user)


def check_fleet_name(name: str) -> None:
    """Raises InputError for what cannot be the name of a fleet."""
    if not _NAME.fullmatch(name):
        raise InputError(
            say("fault.fleet_name", name=f"{name!r:.80}"),
            why=say("fault.fleet_name_why"),
            next_step=say("fault.choose_another"),
        )


def check_job_user(user: str | None) -> None:
    """Raises InputError for what cannot say as whom jobs run; None leaves that to the console."""
    if user in {None, IMAGE_USER}:
        return
    try:
        parse_user(user or "")
    except LaunchRefused as error:
        raise InputError(
            say("fault.job_user", user=f"{user!r:.80}"),
            why=error.why,
            next_step=say("fault.job_user_next"),
        ) from None

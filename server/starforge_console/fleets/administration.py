"""What administrators do to fleets and their nodes: join tokens, drains, marks, removals, and what no ledger knows."""

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from starforge.contract.executor import Executor
from starforge.contract.ids import AttemptId, JobId
from starforge.contract.launch import Secret
from starforge.contract.observation import Phase
from starforge.errors import Conflict, InputError, NotFound, StarForgeError
from starforge.said.sentence import Said, say
from starforge_console.clock import Clock
from starforge_console.domain.nodes import DRAINED, NodeState
from starforge_console.domain.tokens import hash_token
from starforge_console.fleets.directory import Directory
from starforge_console.fleets.served import ServedFleets
from starforge_console.ledger.audit import audited
from starforge_console.ledger.database import Database
from starforge_console.ledger.fleets import Fleet
from starforge_console.ledger.join_tokens import (
    JoinToken,
    NewJoinToken,
    add_join_token,
    list_join_tokens,
    revoke_join_token,
)
from starforge_console.ledger.lost_nodes import LostNode, list_kept, mark_lost, remove_node
from starforge_console.ledger.maintenance import pause_holding
from starforge_console.ledger.moves import Guard
from starforge_console.ledger.nodes import NodeRow, load_node, set_state
from starforge_console.settings.console import FleetKind
from starforge_console.wakeups import BACKEND, ENDINGS, NODES, QUEUE, Wakeups, job_topic

TOKEN_HOURS: Final = 24.0
LONGEST_HOURS: Final = 24.0 * 90
TOKEN_USES: Final = 10
MOST_USES: Final = 1000
UNKNOWN_GRACE_S: Final = 30.0
"""How long a container that nobody knows may take for its end."""
UNKNOWN_END_S: Final = 300.0
"""How long its end is waited for; later the sweep of the next start removes what is left."""
_PREFIX: Final = "sfj_"
_HOUR_S: Final = 3600.0

_log = structlog.get_logger("fleets")


@dataclass(frozen=True, slots=True, kw_only=True)
class MintedToken:
    """A fresh join token: its text, which nobody can read again, and what is kept of it."""

    text: Secret
    kept: JoinToken


@dataclass(frozen=True, slots=True, kw_only=True)
class AdministrationParts:
    """What the administration is built from."""

    ledger: Database
    directory: Directory
    fleets: ServedFleets
    clock: Clock
    wakeups: Wakeups


class Administration:
    """Each change is one transaction in the ledger, shown at once to whoever places jobs."""

    def __init__(self, parts: AdministrationParts) -> None:
        self._ledger = parts.ledger
        self._directory = parts.directory
        self._fleets = parts.fleets
        self._clock = parts.clock
        self._wakeups = parts.wakeups
        self._tasks: set[asyncio.Task[None]] = set()

    def load_fleet(self, name: str) -> Fleet:
        """The fleet of that name. Raises NotFound."""
        fleet = self._fleets.fleets.get(name)
        if fleet is None:
            raise NotFound(say("form.no_fleet", name=f"{name!r:.80}"), next_step=say("form.fleets_next"))
        return fleet

    async def delete_fleet(self, name: str) -> None:
        """Let there be no such fleet any more; what it ran stays readable.

        Raises:
            NotFound: there is no such fleet.
            Conflict: jobs, nodes or attempts are left; it says how many.

        """
        self.load_fleet(name)
        legacy = [row.name for row in self._directory.rows(name) if row.legacy]
        if legacy:
            raise Conflict(
                say("form.fleet_kept", name=name),
                why=say("form.fleet_kept_legacy", machines=", ".join(legacy)),
                next_step=say("form.fleet_kept_legacy_next"),
            )
        await self._fleets.delete(name)
        _log.info("a fleet was deleted", fleet=name)

    async def mint_token(self, fleet: str, by: str, hours: float = TOKEN_HOURS, uses: int = TOKEN_USES) -> MintedToken:
        """A token that lets so many machines join the fleet within so many hours.

        Raises:
            NotFound: there is no such fleet.
            Conflict: no machine can join a fleet of that kind.
            InputError: hours or uses are out of bounds.

        """
        self._require_node_fleet(fleet)
        if not 0 < hours <= LONGEST_HOURS or not 1 <= uses <= MOST_USES:
            raise InputError(
                say("form.no_join_token", uses=uses, hours=f"{hours:g}"),
                next_step=say("form.no_join_token_next", hours=f"{LONGEST_HOURS:g}", uses=MOST_USES),
            )
        text, now = _PREFIX + secrets.token_urlsafe(32), self._clock.now()
        new = NewJoinToken(
            hash=hash_token(text), fleet=fleet, uses=uses, created_by=by, expires_at=now + hours * _HOUR_S
        )
        kept = await self._ledger.write(
            audited(
                lambda c: add_join_token(c, new, now),
                lambda made: say("did.join_token_made", token=made.id, fleet=fleet, uses=uses),
            )
        )
        return MintedToken(text=Secret(text), kept=kept)

    async def list_tokens(self, fleet: str) -> Sequence[JoinToken]:
        """The fleet's tokens that still let somebody in. Raises NotFound."""
        self.load_fleet(fleet)
        return await self._ledger.read(lambda c: list_join_tokens(c, fleet, self._clock.now()))

    async def revoke_token(self, fleet: str, token_id: int) -> None:
        """Let nobody in any more with this token. Raises NotFound."""
        self.load_fleet(fleet)
        told = say("did.join_token_revoked", token=token_id, fleet=fleet)
        await self._ledger.write(audited(lambda c: revoke_join_token(c, fleet, token_id, self._clock.now()), told))

    async def drain(self, name: str, why: str) -> NodeRow:
        """Place nothing new on the node; what runs there stays. Raises NotFound, Conflict when it is lost or legacy."""
        return await self._set_state(name, NodeState.DRAINING, why or DRAINED, say("did.node_drained", node=name))

    async def drain_and_pause(self, name: str, why: str) -> tuple[NodeRow, Sequence[JobId]]:
        """The same, and what runs there is paused and goes on elsewhere by itself; gives the jobs that were asked now.

        Said again, it asks whoever was missed. Raises as above.
        """
        self._require_registered(name)
        guard = Guard(now=self._clock.now(), monotonic=self._clock.monotonic())
        note = say("note.drained_why", node=name, why=why) if why else say("note.drained", node=name)
        row, jobs = await self._ledger.write(
            audited(
                lambda c: (
                    set_state(c, name, NodeState.DRAINING, why or DRAINED),
                    pause_holding(c, name, note, guard),
                ),
                lambda done: say("did.node_drained_paused", node=name, n=len(done[1])),
            )
        )
        self._directory.note_row(row)
        self._wakeups.notify(NODES, QUEUE, BACKEND, *map(job_topic, jobs))
        _log.info("a node is drained with its jobs", node=name, jobs=jobs)
        return row, jobs

    async def undrain(self, name: str) -> NodeRow:
        """Place on the node again. Raises NotFound, Conflict when it is lost or legacy."""
        return await self._set_state(name, NodeState.ACTIVE, "", say("did.node_undrained", node=name))

    async def mark_lost(self, name: str, confirm: str) -> LostNode:
        """Declare the machine off, or cut from the storage: its attempts fail as `node_lost` and are run elsewhere.

        Raises:
            InputError: `confirm` is not the node's name.
            NotFound: there is no such node.
            Conflict: it is legacy.

        """
        self._require_registered(name)
        if confirm != name:
            raise InputError(
                say("form.not_lost", name=name),
                why=say("form.not_lost_why"),
                next_step=say("form.not_lost_next", name=repr(name)),
            )
        guard = Guard(now=self._clock.now(), monotonic=self._clock.monotonic())
        lost = await self._ledger.write(
            audited(lambda c: mark_lost(c, name, guard), lambda done: say("did.node_lost", node=name, n=len(done.jobs)))
        )
        self._directory.note_row(lost.row)
        self._wakeups.notify(NODES, QUEUE, ENDINGS, BACKEND, *map(job_topic, lost.jobs))
        _log.warning("a node was marked lost", node=name, fence=lost.row.fence, jobs=list(lost.jobs))
        return lost

    async def remove(self, name: str) -> NodeRow:
        """Take the node out of its fleet. Raises NotFound, Conflict when it is legacy or attempts live there."""
        self._require_registered(name)
        told = say("did.node_removed", node=name)
        row = await self._ledger.write(audited(lambda c: remove_node(c, name, self._clock.now()), told))
        self._directory.note_row(row)
        self._wakeups.notify(NODES, QUEUE, BACKEND)
        _log.info("a node was removed", node=name)
        return row

    async def end_unknown(self, name: str, attempt: AttemptId) -> None:
        """End a running container of this install that the ledger knows nothing of.

        Raises:
            NotFound: there is no such node, or it tells of no such attempt.
            Conflict: the ledger knows the attempt.
            BackendUnreachable: the node does not answer.

        """
        row = self._find_legacy(name)
        if row is None:
            row = await self._ledger.read(lambda c: load_node(c, name))
        report = self._directory.find_report(name)
        if report is None or attempt not in report.attempts:
            raise NotFound(
                say("form.no_container", name=name, attempt=f"{attempt!r:.80}"), next_step=say("form.look_again")
            )
        if await self._ledger.read(lambda c: list_kept(c, [attempt])):
            raise Conflict(
                say("form.attempt_known", attempt=attempt),
                next_step=say("form.attempt_known_next", job=attempt.split("-")[0]),
            )
        executor, told = self._fleets[row.fleet], say("did.unknown_ended", attempt=attempt, node=name)
        await self._ledger.write(audited(lambda _: None, told))  # before the container hears of it
        await executor.fence(attempt)
        await executor.stop(attempt, UNKNOWN_GRACE_S)
        _log.warning("an unknown container is ended", node=name, attempt=attempt)
        task = asyncio.create_task(self._clean_up_after(executor, name, attempt), name=f"clean up unknown {attempt}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def tell_of_hardware(self) -> None:
        """Have jobs that wait for a series looked at again."""
        self._wakeups.notify(NODES, QUEUE)

    async def settle(self) -> None:
        """Wait until nothing that was begun here is under way any more."""
        await asyncio.gather(*self._tasks)

    async def close(self) -> None:
        """Wait for no container's end any more; what is left of it is swept at the next start."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _clean_up_after(self, executor: Executor, name: str, attempt: AttemptId) -> None:
        """Remove what is left of an unknown container once its node tells of its end."""
        deadline = self._clock.monotonic() + UNKNOWN_END_S
        while (left_s := deadline - self._clock.monotonic()) > 0:
            waiter = self._wakeups.subscribe(NODES)
            try:
                report = self._directory.find_report(name)
                if report is None or report.attempts.get(attempt) != Phase.RUNNING.value:
                    await executor.cleanup(attempt)
                    return
                await waiter.wait(left_s)
            except StarForgeError as error:
                _log.warning("an unknown container is left for the next sweep", attempt=attempt, error=str(error))
                return
            finally:
                self._wakeups.forget(waiter)

    def _find_legacy(self, name: str) -> NodeRow | None:
        """The node of that name if the console's settings name it: the ledger knows nothing of such a one."""
        row = self._directory.find_row(name)
        return row if row is not None and row.legacy else None

    def _require_registered(self, name: str) -> None:
        """Raises Conflict for a machine that the console's settings name: nothing about it would outlive a restart."""
        row = self._find_legacy(name)
        if row is not None:
            raise Conflict(
                say("form.node_legacy", name=name),
                why=say("form.node_legacy_why", address=row.advertise),
                next_step=say("form.node_legacy_next", fleet=row.fleet),
            )

    async def _set_state(self, name: str, state: NodeState, why: str, told: Said) -> NodeRow:
        self._require_registered(name)
        row = await self._ledger.write(audited(lambda c: set_state(c, name, state, why), told))
        self._directory.note_row(row)
        self._wakeups.notify(NODES, QUEUE)
        return row

    def _require_node_fleet(self, name: str) -> None:
        fleet = self.load_fleet(name)
        if fleet.kind != FleetKind.NODE:
            raise Conflict(
                say("form.none_joins", name=repr(name)),
                why=say("form.none_joins_why", kind=fleet.kind),
                next_step=say("form.none_joins_next"),
            )

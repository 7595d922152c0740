"""Registration: machines join fleets, their daemons take epochs, and heartbeats say how they are."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from starforge.containers.settings import StorageMark
from starforge.contract.addresses import check_advertise
from starforge.contract.registration import (
    EPOCH_PURPOSE,
    HEARTBEAT_PURPOSE,
    EpochAnswer,
    EpochRequest,
    Fenced,
    HeartbeatAnswer,
    JoinAnswer,
    JoinRequest,
    Superseded,
)
from starforge.contract.wire import NodeReport, decode
from starforge.errors import Conflict, InputError, NotFound, Refused
from starforge.said.sentence import say
from starforge_console.clock import Clock
from starforge_console.domain.nodes import NodeState, is_away
from starforge_console.domain.tokens import hash_token
from starforge_console.fleets.console_key import load_or_make_certificate
from starforge_console.fleets.directory import Directory
from starforge_console.fleets.hardware import HardwareRegistry
from starforge_console.fleets.proofs import Proofs, SignedBody
from starforge_console.fleets.reports import MOST_GPUS, check_name, check_report
from starforge_console.fleets.trials import Trial, prepare_trial
from starforge_console.ledger.audit import Actor, Via, audited
from starforge_console.ledger.database import Database
from starforge_console.ledger.fleets import list_fleets
from starforge_console.ledger.heartbeats import join_by_token, take_beat
from starforge_console.ledger.join_tokens import check_join_token
from starforge_console.ledger.nodes import Beat, NodeRow, Renewal, renew_node, take_epoch
from starforge_console.wakeups import BACKEND, NODES, QUEUE, Wakeups

_NONCE_CHARACTERS: Final = range(16, 129)
_CERTIFICATE_CHARACTERS: Final = 8192

_log = structlog.get_logger("nodes")


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTerms:
    """What every node of this install is told.

    Attributes:
        job_user: User and group of jobs in fleets that name none of their own.
        key_file: Where the console's own key and certificate are, or will be made.

    """

    install: str
    storage_root: str
    storage_id: str
    ingest_url: str
    job_user: tuple[int, int]
    key_file: Path
    heartbeat_s: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationParts:
    """What registration is built from."""

    ledger: Database
    directory: Directory
    hardware: HardwareRegistry
    terms: JoinTerms
    clock: Clock
    wakeups: Wakeups


class Registration:
    """One console's side of joining, epochs and heartbeats. Nothing here is authorised by an address or a clock."""

    def __init__(self, parts: RegistrationParts) -> None:
        self._ledger = parts.ledger
        self._directory = parts.directory
        self._hardware = parts.hardware
        self._terms = parts.terms
        self._clock = parts.clock
        self._wakeups = parts.wakeups
        self._proofs = Proofs(parts.terms.install)

    def require_known(self, name: str) -> None:
        """Raises NotFound for a node that there never was."""
        self._load_row(name)

    async def join(self, request: JoinRequest, peer: str) -> JoinAnswer:
        """Let the machine in: as a new node by its token, or as the node that it was by its old key alone.

        A join again needs no live token: running the install line anew is how a machine is upgraded.

        Raises:
            InputError: what it says of itself cannot be used.
            Refused: the token lets nobody in, and there is no proof of an earlier join.
            Conflict: it is a node of another fleet.

        """
        _check_request(request)
        certificate = await asyncio.to_thread(load_or_make_certificate, self._terms.key_file)
        known = self._find_proven(request)
        if known is not None:
            row = await self._renew(known, request, peer)
        else:
            row = await self._add(request, peer)
        self._directory.note_row(row, joined=True)
        self._wakeups.notify(NODES)
        _log.info("a machine joined", node=row.name, fleet=row.fleet, peer=peer, again=known is not None)
        trial = await self._prepare_trial(row.fleet)
        unknown = {name for name in request.gpus if self._hardware.find(name) is None}
        return JoinAnswer(
            node=row.name,
            fleet=row.fleet,
            install=self._terms.install,
            certificate=certificate,
            storage_root=self._terms.storage_root,
            storage_id=self._terms.storage_id,
            ingest_url=self._terms.ingest_url,
            # What it has cleaned up for, not what it should have: else a join would skip the cleanup of a lost node.
            fence=row.fence_seen,
            epoch=row.epoch,
            heartbeat_s=self._terms.heartbeat_s,
            gpus_without_series=tuple(sorted(unknown)),
            replaces=tuple(other.name for other in self._list_silent_twins(row)),
            job_user=trial.user,
            trial_folder=trial.folder,
            trial_trouble=trial.trouble,
        )

    async def take_epoch(self, name: str, signed: SignedBody) -> EpochAnswer | Superseded:
        """Give the daemon the epoch after the one that it has, unless another daemon took that.

        Raises:
            NotFound: there was never such a node.
            NotTheNode: the signature is not the node's.
            InputError: the question is none.

        """
        self._proofs.require(self._load_row(name), EPOCH_PURPOSE, signed)
        request = decode(signed.body, EpochRequest)
        if (request.have, 0) != (signed.epoch, signed.counter) or len(request.nonce) not in _NONCE_CHARACTERS:
            raise InputError("the question for an epoch contradicts itself", next_step="upgrade forgelet")

        taken = await self._ledger.write(lambda c: take_epoch(c, name, request.have, request.nonce))
        if isinstance(taken, Superseded):
            self._note_second_daemon(name)
            return taken
        self._directory.note_row(taken)
        return EpochAnswer(epoch=taken.epoch)

    async def beat(self, name: str, signed: SignedBody) -> HeartbeatAnswer | Superseded | Fenced:
        """Hear a heartbeat, once: a replay, one of an older epoch or by another key changes nothing.

        Raises:
            NotFound: there was never such a node.
            NotTheNode: the signature is not the node's.
            Refused: the heartbeat is not newer than the last one, or the node was removed; take an epoch, or join.
            InputError: the report is none of this node's.

        """
        self._proofs.require(self._load_row(name), HEARTBEAT_PURPOSE, signed)
        report = decode(signed.body, NodeReport)
        if (report.node, report.install, report.epoch) != (name, self._terms.install, signed.epoch):
            raise InputError(f"the report is not one of node {name} in epoch {signed.epoch}")
        check_report(report)
        beat = Beat(
            epoch=signed.epoch,
            counter=signed.counter,
            fence=report.fence,
            version=report.version,
            report=signed.body,
        )
        heard = await self._ledger.write(lambda c: take_beat(c, name, beat, report.attempts, self._clock.now()))
        if isinstance(heard, Superseded):
            self._note_second_daemon(name)
            return heard
        row = heard.row
        if self._directory.note_beat(row, report):
            self._wakeups.notify(BACKEND, QUEUE, NODES)
        if report.fence < row.fence:
            _log.warning("a node is to clean up", node=name, fence=row.fence, attempts=len(heard.remove))
            return Fenced(fence=row.fence, remove=heard.remove)
        if row.state is NodeState.REMOVED:
            raise Refused(f"node {name} was removed from its fleet", next_step="join it again with a new token")
        why = self._directory.heard(name).reach
        return HeartbeatAnswer(
            now=self._clock.now(), heartbeat_s=self._terms.heartbeat_s, reachable=not why, unreachable_why=why
        )

    def _find_proven(self, request: JoinRequest) -> NodeRow | None:
        """The node that the machine proves to be; a removed one is nobody's any more."""
        row = self._directory.find_row(request.rejoin) if request.rejoin else None
        if row is None or row.state is NodeState.REMOVED or not self._proofs.is_rejoin(row, request):
            return None
        if row.fleet != request.fleet:
            raise Conflict(
                f"this machine is node {row.name} of fleet {row.fleet!r}",
                why=f"a node stays in its fleet, and {request.fleet!r} is another",
                next_step=f"join fleet {row.fleet!r}, or remove the node first: sf node remove {row.name}",
            )
        return row

    async def _renew(self, known: NodeRow, request: JoinRequest, peer: str) -> NodeRow:
        renewal = Renewal(
            hostname=request.hostname,
            advertise=request.advertise,
            certificate=request.certificate,
            version=request.version,
            joined_from=peer,
        )
        return await self._ledger.write(lambda c: renew_node(c, known.name, renewal))

    async def _add(self, request: JoinRequest, peer: str) -> NodeRow:
        now = self._clock.now()
        row = NodeRow(
            name="",
            fleet=request.fleet,
            hostname=request.hostname,
            advertise=request.advertise,
            certificate=request.certificate,
            version=request.version,
            joined_at=now,
            joined_from=peer,
        )
        token = hash_token(request.token)
        # Whoever guesses keeps nobody from writing.
        await self._ledger.read(lambda c: check_join_token(c, token, request.fleet, now))
        return await self._ledger.write(
            audited(
                lambda c: join_by_token(c, token, row, now),
                lambda made: say("did.node_joined", node=made.name, fleet=made.fleet, peer=peer),
                by=Actor(user="", via=Via.NODE, at=now, peer=peer),
            )
        )

    async def _prepare_trial(self, fleet: str) -> Trial:
        terms, fleets = self._terms, await self._ledger.read(list_fleets)
        own = next((one.user for one in fleets if one.name == fleet), None)
        mark = StorageMark(root=Path(terms.storage_root), content=terms.storage_id)
        return await asyncio.to_thread(prepare_trial, mark, own or f"{terms.job_user[0]}:{terms.job_user[1]}")

    def _load_row(self, name: str) -> NodeRow:
        row = self._directory.find_row(name)
        if row is None:
            raise NotFound(
                f"there is no node {name!r:.80}",
                why="the console's ledger was restored from before its join, or this is another console",
                next_step="run 'forgelet join' on the machine again",
            )
        return row

    def _list_silent_twins(self, row: NodeRow) -> Sequence[NodeRow]:
        """Other nodes of the fleet with the same hostname that are lost or away: most often this machine, before."""
        return [
            other
            for other in self._directory.rows(row.fleet)
            if other.name != row.name and other.hostname == row.hostname and self._is_away(other)
        ]

    def _is_away(self, row: NodeRow) -> bool:
        return row.state is NodeState.LOST or is_away(self._directory.heard(row.name).heard_s)

    def _note_second_daemon(self, name: str) -> None:
        self._directory.note_superseded(name)
        self._wakeups.notify(NODES)
        _log.warning("two daemons speak with one identity", node=name)


def _check_request(request: JoinRequest) -> None:
    from starforge.trust.certificates import load_public_key  # noqa: PLC0415 - of use only where nodes join

    check_advertise(request.advertise)
    if len(request.certificate) > _CERTIFICATE_CHARACTERS:
        raise InputError(
            "the certificate is longer than any of this kind", next_step="join with this release's forgelet"
        )
    load_public_key(request.certificate)
    texts = {"hostname": request.hostname, "version": request.version, "fleet": request.fleet, "token": request.token}
    texts |= {f"GPU {index}": name for index, name in enumerate(request.gpus)}
    for what, text in texts.items():
        check_name(f"the {what} of the machine", text)
    if not request.hostname or len(request.gpus) > MOST_GPUS:
        raise InputError(
            "the machine has no name" if not request.hostname else f"the machine tells of {len(request.gpus)} GPUs",
            next_step="mend that, then join again",
        )

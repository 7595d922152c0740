"""Join: registers this machine with a console and keeps what comes back. Only this imports what makes certificates."""

import base64
import platform
import socket
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from starforge import __version__
from starforge.containers.gpus import NotKnown
from starforge.contract.addresses import check_advertise
from starforge.contract.launch import Secret
from starforge.contract.registration import REJOIN_PURPOSE, JoinAnswer, JoinRequest, signed_bytes
from starforge.errors import InputError, NotFound, ProjectError
from starforge.trust.certificates import Identity, make_identity
from starforge.trust.signatures import Signer
from starforge_forgelet.console import ConsoleLink
from starforge_forgelet.node import build_gpus
from starforge_forgelet.settings import NodeSettings, require_storage_root
from starforge_forgelet.state import NodeIdentity, NodeState

DEFAULT_PORT: Final = 7070
_NO_NAME: Final = "machine"
"""Whoever connects to the port is shown the certificate before being turned away, and need not learn whose it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """What the administrator gave. `advertise` is `HOST:PORT`, or empty for the address that faces the console.

    That address is then taken with `port`, the daemon's own.
    """

    server: str
    fleet: str
    token: Secret
    advertise: str = ""
    port: int = DEFAULT_PORT


@dataclass(frozen=True, slots=True)
class Joined:
    """How it went: the identity, and what the console said beside it."""

    identity: NodeIdentity
    answer: JoinAnswer


async def join(joining: Joining, settings: NodeSettings) -> Joined:
    """Register this machine, or renew what it has, and keep that; nothing is kept when the console says no.

    Raises:
        InputError: what was given cannot be used.
        ProjectError: the state directory cannot be used, or the storage root differs from the console's. In the latter
            case the identity is kept: joining again is the same node, and needs no other use of the token.
        Conflict: another join is at work here.
        NodeFault: the state directory cannot be written; the console was not asked.
        Refused, Unavailable: the console's answer, or none.

    """
    server = check_server(joining.server)
    state = NodeState(settings.state_dir)
    state.prepare()
    with state.hold():
        joined = await _join(joining, settings, state, server)
    require_storage_root(settings, joined.answer.storage_root)
    return joined


async def _join(joining: Joining, settings: NodeSettings, state: NodeState, server: str) -> Joined:
    advertise = joining.advertise or f"{find_own_address(server)}:{joining.port}"
    check_advertise(advertise)
    hostname = socket.gethostname()
    new = make_identity(_NO_NAME)
    survey = build_gpus(settings, hostname).survey()
    request = JoinRequest(
        token=joining.token.reveal(),
        fleet=joining.fleet,
        hostname=hostname,
        advertise=advertise,
        certificate=new.certificate,
        version=__version__,
        architecture=platform.machine(),
        gpus=() if isinstance(survey, NotKnown) else tuple(gpu.name for gpu in survey.gpus),
        gpus_unknown=survey.reason if isinstance(survey, NotKnown) else "",
        **_prove_identity(state, new),
    )
    state.require_room(new.pem)
    link = ConsoleLink(server)
    try:
        answer = await link.join(request)
    finally:
        await link.close()
    identity = _build_identity(server, advertise, answer)
    state.write_identity(identity, new.pem, answer.fence, answer.epoch)
    return Joined(identity, answer)


def check_server(server: str) -> str:
    """`server` without a slash at its end. Raises InputError."""
    try:
        parts = urlsplit(server)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and not parts.query and not parts.fragment
    except ValueError:
        usable = False
    if not usable:
        raise InputError(f"{server!r} is no address of a console", next_step="give one such as https://forge.corp")
    return server.rstrip("/")


def find_own_address(server: str) -> str:
    """The address of this machine that faces `server`; an IPv6 one in brackets. No packet is sent.

    Raises:
        InputError: there is no way there.

    """
    parts = urlsplit(server)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    why = ""
    try:
        found = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_DGRAM)
    except OSError as error:
        found, why = [], str(error)
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.connect(address)
                own = str(probe.getsockname()[0])
        except OSError as error:
            why = str(error)
            continue
        return f"[{own}]" if family == socket.AF_INET6 else own
    raise InputError(
        f"no address of this machine faces {server}",
        why=why or "its name has no address",
        next_step="name the address at which the console reaches this machine: --advertise HOST:PORT",
    )


def _prove_identity(state: NodeState, new: Identity) -> dict[str, str]:
    """What shows that this machine is the node that it was; nothing for a new one, or when its key is lost."""
    try:
        before = state.load_identity()
        signer = Signer(state.load_pem())
    except (NotFound, ProjectError):
        return {}
    message = signed_bytes(REJOIN_PURPOSE, before.install, before.node, (0, 0), new.certificate.encode())
    return {"rejoin": before.node, "rejoin_proof": base64.b64encode(signer.sign(message)).decode("ascii")}


def _build_identity(server: str, advertise: str, answer: JoinAnswer) -> NodeIdentity:
    return NodeIdentity(
        node=answer.node,
        fleet=answer.fleet,
        install=answer.install,
        server=server,
        console_certificate=answer.certificate,
        advertise=advertise,
        storage_root=answer.storage_root,
        storage_id=answer.storage_id,
        ingest_url=answer.ingest_url,
        heartbeat_s=answer.heartbeat_s,
        job_user=answer.job_user,
        trial_folder=answer.trial_folder,
        trial_trouble=answer.trial_trouble,
    )

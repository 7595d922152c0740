"""What a node and its console say to each other at the console's public address: joining, epochs and heartbeats.

Bodies have the form of `starforge.contract.wire`. A join is authorised by its token; everything later is signed with
the node's key over what `signed_bytes` gives, and needs no clock.
"""

import hashlib
from dataclasses import dataclass
from typing import Final

from starforge.contract.ids import AttemptId

JOIN_PATH: Final = "/api/v1/nodes/join"
EPOCH_PATH: Final = "/api/v1/nodes/{node}/epoch"
HEARTBEAT_PATH: Final = "/api/v1/nodes/{node}/heartbeat"

EPOCH_HEADER: Final = "forge-epoch"
COUNTER_HEADER: Final = "forge-counter"
SIGNATURE_HEADER: Final = "forge-signature"
"""Base64 of the Ed25519 signature."""

EPOCH_PURPOSE: Final = b"starforge-epoch-1"
HEARTBEAT_PURPOSE: Final = b"starforge-heartbeat-1"
REJOIN_PURPOSE: Final = b"starforge-rejoin-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """A machine asks to become a node of `fleet`, or the node that it was, once more.

    Attributes:
        token: The join token; never logged.
        hostname: What the machine calls itself; the node's name derives from it.
        advertise: `HOST:PORT` where the console reaches the daemon.
        certificate: The node's own, as PEM; its key also signs epochs and heartbeats.
        gpus: Names of the machine's GPUs, as the driver tells them.
        gpus_unknown: Why nobody can say which GPUs there are; empty when they are known.
        rejoin: The node that this machine was for this console, when it still has that identity.
        rejoin_proof: Base64 of the old key's signature over `REJOIN_PURPOSE` and the new certificate.

    """

    token: str
    fleet: str
    hostname: str
    advertise: str
    certificate: str
    version: str
    architecture: str
    gpus: tuple[str, ...]
    gpus_unknown: str = ""
    rejoin: str | None = None
    rejoin_proof: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinAnswer:
    """The node's identity, and all that its daemon needs to know of its console.

    Attributes:
        node: The node's name, for ever.
        certificate: The console's own, as PEM: the only one that the daemon lets in.
        storage_root: The shared folder, at the same path on every machine.
        storage_id: What the mark in that folder must say.
        fence: The fence number to begin with.
        epoch: The newest one that a daemon of this node took: the next question is for the one after it, also where it
            was another daemon's, for whoever joins again is the one that stays.
        gpus_without_series: Names of GPUs that the hardware registry does not know.
        replaces: Names of silent nodes with the same hostname, which an administrator may remove.
        job_user: `uid:gid` that the fleet's jobs run as, or `image` for each image's own; empty: the console is older.
        trial_folder: A folder in the storage that was made for that user as an attempt's folders are; for trials alone.
        trial_trouble: Why that folder could not be made; empty when it was.

    """

    node: str
    fleet: str
    install: str
    certificate: str
    storage_root: str
    storage_id: str
    ingest_url: str
    fence: int
    heartbeat_s: float
    epoch: int = 0
    gpus_without_series: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    job_user: str = ""
    trial_folder: str = ""
    trial_trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRequest:
    """A daemon that begins to serve takes the epoch after `have`. `nonce` (hex) makes a repeat get the same answer."""

    have: int
    nonce: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochAnswer:
    """The daemon's epoch until it ends."""

    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatAnswer:
    """The console has heard the heartbeat. `now` is its clock, in Unix seconds."""

    now: float
    heartbeat_s: float
    reachable: bool
    """Whether the console reached the daemon at its advertised address when it last tried."""
    unreachable_why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Superseded:
    """Body of a 409: another daemon with this identity has taken `epoch`. The daemon starts nothing any more."""

    superseded_by: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """Body of a 409: the node was marked lost. The daemon ends and removes `remove`, keeps `fence`, then goes on."""

    fence: int
    remove: tuple[AttemptId, ...]


def signed_bytes(purpose: bytes, install: str, node: str, numbers: tuple[int, int], body: bytes) -> bytes:
    """What a node signs: the purpose, whose console, who, (epoch, counter), and the digest of the body as sent.

    The purpose and the install keep one signature from serving another message or another console.
    """
    epoch, counter = numbers
    parts = (purpose, install.encode(), node.encode(), b"%d" % epoch, b"%d" % counter, hashlib.sha256(body).digest())
    return b"\n".join(parts)

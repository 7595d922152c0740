"""The wire between console and forgelet: one JSON form for each message, versions N and N-1.

Every body is `{"wire": version, "body": {...}}`. Members that the other side does not know yet are ignored, so that a
release may add some; a change that an older side would misread raises the version.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, assert_never

import msgspec

from starforge.contract.executor import NodeView
from starforge.contract.ids import AttemptId
from starforge.contract.launch import Secret
from starforge.contract.observation import Gone, NoSignal, Observation, Pull, Seen
from starforge.errors import (
    BackendUnreachable,
    Bug,
    Conflict,
    LaunchRefused,
    NoCapacity,
    NodeFault,
    NotFound,
    SpecError,
    StarForgeError,
)
from starforge.said.sentence import Said

WIRE_VERSION: Final = 1
OLDEST_WIRE_VERSION: Final = 1

LAUNCH_PATH: Final = "/v1/launch"
OBSERVE_PATH: Final = "/v1/observe"
FENCE_PATH: Final = "/v1/fence"
STOP_PATH: Final = "/v1/stop"
LOGS_PATH: Final = "/v1/logs"
REAP_PATH: Final = "/v1/reap"
SWEEP_PATH: Final = "/v1/sweep"
HEALTH_PATH: Final = "/v1/health"

INSTALL_HEADER: Final = "forge-install"
"""Whose console asks: a daemon answers its own install alone."""
STORAGE_HEADER: Final = "forge-storage"
"""What the mark of the storage must say; told to legacy nodes alone, which have no other way to learn it."""
FENCE_HEADER: Final = "forge-fence"
"""The node's fence number as the console knows it: a daemon with a lower one starts nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observe:
    """Asks what is known of `attempts`; None asks for everything of the install."""

    attempts: tuple[AttemptId, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Asks an attempt to end within `remaining_s`."""

    attempt: AttemptId
    remaining_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OneAttempt:
    """Names the attempt that is to be fenced, or reaped."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Asks for the removal of what is idle and not among `known`."""

    known: tuple[AttemptId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """Room on one file system, in bytes."""

    free_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """What a node says of itself: the answer of `/v1/health`, and the body of a heartbeat.

    Attributes:
        view: What the machine offers; None when its engine does not answer, and `view_unknown` says why.
        attempts: Phase of each attempt of this install that the machine holds.
        pulls: Images that are being fetched.
        disk: Room where the engine keeps images; None when it is not known.
        fence: The highest fence number that this daemon has cleaned up for.
        superseded: Another daemon with the same identity has taken a newer epoch.
        at: The node's clock, in Unix seconds.

    """

    node: str
    install: str
    version: str
    oldest_wire: int = OLDEST_WIRE_VERSION
    newest_wire: int = WIRE_VERSION
    view: NodeView | None
    view_unknown: str = ""
    attempts: Mapping[AttemptId, str] = field(default_factory=dict)
    pulls: tuple[Pull, ...] = ()
    disk: Disk | None = None
    boot: str
    epoch: int
    fence: int
    superseded: bool = False
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    code: str
    what: str
    why: str = ""
    next_step: str = ""


_MessageT = TypeVar("_MessageT")

_ERRORS: Final[Mapping[str, type[StarForgeError]]] = {
    kind.code: kind for kind in (NoCapacity, NodeFault, LaunchRefused, Conflict, NotFound, SpecError)
}


def encode(message: Any) -> bytes:  # noqa: ANN401 - any dataclass of the contract
    """`message`, a dataclass of the contract, as a body; secrets included, for it travels over trusted connections."""
    return _seal(msgspec.to_builtins(message, enc_hook=_reveal))


def decode(content: bytes, kind: type[_MessageT]) -> _MessageT:
    """The message of `kind` in `content`. Raises SpecError."""
    try:
        return msgspec.convert(_open(content), kind, dec_hook=_conceal, str_keys=True)
    except msgspec.ValidationError as error:
        raise SpecError(f"the message is no {kind.__name__}", why=str(error)) from error


def encode_observations(observations: Mapping[AttemptId, Observation]) -> bytes:
    """`observations` as a body."""
    return _seal({attempt: _tag(observation) for attempt, observation in observations.items()})


def decode_observations(content: bytes) -> dict[AttemptId, Observation]:
    """The observations in `content`; one that cannot be read is NoSignal and spoils no other. Raises SpecError."""
    return {AttemptId(attempt): _untag(tagged) for attempt, tagged in _open(content).items()}


def encode_error(error: StarForgeError) -> bytes:
    """`error` as a body, to be raised again on the other side."""
    return encode(_Failure(code=error.code, what=error.what, why=error.why, next_step=error.next_step))


def decode_error(content: bytes) -> StarForgeError:
    """The error in `content`; one that this side does not know, or cannot read, leaves unknown what took effect."""
    try:
        failure = decode(content, _Failure)
    except SpecError as error:
        return BackendUnreachable("the node's answer cannot be read", why=error.why or error.what)
    kind = _ERRORS.get(failure.code, BackendUnreachable)
    return kind(failure.what, why=failure.why, next_step=failure.next_step)


def _seal(body: object) -> bytes:
    return msgspec.json.encode({"wire": WIRE_VERSION, "body": body})


def _open(content: bytes) -> dict[str, Any]:
    try:
        sealed = msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SpecError("the message is no JSON object", why=str(error)) from error
    version = sealed.get("wire")
    if type(version) is not int or not OLDEST_WIRE_VERSION <= version <= WIRE_VERSION:
        raise SpecError(
            f"wire version {version!r} is not spoken here",
            why=f"this side speaks {OLDEST_WIRE_VERSION} to {WIRE_VERSION}",
            next_step="upgrade the older side",
        )
    body = sealed.get("body")
    if not isinstance(body, dict):
        raise SpecError("the message has no body", next_step="upgrade the older side")
    return body


def _tag(observation: Observation) -> dict[str, object]:
    match observation:
        case Seen():
            kind = "seen"
        case Gone():
            kind = "gone"
        case NoSignal():
            kind = "no_signal"
        case _:
            assert_never(observation)
    return {kind: msgspec.to_builtins(observation, enc_hook=_reveal)}


def _untag(tagged: object) -> Observation:
    kinds: dict[str, type[Seen | Gone | NoSignal]] = {"seen": Seen, "gone": Gone, "no_signal": NoSignal}
    try:
        [(name, body)] = msgspec.convert(tagged, dict[str, Any]).items()
        return msgspec.convert(body, kinds[name])
    except (ValueError, KeyError, msgspec.ValidationError) as error:
        return NoSignal(reason=f"the answer cannot be read: {error}")


def _reveal(value: object) -> object:
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, Said):
        return str(value)  # codes are of this side's catalog: the text is what both understand
    raise Bug(f"{type(value).__name__} has no JSON form")


def _conceal(kind: type, value: object) -> object:
    if kind is not Secret:
        raise Bug(f"{kind.__name__} has no JSON form")
    if not isinstance(value, str):
        raise ValueError("a secret is a text")  # noqa: TRY004 - what the decoder takes for a fault of the message
    return Secret(value)

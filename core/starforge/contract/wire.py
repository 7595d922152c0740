"""The wire between console and forgelet: one JSON form for each message, versions N and N-1."""

from typing import Final, assert_never

import msgspec

from starforge.contract.launch import LaunchRequest, Secret
from starforge.contract.observation import Gone, NoSignal, Observation, Seen
from starforge.errors import SpecError

WIRE_VERSION: Final = 1
OLDEST_WIRE_VERSION: Final = 1


def encode_launch(request: LaunchRequest) -> bytes:
    """`request` as JSON, secrets included: it travels only over the trusted connection and into tmpfs."""
    return msgspec.json.encode({"wire": WIRE_VERSION, "launch": msgspec.to_builtins(request, enc_hook=_reveal)})


def decode_launch(content: bytes) -> LaunchRequest:
    """The request in `content`, or SpecError. Members that a newer console added are ignored."""
    body = _open(content).get("launch")
    try:
        return msgspec.convert(body, LaunchRequest, dec_hook=_conceal)
    except msgspec.ValidationError as error:
        raise SpecError("the launch message cannot be read", why=str(error)) from error


def encode_observation(observation: Observation) -> bytes:
    """`observation` as JSON."""
    match observation:
        case Seen():
            kind = "seen"
        case Gone():
            kind = "gone"
        case NoSignal():
            kind = "no_signal"
        case _:
            assert_never(observation)
    return msgspec.json.encode({"wire": WIRE_VERSION, kind: msgspec.to_builtins(observation)})


def decode_observation(content: bytes) -> Observation:
    """The observation in `content`; one that cannot be understood is NoSignal, for it tells nothing of the attempt."""
    try:
        body = _open(content)
        if "seen" in body:
            return msgspec.convert(body["seen"], Seen)
        if "gone" in body:
            return msgspec.convert(body["gone"], Gone)
        return msgspec.convert(body.get("no_signal"), NoSignal)
    except (SpecError, msgspec.ValidationError) as error:
        return NoSignal(reason=f"the answer cannot be read: {error}")


def _open(content: bytes) -> dict[str, object]:
    try:
        body = msgspec.json.decode(content, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SpecError("the message is no JSON object", why=str(error)) from error
    version = body.get("wire")
    if not isinstance(version, int) or not OLDEST_WIRE_VERSION <= version <= WIRE_VERSION:
        raise SpecError(
            f"wire version {version!r} is not spoken here",
            why=f"this side speaks {OLDEST_WIRE_VERSION} to {WIRE_VERSION}",
            next_step="upgrade the older side",
        )
    return body


def _reveal(value: object) -> object:
    if isinstance(value, Secret):
        return value.reveal()
    raise NotImplementedError(f"{type(value).__name__} has no JSON form")


def _conceal(kind: type, value: object) -> object:
    if kind is Secret and isinstance(value, str):
        return Secret(value)
    raise NotImplementedError(f"{kind.__name__} has no JSON form")

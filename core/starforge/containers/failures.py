"""What to do about an engine's refusal: of a pull, and of a container that could not be created or started.

What the words mean stands in `start_replies` and `pull_replies`; the engine's code decides where words are not known.
"""

import re
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Final

from starforge.containers.engine import EngineError
from starforge.containers.pull_replies import PULL, UNDECIDED
from starforge.containers.replies import Fault, Reply, find_reply
from starforge.containers.start_replies import START
from starforge.contract.observation import Failure


class PullTrouble(StrEnum):
    """What to do about a pull that failed."""

    DENIED = auto()
    """Another try gives the same answer."""
    PASSING = auto()
    """Wait and try again."""
    NODE = auto()
    """This machine cannot take the image."""


class StartTrouble(StrEnum):
    """What to do about a container that could not be created or started."""

    JOB = auto()
    """The image or the request is at fault: it fails in the same way everywhere."""
    NODE = auto()
    """This machine is at fault."""
    REFUSED = auto()
    """No engine takes this request."""
    NO_IMAGE = auto()
    LIMIT = auto()
    """The engine may not raise a resource limit that was asked for."""
    GONE = auto()
    """Somebody removed the container."""


@dataclass(frozen=True, slots=True)
class StartFault:
    """How a start failed, with a sentence for people. `limit` is set for LIMIT."""

    trouble: StartTrouble
    note: str
    limit: str = ""

    @property
    def failure(self) -> Failure:
        """The same as the reason why an attempt never ran."""
        return Failure.NODE_FAULT if self.trouble in {StartTrouble.NODE, StartTrouble.GONE} else Failure.START_FAILED


_BAD_REQUEST: Final = 400
_SERVER_ERROR: Final = 500
_NOT_THE_REQUEST: Final = frozenset({404, 408, 409, 429})

_INIT: Final = re.compile(rb"\[FATAL tini \(\d+\)\] exec (\S+) failed: ([^\n]*)\n?")
_LIMIT: Final = re.compile(r"error setting rlimit type (\d+)")
_LIMIT_NAMES: Final = {"7": "nofile", "8": "memlock"}
_NO_SUCH_CONTAINER: Final = "no such container"
_NO_SUCH_IMAGE: Final = re.compile(r"no such image", re.IGNORECASE)

_TROUBLE_OF_PULL: Final = {
    Fault.USER_ERROR: PullTrouble.DENIED,
    Fault.USER_ERROR_OR_PLACEMENT: PullTrouble.DENIED,
    Fault.NODE_FAULT: PullTrouble.NODE,
    Fault.RETRYABLE: PullTrouble.PASSING,
}
_TROUBLE_OF_START: Final = {
    Fault.USER_ERROR: StartTrouble.JOB,
    Fault.USER_ERROR_OR_PLACEMENT: StartTrouble.JOB,
    Fault.NODE_FAULT: StartTrouble.NODE,
    Fault.RETRYABLE: StartTrouble.NODE,
    Fault.DUPLICATE: StartTrouble.NODE,
}


def classify_pull(error: EngineError) -> PullTrouble:
    """What to do about a pull that ended so. Of what nobody has seen before only a refusal of the request stays."""
    reply = find_reply(PULL, error.message)
    if reply is not None:
        return _TROUBLE_OF_PULL[reply.fault]
    return PullTrouble.DENIED if refuses_request(error) else PullTrouble.PASSING


def tell_pull(error: EngineError) -> str:
    """What a pull that ended so came to, for people: what the words mean where that is known, and the words."""
    reply = find_reply(PULL, error.message)
    return error.message if reply is None else f"{reply.meaning}: {error.message}"


def refuses_request(error: EngineError) -> bool:
    """Whether the engine says that the request itself is at fault, so that a repeat gets the same answer.

    Absence and conflict (404, 409) have meanings of their own, and a time-out or a limit (408, 429) may pass.
    """
    return _BAD_REQUEST <= error.status < _SERVER_ERROR and error.status not in _NOT_THE_REQUEST


def classify_start(error: EngineError) -> StartFault:
    """What the engine's refusal to create or start a container means."""
    said = error.message
    if error.status == 404 and _NO_SUCH_CONTAINER in said.lower():  # noqa: PLR2004 - HTTP
        return StartFault(StartTrouble.GONE, said)
    if error.status == 404 and _NO_SUCH_IMAGE.search(said):  # noqa: PLR2004 - HTTP
        return StartFault(StartTrouble.NO_IMAGE, said)
    limit = _LIMIT.search(said)
    if limit is not None:
        return StartFault(StartTrouble.LIMIT, said, _LIMIT_NAMES.get(limit[1], ""))
    return classify_message(said) or StartFault(
        StartTrouble.REFUSED if refuses_request(error) else StartTrouble.NODE, said
    )


def find_init_refusal(log: bytes) -> str:
    """A sentence when the whole `log` is that the container's init could not start its program; else empty."""
    said = _INIT.fullmatch(log)
    if said is None:
        return ""
    program, reason = said[1].decode(errors="replace"), said[2].decode(errors="replace")
    if program == "bash" and reason == "No such file or directory":
        return f"the image has no bash: {reason}"
    return f"the image's {program} cannot be started: {reason}"


def classify_message(said: str) -> StartFault | None:
    """The meaning of an engine's sentence about a start, or None for one that is not known."""
    reply = find_reply(START, said)
    return None if reply is None else StartFault(_TROUBLE_OF_START[reply.fault], f"{reply.meaning}: {said}")


def explain_reply(said: str) -> Reply:
    """What `said` means, whatever it was said about; of a sentence that is not known it says so."""
    unknown = Reply(Fault.UNKNOWN, "this reply is not known", "read its words; report them if they recur")
    return find_reply((*START, *PULL, *UNDECIDED), said) or unknown


def tells_of_pull(said: str) -> bool:
    """Whether `said` is known as a sentence about fetching an image, and not about a start."""
    return find_reply(START, said) is None and find_reply(PULL, said) is not None

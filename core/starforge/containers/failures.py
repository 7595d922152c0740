"""What an engine's words mean: for a pull, and for a container that could not be created or started.

Codes do not tell these apart (a registry's 401 and 503 both arrive as 500, a missing bash and a missing runc both as
400), so the text decides. Tables are read from the top; the first that matches counts.
"""

import re
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Final

from starforge.containers.engine import EngineError
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


_PULL: Final = (
    (re.compile(r"no space left on device|read-only file system|input/output error"), PullTrouble.NODE),
    (
        re.compile(r"toomanyrequests|too many requests|\b429\b|received unexpected HTTP status: 5\d\d"),
        PullTrouble.PASSING,
    ),
    (
        re.compile(
            r"unauthorized|denied|no basic auth credentials|authentication required|not found|manifest unknown"
            r"|name unknown|invalid reference|invalid repository|must be lowercase|no matching manifest"
            r"|unsupported|failed verification|repository name|manifest invalid",
            re.IGNORECASE,
        ),
        PullTrouble.DENIED,
    ),
)

_BAD_REQUEST: Final = 400
_SERVER_ERROR: Final = 500
_NOT_THE_REQUEST: Final = frozenset({404, 408, 409, 429})

_INIT: Final = re.compile(rb"\[FATAL tini \(\d+\)\] exec (\S+) failed: ([^\n]*)\n?")
_LIMIT: Final = re.compile(r"error setting rlimit type (\d+)")
_LIMIT_NAMES: Final = {"7": "nofile", "8": "memlock"}
_NO_SUCH_CONTAINER: Final = "no such container"
_NO_SUCH_IMAGE: Final = re.compile(r"no such image", re.IGNORECASE)

_START: Final = (
    (r"no space left on device", StartTrouble.NODE, "this machine's disk is full"),
    (r"containerd\.sock|connection error", StartTrouble.NODE, "the engine has lost containerd"),
    (r"fork/exec [^ ]*: no such file or directory", StartTrouble.NODE, "the engine's runc is missing"),
    (r'exec: "bash": executable file not found', StartTrouble.JOB, "the image has no bash"),
    (r'exec: "bash": permission denied', StartTrouble.JOB, "the image's bash may not be executed"),
    (r"exec format error", StartTrouble.JOB, "the image is for another processor"),
    (r"unable to find (user|group)", StartTrouble.JOB, "the image does not know the user"),
    (r"could not select device driver", StartTrouble.NODE, "the engine has no such GPU runtime"),
    (r"error running hook|nvidia-container-cli", StartTrouble.NODE, "the GPU runtime refused"),
    (r"CDI device injection failed|unresolvable CDI", StartTrouble.NODE, "the engine does not know these CDI devices"),
    (r"bind source path does not exist", StartTrouble.NODE, "a folder to mount is missing on this machine"),
    (r"invalid mount config", StartTrouble.NODE, "a folder cannot be mounted on this machine"),
)


def classify_pull(error: EngineError) -> PullTrouble:
    """What to do about a pull that ended so. Of what nobody has seen before only a refusal of the request stays."""
    for pattern, trouble in _PULL:
        if pattern.search(error.message):
            return trouble
    return PullTrouble.DENIED if refuses_request(error) else PullTrouble.PASSING


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
    for pattern, trouble, meaning in _START:
        if re.search(pattern, said):
            return StartFault(trouble, f"{meaning}: {said}")
    return None

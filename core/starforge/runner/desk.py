"""What every step of an attempt needs, on one desk: places, secrets, spool, wishes, signals and the line to ingest."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from starforge.contract import capsule as contract
from starforge.runner.endings import Interrupted
from starforge.runner.masking import Masker
from starforge.runner.places import Places
from starforge.runner.prepare import Secrets
from starforge.runner.signals import Signals
from starforge.runner.spool import Spool
from starforge.runner.steps import Steps
from starforge.runner.wishes import Wishes

if TYPE_CHECKING:
    from starforge.runner.sender import Sender

ACKNOWLEDGE_S = 10.0


class Line:
    """The line to ingest: opened once the training process has started, since a start must not wait for it."""

    def __init__(self, spool: Spool, wishes: Wishes, signals: Signals, node_rank: int) -> None:
        self._parts = (spool, wishes, signals.ring, node_rank)
        self._address: Optional[contract.Ingest] = None
        self._token: Optional[str] = None
        self._sender: Optional[Sender] = None

    def know(self, address: Optional[contract.Ingest], token: Optional[str]) -> None:
        """Take the address and the token; without either nothing will be sent."""
        self._address, self._token = address, token

    def open(self) -> None:
        """Begin to send what is in the spool, and what will come."""
        if self._sender is None and self._address is not None and self._token:
            from starforge.runner.sender import Sender  # noqa: PLC0415 - after the start, see above

            self._sender = Sender(*self._parts)
            self._parts[0].on_append = self._sender.wake
            self._sender.start(self._address, self._token)

    def finish(self, record: Dict[str, Any]) -> bool:
        """Wait a bounded time until everything and the exit record is acknowledged; say whether it was."""
        self.open()
        return self._sender is not None and self._sender.finish(record, ACKNOWLEDGE_S)


@dataclass(frozen=True)
class Desk:
    """One node's attempt. `started` is a time of the monotonic clock."""

    places: Places
    secrets: Secrets
    patterns: List[bytes]
    spool: Spool
    wishes: Wishes
    signals: Signals
    line: Line
    steps: Steps
    started: float

    def check(self) -> None:
        """Raise Interrupted when the attempt is to end before its training process started."""
        self.steps.attend("reading control.json", self.wishes.poll, None)
        sender = self.signals.take_term()
        if sender is not None:
            self.wishes.receive_term(from_inside=sender == "inside")
        if self.wishes.must_end:
            raise Interrupted

    def mask(self, text: str) -> bytes:
        """Give a whole text as bytes without the run's secrets."""
        masker = Masker(self.patterns)
        return masker.feed(text.encode("utf-8", "backslashreplace")) + masker.flush()


def open_desk(places: Places, secrets: Secrets, patterns: List[bytes], spool: Spool) -> Desk:
    """Set the desk up; takes over the signals of the process."""
    signals = Signals()
    wishes = Wishes(places.control, contract.Limits().grace_s)
    line = Line(spool, wishes, signals, places.node_rank)
    return Desk(places, secrets, patterns, spool, wishes, signals, line, Steps(spool), time.monotonic())

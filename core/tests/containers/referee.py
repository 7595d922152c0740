"""What may never happen on one machine, judged from the engine's own side at the moment when it happens."""

from dataclasses import dataclass, field

from core.tests.containers.fake_engine import Box, FakeDaemon, FakeEngine, Watcher
from starforge.containers.labels import State
from starforge.contract.ids import AttemptId
from starforge.contract.launch import LaunchRequest


@dataclass(slots=True)
class Tracked:
    """One attempt, and what its hosts have promised of it so far.

    Attributes:
        starts: How often the engine has begun to run it.
        over: Why it may not start any more, in the words of whoever promised it; empty before that.
        refused: Its last launch was refused; nothing starts before the next one.
        removable: Somebody was allowed to remove it though it had started.
        killable: Somebody was allowed to remove it though it runs.
        by_hand: A person removed its container, of which no host can know.
        pending: A launch was accepted whose image is not there.
        stop_by: The virtual time that the acknowledged stop named; None before one.
        stopper: Which process acknowledged it.
        cleaned: A cleanup has said that nothing is left.

    """

    attempt: AttemptId
    request: LaunchRequest
    starts: int = 0
    over: str = ""
    refused: bool = False
    removable: bool = False
    killable: bool = False
    by_hand: bool = False
    pending: bool = False
    stop_by: float | None = None
    stopper: str = ""
    cleaned: bool = False


@dataclass(slots=True)
class Referee(Watcher):
    """Watches one daemon. `locks` says for each living process which lock it launches under."""

    daemon: FakeDaemon
    locks: dict[FakeEngine, str] = field(default_factory=dict)
    attempts: dict[AttemptId, Tracked] = field(default_factory=dict)
    fouls: list[str] = field(default_factory=list)

    def created(self, box: Box) -> None:
        """Under one lock no container claims a GPU that another one, which could be seen, holds."""
        if box.maker is None:
            return
        lock = self.locks[box.maker]
        for other in self._living(box):
            under = None if other.maker is None else self.locks[other.maker]
            if under == lock and not other.late and other.gpus & box.gpus:
                self.fouls.append(f"{box.attempt} claims a GPU that {other.attempt} holds, under one lock")

    def started(self, box: Box) -> None:
        """Neither do two run on one GPU, nor does an attempt run twice, or after its end was promised."""
        for other in self.daemon.boxes.values():
            if other is not box and other.state is State.RUNNING and other.gpus & box.gpus:
                self.fouls.append(f"{box.attempt} and {other.attempt} run on one GPU")
        tracked = self.attempts.get(AttemptId(box.attempt))
        if tracked is None:
            return
        tracked.starts += 1
        if tracked.starts > 1 and not tracked.by_hand:
            self.fouls.append(f"{box.attempt} was started {tracked.starts} times")
        if tracked.over:
            self.fouls.append(f"{box.attempt} was started after it was {tracked.over}")
        if tracked.refused:
            self.fouls.append(f"{box.attempt} was started after its launch was refused")
        if box.gpus != frozenset(device_ids(box)):
            self.fouls.append(f"{box.attempt} is labelled with other GPUs than it was given")

    def removed(self, box: Box) -> None:
        """What ran is kept, with its exit code, until somebody may remove it."""
        tracked = self.attempts.get(AttemptId(box.attempt))
        if tracked is not None and box.started_at is not None and not tracked.removable:
            self.fouls.append(f"{box.attempt} had run and was removed")
        elif tracked is not None and box.lives and not tracked.killable:
            self.fouls.append(f"{box.attempt} was removed while it ran")

    def _living(self, box: Box) -> list[Box]:
        """Others that hold what they name, and that a listing shows."""
        return [
            other
            for other in self.daemon.listed()
            if other is not box
            and (other.lives or (other.state is State.CREATED and other.labels.get("forge.boot") == self.daemon.boot))
        ]


def device_ids(box: Box) -> list[str]:
    """The GPUs that the engine gives to `box`."""
    requests = (box.body.get("HostConfig") or {}).get("DeviceRequests") or ()
    return [device for request in requests for device in request["DeviceIDs"]]

"""Follows a job: its log byte by byte and its changes of state, through restarts of the console."""

import queue
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from starforge.client.console import Console
from starforge.client.http import Connection
from starforge.client.logs import LogAsk, LogPart
from starforge.client.patience import PATIENT, Outage, Patience, take_next
from starforge.contract.api import EventView, JobView
from starforge.contract.states import ENDED, JobState, has_ended_for_good
from starforge.errors import Busy, Unavailable

POLL_WAIT_S: Final = 20
_LAST_LOG_S: Final = 30.0
_FIRST_PAUSE_S: Final = 0.1
_MAX_PAUSE_S: Final = 5.0
_IDLE_S: Final = 1.0
_LOOK_S: Final = 1.0
_PREPARING: Final = frozenset({JobState.QUEUED, JobState.SUBMITTED, JobState.PENDING})


@dataclass(frozen=True, slots=True)
class AttemptBegins:
    """What follows is the log of attempt `number`."""

    number: int


@dataclass(frozen=True, slots=True)
class LogBytes:
    """The next bytes of the present attempt's log."""

    content: bytes


@dataclass(frozen=True, slots=True)
class LogGap:
    """A range of bytes of the present attempt's log that is not at the console."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Change:
    """An event of the job."""

    event: EventView


@dataclass(frozen=True, slots=True)
class Waiting:
    """What the console says of a job beside its events, such as what it waits for; told at every look at the job."""

    state: str
    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something about following itself, for a person."""

    text: str


@dataclass(frozen=True, slots=True)
class End:
    """The job is over; nothing follows."""

    job: JobView


AnswerT = TypeVar("AnswerT")
Item: TypeAlias = AttemptBegins | LogBytes | LogGap | Change | Waiting | Note | End


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where following begins. `attempt` None takes the newest; `only_attempt` stays with it; `node` 0 leads.

    `line` and `tail` count lines of that attempt, and go before `offset`.
    """

    attempt: int | None = None
    offset: int = 0
    line: int | None = None
    tail: int | None = None
    only_attempt: bool = False
    node: int = 0


def is_over(job: JobView) -> bool:
    """Whether the job has ended and will not be retried by itself."""
    return has_ended_for_good(job.state, job.retry_at)


def follow(
    console: Console, job: str, start: Start = Start(), patience: Patience = PATIENT
) -> Generator[Item, None, None]:
    """What happens to `job` until it is over, without a lost or doubled byte. Ends with `End`.

    While the console is away it is asked again and again, for as long as `patience` says, and notes say so. Closing the
    iterator ends the calls; the job is not touched.

    Raises:
        StarForgeError: the console refuses (signed out, no such job), or was silent for too long.
        BrokenPipeError: nobody wants to know any more.

    """
    follower = _Follower(job, start, patience)
    for loop in (follower.follow_log, follower.follow_events):
        # Each has a connection of its own, which it closes itself: one that waits cannot be closed from outside.
        own = console.connection.make_twin()
        threading.Thread(target=follower.run, args=(loop, own), daemon=True, name=f"follow-{job}").start()
    try:
        while True:
            item = take_next(follower.items, patience, _LOOK_S)
            if isinstance(item, BaseException):
                raise item
            yield item
            if isinstance(item, End):
                return
    finally:
        follower.stopped.set()


@dataclass(slots=True)
class _Reading:
    """How far the log was read. `deadline`: the job is over, and so long its last bytes are waited for."""

    attempt: int
    offset: int
    line: int | None = None
    tail: int | None = None
    deadline: float | None = None

    def go_to(self, offset: int) -> None:
        """Read on there."""
        self.offset, self.line, self.tail = offset, None, None

    def is_late(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline


class _Follower:
    """Two loops, one for the log and one for events, that fill one queue."""

    def __init__(self, job: str, start: Start, patience: Patience) -> None:
        self._job = job
        self._start = start
        self.items: queue.SimpleQueue[Item | BaseException] = queue.SimpleQueue()
        self.stopped = threading.Event()
        self._outage = Outage(patience, f"sf job logs -f {job}", lambda text: self.items.put(Note(text)))
        self._events_lock = threading.Lock()
        self._last_event = 0
        self._event_note = ""
        self._seen_note = ""
        self._is_preparing = False
        self._changed = threading.Event()

    def run(self, loop: Callable[[Console], None], connection: Connection) -> None:
        try:
            with connection:
                loop(Console(connection))
        except Exception as error:  # noqa: BLE001 - a thread's outermost frame: the reader raises it
            if not self.stopped.is_set():
                self.items.put(error)

    def follow_events(self, console: Console) -> None:
        while not self.stopped.is_set():
            self._fetch_events(console, POLL_WAIT_S)

    def follow_log(self, console: Console) -> None:
        start = self._start
        reading = _Reading(self._await_attempt(console), start.offset, start.line, start.tail)
        if not self.stopped.is_set():
            self.items.put(AttemptBegins(reading.attempt))
        while not self.stopped.is_set():
            part = self._patiently(lambda: self._read(console, reading))
            if part is not None:
                reading.go_to(part.next_offset)
            if part is not None and (part.content or part.missing):
                self.items.put(LogBytes(part.content) if part.missing is None else LogGap(*part.missing))
            elif part is not None and self._decide_after_silence(console, reading, ended=part.ended):
                return

    def _read(self, console: Console, reading: "_Reading") -> LogPart:
        # Until it runs there is no log, and what it waits for is to be seen soon.
        wait_s = 1 if self._is_preparing or reading.deadline is not None else POLL_WAIT_S
        ask = LogAsk(
            offset=reading.offset,
            line=reading.line,
            tail=reading.tail,
            attempt=reading.attempt,
            node=self._start.node,
            wait_s=wait_s,
        )
        return console.log(self._job, ask)

    def _decide_after_silence(self, console: Console, reading: "_Reading", *, ended: bool) -> bool:
        """Whether following is over, once nothing new came for the present attempt."""
        job = self._load_job(console)
        if job is None:
            return True
        has_newer = job.attempt > reading.attempt
        if ended and has_newer and not self._start.only_attempt:
            reading.attempt, reading.deadline = reading.attempt + 1, None
            reading.go_to(0)
            self.items.put(AttemptBegins(reading.attempt))
            return False
        over = is_over(job) or (self._start.only_attempt and has_newer)
        if over and (ended or reading.is_late()):
            self._end(console, job, complete=ended)
            return True
        if over and reading.deadline is None:
            reading.deadline = time.monotonic() + _LAST_LOG_S
        if ended:
            self._await_change()
        return False

    def _await_attempt(self, console: Console) -> int:
        """The attempt to begin with; a job that waits in the queue has none yet, one that was stopped there never."""
        while not self.stopped.is_set():
            job = self._load_job(console)
            if job is None:
                break
            if self._start.attempt is not None and job.attempt >= self._start.attempt:
                return self._start.attempt
            if self._start.attempt is None and job.attempt > 0:
                return job.attempt
            if is_over(job):
                self._end(console, job, complete=True)
                break
            self._await_change()
        self.stopped.set()
        return 0

    def _end(self, console: Console, job: JobView, *, complete: bool) -> None:
        self._fetch_events(console, 0)
        if not complete:
            self.items.put(Note(f"the log did not end within {_LAST_LOG_S:.0f} s of the job; its end may be missing"))
        self.items.put(End(job))

    def _await_change(self) -> None:
        self._changed.wait(_IDLE_S)
        self._changed.clear()

    def _load_job(self, console: Console) -> JobView | None:
        detail = self._patiently(lambda: console.job(self._job))
        if detail is None:
            return None
        self._is_preparing = detail.job.state in _PREPARING
        self._tell_waiting(console, detail.job)
        return detail.job

    def _tell_waiting(self, console: Console, job: JobView) -> None:
        if not job.note or job.state in ENDED:
            return
        if job.note != self._seen_note:
            self._fetch_events(console, 0)  # a note that came with an event is told by the event
            self._seen_note = job.note
        if job.note != self._event_note:
            self.items.put(Waiting(job.state, job.note))

    def _fetch_events(self, console: Console, wait_s: int) -> None:
        after = self._last_event
        answer = self._patiently(lambda: console.events(self._job, after, wait_s))
        if answer is None:
            return
        with self._events_lock:
            for event in answer.items:
                if event.number > self._last_event:
                    self._last_event = event.number
                    if event.kind == "state":
                        self._event_note = event.note
                    self.items.put(Change(event))
                    self._changed.set()

    def _patiently(self, call: Callable[[], AnswerT]) -> AnswerT | None:
        pause_s = _FIRST_PAUSE_S
        while not self.stopped.is_set():
            count = self._outage.count
            try:
                answer = call()
            except Unavailable as error:
                if self.stopped.is_set():
                    break
                self._outage.note_away(error)
                self.stopped.wait(error.retry_after_s if isinstance(error, Busy) else pause_s)
                pause_s = min(pause_s * 2, _MAX_PAUSE_S)
            else:
                self._outage.note_back(count)
                return answer
        return None

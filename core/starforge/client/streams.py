"""Follows a job: its log byte by byte and its changes of state, through restarts of the console."""

import queue
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from starforge.client.console import Console, LogPart
from starforge.client.http import Connection
from starforge.contract.api import EventView, JobView
from starforge.contract.states import ENDED, JobState
from starforge.errors import Busy, Unavailable

POLL_WAIT_S: Final = 20
_LAST_LOG_S: Final = 30.0
_FIRST_PAUSE_S: Final = 0.1
_MAX_PAUSE_S: Final = 5.0
_IDLE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class AttemptBegins:
    """What follows is the log of attempt `number`."""

    number: int


@dataclass(frozen=True, slots=True)
class LogBytes:
    """The next bytes of the present attempt's log."""

    content: bytes


@dataclass(frozen=True, slots=True)
class Change:
    """An event of the job."""

    event: EventView


@dataclass(frozen=True, slots=True)
class Note:
    """Something about following itself, for a person."""

    text: str


@dataclass(frozen=True, slots=True)
class End:
    """The job is over; nothing follows."""

    job: JobView


AnswerT = TypeVar("AnswerT")
Item: TypeAlias = AttemptBegins | LogBytes | Change | Note | End


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where following begins. `attempt` None takes the newest; `only_attempt` stays with it."""

    attempt: int | None = None
    offset: int = 0
    only_attempt: bool = False


def is_over(job: JobView) -> bool:
    """Whether the job has ended and will not be retried by itself."""
    return job.state in set(ENDED) and not (job.state == JobState.FAILED and job.retry_at is not None)


def follow(console: Console, job: str, start: Start = Start()) -> Generator[Item, None, None]:
    """What happens to `job` until it is over, without a lost or doubled byte. Ends with `End`.

    While the console is away it is asked again and again, and one note says so. Closing the iterator ends the calls;
    the job is not touched.

    Raises:
        StarForgeError: the console refuses (signed out, no such job).

    """
    follower = _Follower(job, start)
    for loop in (follower.follow_log, follower.follow_events):
        # Each has a connection of its own, which it closes itself: one that waits cannot be closed from outside.
        own = console.connection.make_twin()
        threading.Thread(target=follower.run, args=(loop, own), daemon=True, name=f"follow-{job}").start()
    try:
        while True:
            item = follower.items.get()
            if isinstance(item, BaseException):
                raise item
            yield item
            if isinstance(item, End):
                return
    finally:
        follower.stopped.set()


class _Outage:
    """Says once that the console is away, and once that it is back, whichever thread sees it first."""

    def __init__(self, items: "queue.SimpleQueue[Item | BaseException]") -> None:
        self._items = items
        self._lock = threading.Lock()
        self._is_away = False
        self.count = 0

    def note_away(self, error: Unavailable) -> None:
        with self._lock:
            if not self._is_away:
                self.count += 1
                self._items.put(Note(f"{error.what}; trying again until it answers"))
            self._is_away = True

    def note_back(self, count: int) -> None:
        """Take the success of a call that began after outage `count`; one that began before says nothing of now."""
        with self._lock:
            if self._is_away and count == self.count:
                self._items.put(Note("the console answers again"))
                self._is_away = False


@dataclass(slots=True)
class _Reading:
    """How far the log was read. `deadline`: the job is over, and so long its last bytes are waited for."""

    attempt: int
    offset: int
    deadline: float | None = None

    def is_late(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline


class _Follower:
    """Two loops, one for the log and one for events, that fill one queue."""

    def __init__(self, job: str, start: Start) -> None:
        self._job = job
        self._start = start
        self.items: queue.SimpleQueue[Item | BaseException] = queue.SimpleQueue()
        self.stopped = threading.Event()
        self._outage = _Outage(self.items)
        self._events_lock = threading.Lock()
        self._last_event = 0
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
        reading = _Reading(self._await_attempt(console), self._start.offset)
        if not self.stopped.is_set():
            self.items.put(AttemptBegins(reading.attempt))
        while not self.stopped.is_set():
            part = self._patiently(lambda: self._read(console, reading))
            if part is not None and part.content:
                reading.offset += len(part.content)
                self.items.put(LogBytes(part.content))
            elif part is not None and self._decide_after_silence(console, reading, ended=part.ended):
                return

    def _read(self, console: Console, reading: "_Reading") -> LogPart:
        wait_s = POLL_WAIT_S if reading.deadline is None else 1
        return console.log(self._job, reading.offset, wait_s=wait_s, attempt=reading.attempt)

    def _decide_after_silence(self, console: Console, reading: "_Reading", *, ended: bool) -> bool:
        """Whether following is over, once nothing new came for the present attempt."""
        job = self._load_job(console)
        if job is None:
            return True
        has_newer = job.attempt > reading.attempt
        if ended and has_newer and not self._start.only_attempt:
            reading.attempt, reading.offset, reading.deadline = reading.attempt + 1, 0, None
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
        return None if detail is None else detail.job

    def _fetch_events(self, console: Console, wait_s: int) -> None:
        after = self._last_event
        answer = self._patiently(lambda: console.events(self._job, after, wait_s))
        if answer is None:
            return
        with self._events_lock:
            for event in answer.items:
                if event.number > self._last_event:
                    self._last_event = event.number
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

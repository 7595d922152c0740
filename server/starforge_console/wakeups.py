"""Wake-ups: whoever waits for a job, a log or the queue is told when it has changed.

They carry no content: who is woken reads the ledger. A wake-up that nobody waits for is lost, and a waiter that looks
again after its own time-out misses nothing.
"""

import asyncio
from typing import Final

QUEUE: Final = "queue"
"""Something may be placed: a job was queued, or room became free."""

BACKEND: Final = "backend"
"""Something happened at a backend, or a stop was asked for: reconcile."""

ENDINGS: Final = "endings"
"""An attempt ended: its spool is to be read, its rest to be removed."""

INPUTS: Final = "inputs"
"""A job may name something that has to be fetched."""

JOBS: Final = "jobs"
"""Something happened to some job; told with every job's own topic."""

RETENTION: Final = "retention"
"""The collector is to look now."""

WEBHOOKS: Final = "webhooks"
"""A webhook is to be told something: it was added, or a try has ended."""

DELETIONS: Final = "deletions"
"""A job was deleted: its folder is to be removed."""

NODES: Final = "nodes"
"""A machine joined, changed, or told something new."""

_JOB: Final = "job:"


def job_topic(job_id: str) -> str:
    """The topic of one job's events."""
    return f"{_JOB}{job_id}"


def stream_topic(attempt: str, stream: str) -> str:
    """The topic of one stream of an attempt."""
    return f"stream:{attempt}:{stream}"


class Wakeups:
    """Topics of one event loop. `notify` may be called from any thread."""

    def __init__(self) -> None:
        self._waiters: dict[str, set[asyncio.Future[None]]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def bind(self) -> None:
        """Belong to the running loop; until then nobody can wait."""
        self._loop = asyncio.get_running_loop()

    def notify(self, *topics: str) -> None:
        """Wake whoever waits for one of `topics`; for a job's topic also whoever waits for any job."""
        if self._loop is None or self._loop.is_closed():
            return
        try:
            inside = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            inside = False
        if inside:
            self._wake(topics)
        else:
            self._loop.call_soon_threadsafe(self._wake, topics)

    def subscribe(self, *topics: str) -> "Waiter":
        """Begin to listen before looking, so that nothing between the look and the wait is missed."""
        waiter = Waiter(self, topics)
        for topic in topics:
            self._waiters.setdefault(topic, set()).add(waiter.woken)
        return waiter

    def forget(self, waiter: "Waiter") -> None:
        """Stop listening."""
        for topic in waiter.topics:
            waiting = self._waiters.get(topic)
            if waiting is not None:
                waiting.discard(waiter.woken)
                if not waiting:
                    del self._waiters[topic]

    def _wake(self, topics: tuple[str, ...]) -> None:
        if any(topic.startswith(_JOB) for topic in topics):
            topics = (*topics, JOBS)
        for topic in topics:
            for woken in self._waiters.pop(topic, ()):
                if not woken.done():
                    woken.set_result(None)


class Waiter:
    """One wait: created before the look, awaited after it, and over once it was woken."""

    def __init__(self, wakeups: Wakeups, topics: tuple[str, ...]) -> None:
        self._wakeups = wakeups
        self.topics = topics
        self.woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def wait(self, timeout_s: float) -> bool:
        """Whether something happened within `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(self.woken)
        except TimeoutError:
            return False
        finally:
            self._wakeups.forget(self)
        return True

"""One thread that writes: many closures a commit, each in a savepoint of its own.

Every transaction starts with BEGIN IMMEDIATE (a plain BEGIN lets two writers meet as "database is locked"). Savepoints
go through the driver, which costs half of a nested transaction of SQLAlchemy's. An answer leaves only after the commit.
After every error the driver is asked whether a transaction is still open: a full disk ends the whole of it, and then
the whole batch fails and nothing more of it runs.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from starforge_console.errors import LedgerBusy, LedgerFailed

BATCH: Final = 64
WAITING_AT_MOST: Final = 4096
RETRY_AFTER_S: Final = 1.0

T = TypeVar("T")


@dataclass(slots=True)
class _Job:
    work: Callable[[Connection], Any]
    done: "Future[Any] | asyncio.Future[Any]"
    answer: object = None
    error: BaseException | None = None

    def deliver(self) -> None:
        if self.done.cancelled():
            return  # the caller left; what was written stays written
        if self.error is not None:
            self.done.set_exception(self.error)
        else:
            self.done.set_result(self.answer)


class Writer:
    """Runs closures that write, in order, on one connection."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self._queue: queue.Queue[_Job | None] = queue.Queue(WAITING_AT_MOST)
        self._thread = threading.Thread(target=self._run, name=f"{name}-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[Connection], T]) -> "Future[T]":
        """Queue `work` from a thread; the future is done once its transaction is committed.

        Raises:
            LedgerBusy: too many writes wait already.

        """
        done: Future[T] = Future()
        self._enqueue(_Job(work, done))
        return done

    def submit_from_loop(self, work: Callable[[Connection], T]) -> "asyncio.Future[T]":
        """The same from an event loop, whose answers come a whole batch at a time."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._enqueue(_Job(work, done))
        return done

    def close(self) -> None:
        """Finish what is queued, then end the thread."""
        self._queue.put(None)
        self._thread.join()

    def _enqueue(self, job: _Job) -> None:
        try:
            self._queue.put_nowait(job)
        except queue.Full:
            raise LedgerBusy(
                f"{WAITING_AT_MOST} writes wait for the ledger",
                retry_after_s=RETRY_AFTER_S,
                next_step="repeat in a second",
            ) from None

    def _run(self) -> None:
        with self._engine.connect() as connection:
            while batch := self._next_batch():
                _commit_batch(connection, batch)
                _answer(batch)

    def _next_batch(self) -> list[_Job]:
        first = self._queue.get()
        if first is None:
            return []
        batch = [first]
        with contextlib.suppress(queue.Empty):
            while len(batch) < BATCH:
                job = self._queue.get_nowait()
                if job is None:
                    self._queue.put(None)
                    break
                batch.append(job)
        return batch


def _commit_batch(connection: Connection, batch: Sequence[_Job]) -> None:
    try:
        with connection.begin():
            for job in batch:
                _run_in_savepoint(connection, job)
    except _TransactionLostError as lost:
        _fail(batch, lost)
    except SQLAlchemyError as error:
        _fail(batch, error)


class _TransactionLostError(Exception):
    """The database ended the whole transaction under a savepoint."""


def _run_in_savepoint(connection: Connection, job: _Job) -> None:
    raw: Any = connection.connection.driver_connection
    raw.execute("SAVEPOINT w")
    try:
        job.answer = job.work(connection)
    except BaseException as error:  # whatever the closure raises is its caller's, not this thread's
        job.error = error
        if not raw.in_transaction:
            raise _TransactionLostError(str(error)) from error
        raw.execute("ROLLBACK TO w")
    raw.execute("RELEASE w")


def _fail(batch: Sequence[_Job], error: BaseException) -> None:
    for job in batch:
        job.error = LedgerFailed(
            "the ledger could not commit; nothing of this request was kept",
            why=str(error).splitlines()[0] if str(error) else type(error).__name__,
            next_step="look at the disk that holds FORGE_CONSOLE_STATE_DIR",
        )


def _answer(batch: Sequence[_Job]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in batch:
        if isinstance(job.done, asyncio.Future):
            by_loop.setdefault(job.done.get_loop(), []).append(job)
        else:
            job.deliver()
    for loop, jobs in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(_deliver, jobs)


def _deliver(jobs: Sequence[_Job]) -> None:
    for job in jobs:
        job.deliver()

"""One thread that writes: many closures a commit, each in a savepoint of its own.

Every transaction starts with BEGIN IMMEDIATE (a plain BEGIN lets two writers meet as "database is locked"), or with
the lock of PostgreSQL's that stands for it. Savepoints go through the driver, which costs half of a nested transaction
of SQLAlchemy's. An answer leaves only after the commit. After every error the driver is asked whether a transaction is
still open: a full disk or a lost session ends the whole of it, and then the whole batch fails and nothing more of it
runs. What PostgreSQL rolled back for the sake of others (a deadlock, a serialization failure) is run again.
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

from starforge.errors import StarForgeError
from starforge_console.errors import LedgerBusy, LedgerFailed
from starforge_console.ledger.postgres import first_line, is_lost, is_refused, is_repeatable

BATCH: Final = 64
WAITING_AT_MOST: Final = 4096
RETRY_AFTER_S: Final = 1.0
RUNS_AT_MOST: Final = 5
"""So often a batch is run that makes way for somebody else's transaction."""

T = TypeVar("T")


@dataclass(slots=True)
class _Job:
    work: Callable[[Connection], Any]
    done: "Future[Any] | asyncio.Future[Any]"
    answer: object = None
    error: BaseException | None = None

    def begin_again(self) -> None:
        """Forget what an earlier run came to."""
        self.answer = self.error = None

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
    for run in range(1, RUNS_AT_MOST + 1):
        try:
            transaction = connection.begin()
            for job in batch:
                job.begin_again()
                _run_in_savepoint(connection, job)
        except _TransactionLostError as lost:
            _roll_back(connection)
            if is_repeatable(lost.__cause__ or lost) and run < RUNS_AT_MOST:
                continue
            return _fail(batch, lost.__cause__ or lost)
        except (SQLAlchemyError, StarForgeError) as error:
            _roll_back(connection)
            return _fail(batch, error)
        try:
            return transaction.commit()
        except SQLAlchemyError as error:
            _roll_back(connection)
            if is_repeatable(error) and run < RUNS_AT_MOST:
                continue
            is_known = is_repeatable(error) or connection.dialect.name == "sqlite"
            return _fail(batch, error, is_known=is_known)
    return None


class _TransactionLostError(Exception):
    """The database ended the whole transaction under a savepoint, or it has to end for others."""


def _run_in_savepoint(connection: Connection, job: _Job) -> None:
    raw: Any = connection.connection.driver_connection
    driver_error = connection.dialect.loaded_dbapi.Error
    try:
        raw.execute("SAVEPOINT w")
        try:
            job.answer = job.work(connection)
        except BaseException as error:  # whatever the closure raises is its caller's, not this thread's
            job.error = error
            if is_repeatable(error) or _is_lost(connection, raw):
                raise _TransactionLostError from error
            raw.execute("ROLLBACK TO w")
            if is_refused(error):
                job.error = _build_failure(error)
        raw.execute("RELEASE w")
    except driver_error as error:
        raise _TransactionLostError from error


def _is_lost(connection: Connection, raw: Any) -> bool:  # noqa: ANN401 - the driver's own connection
    return not raw.in_transaction if connection.dialect.name == "sqlite" else is_lost(raw)


def _roll_back(connection: Connection) -> None:
    """End what is open; the session that a server ended is replaced when the next batch begins."""
    try:
        connection.rollback()
    except SQLAlchemyError:
        connection.invalidate()


def _fail(batch: Sequence[_Job], error: BaseException, *, is_known: bool = True) -> None:
    for job in batch:
        job.error = _build_failure(error, is_known=is_known)


def _build_failure(error: BaseException, *, is_known: bool = True) -> LedgerFailed:
    kept = "nothing of this request was kept" if is_known else "whether this request was kept is not known"
    return LedgerFailed(
        f"the ledger could not commit; {kept}",
        why=first_line(error),
        next_step="look at the disk that holds FORGE_CONSOLE_STATE_DIR, or at the server of FORGE_DATABASE_URL",
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

"""Short ways through a job's life, by the ledger's own moves."""

from server.tests.web.support import ConsoleUnderTest
from starforge.contract.executor import Target
from starforge.contract.ids import AttemptId, JobId, new_attempt_id
from starforge.contract.states import JobState, Reason
from starforge_console.ledger.endings import note_cleaned, note_finalised
from starforge_console.ledger.moves import Change, Guard, JobRef, move
from starforge_console.ledger.queue import NewAttempt, dequeue, list_queued


def begin(console: ConsoleUnderTest, job: JobId, node: str = "here") -> JobRef:
    """A new attempt of a queued job, running."""
    return go(console, take(console, job, node), Reason.LAUNCHED, Reason.STARTED)


def take(console: ConsoleUnderTest, job: JobId, node: str = "here") -> JobRef:
    """A new attempt of a queued job, submitted."""
    queued = next(one for one in console.ledger.read_now(list_queued) if one.id == job)
    attempt = new_attempt_id(job, queued.number)
    new = NewAttempt(
        id=attempt,
        number=queued.number,
        target=Target(fleet="local", node=node, name=f"sf-{attempt}"),
        token_hash=attempt,
        token_expires_at=console.clock.now() + 1e6,
        lease="test",
        lease_until=console.clock.monotonic() + 100,
    )
    taken = console.ledger.write_now(lambda c: dequeue(c, queued, new, _guard(console)))
    assert taken is not None
    return taken


def go(
    console: ConsoleUnderTest, job: JobRef, *reasons: Reason, retry_at: float | None = None, note: str = ""
) -> JobRef:
    """Move the job on."""
    change = Change(job={"retry_at": retry_at} if retry_at is not None else {}, note=note)
    moved = console.ledger.write_now(lambda c: move(c, job, list(reasons), _guard(console), change))
    assert moved is not None
    return moved


def run_to_end(console: ConsoleUnderTest, job: JobId, reason: Reason = Reason.EXITED_ZERO) -> AttemptId:
    """One attempt from its start to its cleanup."""
    ended = go(console, begin(console, job), reason)
    assert ended.attempt is not None
    clean(console, ended.attempt)
    return ended.attempt


def clean(console: ConsoleUnderTest, attempt: AttemptId, outputs: dict[str, object] | None = None) -> None:
    """Read the attempt's spool to its end and remove what is left of it, as far as the ledger knows."""
    now = console.clock.now()
    console.ledger.write_now(lambda c: note_finalised(c, attempt, now, outputs or {}, None))
    console.ledger.write_now(lambda c: note_cleaned(c, attempt, now))


def retry(console: ConsoleUnderTest, job: JobRef) -> JobRef:
    """A failed job back into the queue and on with its next attempt."""
    assert job.state is JobState.FAILED
    go(console, job, Reason.RETRIED)
    return begin(console, job.id)


def _guard(console: ConsoleUnderTest) -> Guard:
    return Guard(now=console.clock.now(), monotonic=console.clock.monotonic(), lease="test")

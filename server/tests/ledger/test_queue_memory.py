"""Whoever remembers the queue knows what a whole reading of it would say."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from server.tests.ledger.builders import apply, open_ledger, submit, take
from starforge.contract.ids import JobId
from starforge.contract.states import Reason
from starforge_console.domain.inputs import HubInput, HubRef
from starforge_console.domain.waiting import WaitReason, describe_waiting
from starforge_console.ledger.database import Database
from starforge_console.ledger.inputs import pin_commit, write_inputs
from starforge_console.ledger.queue import list_queued, note_waiting
from starforge_console.ledger.queue_memory import RememberedQueue
from starforge_console.ledger.queue_places import put_in_queue
from starforge_console.ledger.tables import jobs

REF = HubRef("model", "a/b", "main")
WHY = [WaitReason("no room", ("n1",))]


def add(ledger: Database, _memory: RememberedQueue, _job: JobId) -> None:
    job = ledger.write_now(submit)
    inputs = write_inputs({"model": HubInput(REF, None)})
    ledger.write_now(lambda c: c.execute(update(jobs).where(jobs.c.id == job).values(inputs=inputs)))


def start(ledger: Database, _memory: RememberedQueue, job: JobId) -> None:
    ledger.write_now(lambda c: take(c, job))


def return_another(ledger: Database, _memory: RememberedQueue, job: JobId) -> None:
    ledger.write_now(lambda c: take(c, job))
    ledger.write_now(lambda c: apply(c, job, Reason.NO_CAPACITY))


def put_first(ledger: Database, _memory: RememberedQueue, job: JobId) -> None:
    ledger.write_now(lambda c: put_in_queue(c, job, "first", "root", 50.0))


def count_passed(ledger: Database, _memory: RememberedQueue, job: JobId) -> None:
    more = update(jobs).where(jobs.c.id == job).values(passed=jobs.c.passed + 1)
    ledger.write_now(lambda c: c.execute(more))


def pin(ledger: Database, _memory: RememberedQueue, job: JobId) -> None:
    ledger.write_now(lambda c: pin_commit(c, [job], REF, "0" * 40, 50.0))


def say_why(ledger: Database, memory: RememberedQueue, job: JobId) -> None:
    (seen,) = ledger.read_now(lambda c: list_queued(c, [job]))
    ledger.write_now(lambda c: note_waiting(c, [(seen, WHY)]))
    memory.note([(seen, describe_waiting(WHY))])


STEPS = [add, start, return_another, put_first, count_passed, pin, say_why]


@settings(max_examples=25, deadline=None)
@given(
    steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 5), st.booleans()), max_size=12),
    alone_at_most=st.sampled_from([1, 500]),
)
def test_the_remembered_queue_is_the_queue_after_any_steps(
    steps: list[tuple[object, int, bool]], alone_at_most: int
) -> None:
    with TemporaryDirectory() as folder, open_ledger(Path(folder)) as ledger:
        memory = RememberedQueue(alone_at_most)
        for _ in range(3):
            add(ledger, memory, JobId(""))
        ledger.read_now(memory.load)
        for step, which, is_read in steps:
            queued = ledger.read_now(list_queued)
            if queued or step is add:
                step(ledger, memory, queued[which % len(queued)].id if queued else JobId(""))  # type: ignore[operator]  # of STEPS
            if is_read:
                ledger.read_now(memory.load)
        # Neither is in an order: whoever reads them puts them into one.
        remembered, read = (
            sorted(ledger.read_now(load), key=lambda job: job.id) for load in (memory.load, list_queued)
        )
        assert remembered == read


def test_a_job_that_did_not_change_is_not_made_again(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        memory = RememberedQueue()
        kept, moved = ledger.write_now(submit), ledger.write_now(submit)
        before = {job.id: job for job in ledger.read_now(memory.load)}
        put_first(ledger, memory, moved)
        after = {job.id: job for job in ledger.read_now(memory.load)}
        assert after[kept] is before[kept]
        assert after[moved].ahead == 1

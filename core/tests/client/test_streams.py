import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from core.tests.client.server import TOKEN, ConsoleState, serve
from starforge.client.console import Console
from starforge.client.http import Connection
from starforge.client.patience import Patience
from starforge.client.streams import AttemptBegins, Change, End, Item, LogBytes, Note, Start, Waiting, follow
from starforge.contract.api import SubmitRequest
from starforge.errors import BackendUnreachable, NotFound, SignInRequired


class Follower:
    """Follows a job in a thread and keeps what came."""

    def __init__(self, console: Console, job: str, start: Start) -> None:
        self.items: list[Item] = []
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, args=(console, job, start))
        self._thread.start()

    def _run(self, console: Console, job: str, start: Start) -> None:
        with closing(follow(console, job, start)) as items:
            for item in items:
                with self._changed:
                    self.items.append(item)
                    self._changed.notify_all()

    def wait_for(self, is_there: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(is_there, timeout=20), self.items

    def finish(self) -> list[Item]:
        self._thread.join(timeout=20)
        assert not self._thread.is_alive(), self.items
        return self.items

    @property
    def log(self) -> bytes:
        return b"".join(item.content for item in self.items if isinstance(item, LogBytes))

    @property
    def states(self) -> list[str | None]:
        return [item.event.state for item in self.items if isinstance(item, Change)]

    @property
    def waits(self) -> list[tuple[str, str]]:
        """What the job waited for, each once in a row."""
        told = [(item.state, item.text) for item in self.items if isinstance(item, Waiting)]
        return [one for index, one in enumerate(told) if index == 0 or told[index - 1] != one]

    @property
    def notes(self) -> list[str]:
        return [item.text for item in self.items if isinstance(item, Note)]


@pytest.fixture
def job(state: ConsoleState, submission: SubmitRequest) -> str:
    return state.add_job(submission)


@pytest.fixture
def follower(console: Console, job: str) -> Iterator[Follower]:
    follower = Follower(console, job, Start())
    yield follower
    follower.finish()


def succeed(state: ConsoleState, job: str) -> None:
    state.move(job, "SUCCEEDED", "exited_zero")
    state.append_log(job, b"", ended=True)


def test_log_and_states_come_as_they_happen_and_end_with_the_job(
    state: ConsoleState, job: str, follower: Follower
) -> None:
    follower.wait_for(lambda: follower.states == ["QUEUED"])
    state.start_attempt(job)
    state.append_log(job, b"one\n")
    follower.wait_for(lambda: follower.log == b"one\n")
    state.append_log(job, b"two\n")
    follower.wait_for(lambda: follower.log == b"one\ntwo\n")
    succeed(state, job)
    items = follower.finish()
    assert follower.states == ["QUEUED", "RUNNING", "SUCCEEDED"]
    assert isinstance(items[-1], End)
    assert items[-1].job.state == "SUCCEEDED"


def test_what_a_job_waits_for_is_told_as_it_changes_and_what_an_event_says_is_not_told_twice(
    state: ConsoleState, job: str, follower: Follower
) -> None:
    state.tell(job, "the engine is away")
    follower.wait_for(lambda: follower.waits == [("QUEUED", "the engine is away")])
    state.tell(job, "2 GPUs are asked and 1 is free")
    follower.wait_for(lambda: len(follower.waits) == 2)
    with state.changed:
        state.jobs[job].logs[1] = b""
    state.move(job, "PENDING", "launched", attempt=1, note="made on node-1")
    state.tell(job, "pulling: 1.0 of 9.0 MB")
    follower.wait_for(lambda: ("PENDING", "pulling: 1.0 of 9.0 MB") in follower.waits)
    state.tell(job, "pulling: 5.0 of 9.0 MB")
    follower.wait_for(lambda: ("PENDING", "pulling: 5.0 of 9.0 MB") in follower.waits)
    state.move(job, "RUNNING", "started", note="pulled in 3 s")
    succeed(state, job)
    follower.finish()
    assert [text for _, text in follower.waits] == [
        "the engine is away",
        "2 GPUs are asked and 1 is free",
        "pulling: 1.0 of 9.0 MB",
        "pulling: 5.0 of 9.0 MB",
    ]


def test_a_note_that_came_with_an_event_is_told_by_the_event_alone(
    state: ConsoleState, console: Console, job: str
) -> None:
    state.move(job, "QUEUED", "no_capacity", note="the machine was full")
    follower = Follower(console, job, Start())
    follower.wait_for(lambda: len(follower.states) == 2)
    state.tell(job, "another reason")
    follower.wait_for(lambda: len(follower.waits) > 0)
    state.move(job, "STOPPED", "stop_requested")
    follower.finish()
    assert follower.waits == [("QUEUED", "another reason")]


def test_a_console_that_stays_away_is_spoken_of_again_and_given_up(
    state: ConsoleState, submission: SubmitRequest
) -> None:
    job = state.add_job(submission)
    patience = Patience(remind_s=0.3, give_up_s=1.0, is_wanted=lambda: True)
    said: list[str] = []
    with ExitStack() as life:
        connection = life.enter_context(Connection(life.enter_context(serve(state)), TOKEN))
        items = follow(Console(connection), job, Start(), patience)
        assert isinstance(next(items), Change)
        life.close()
        with pytest.raises(BackendUnreachable) as given_up:
            said.extend(item.text for item in items if isinstance(item, Note))
    # A server that ends may still answer a call under way: the outage that lasts is the one that was told last.
    reminders = said[max(n for n, text in enumerate(said) if "trying again" in text) + 1 :]
    assert reminders
    assert all("still no answer" in text and "giving up in" in text for text in reminders)
    assert f"sf job logs -f {job}" in given_up.value.next_step
    assert given_up.value.exit_code == 1


def test_following_ends_when_nobody_wants_it_any_more(console: Console, job: str) -> None:
    patience = Patience(is_wanted=lambda: False)
    with pytest.raises(BrokenPipeError):
        list(follow(console, job, Start(), patience))


def test_bytes_that_come_after_the_jobs_end_are_waited_for(state: ConsoleState, job: str, follower: Follower) -> None:
    state.start_attempt(job)
    state.move(job, "SUCCEEDED", "exited_zero")
    follower.wait_for(lambda: "SUCCEEDED" in follower.states)
    state.append_log(job, b"late", ended=True)
    follower.finish()
    assert follower.log == b"late"


def test_a_restart_of_the_console_loses_and_doubles_no_byte_and_is_told_once(
    state: ConsoleState, submission: SubmitRequest
) -> None:
    job = state.add_job(submission)
    state.log_piece = 1000
    written = b""
    with serve(state) as url:
        port = int(url.rpartition(":")[2])
        connection = Connection(url, TOKEN)
        follower = Follower(Console(connection), job, Start())
        state.start_attempt(job)
        for number in range(300):
            line = b"line %d of the first life\n" % number
            written += line
            state.append_log(job, line)
        follower.wait_for(lambda: len(follower.log) > 2000)
    follower.wait_for(lambda: len(follower.notes) == 1)
    with serve(state, port):
        for number in range(300):
            line = b"line %d of the second life\n" % number
            written += line
            state.append_log(job, line)
        follower.wait_for(lambda: follower.log.endswith(b"line 299 of the second life\n"))
        succeed(state, job)
        follower.finish()
        connection.close()
    assert follower.log == written
    assert len(follower.notes) == 2
    assert "again" in follower.notes[1]
    assert follower.states == ["QUEUED", "RUNNING", "SUCCEEDED"]


def test_a_retry_is_followed_into_its_attempt(state: ConsoleState, job: str, follower: Follower) -> None:
    state.start_attempt(job)
    state.append_log(job, b"first", ended=True)
    state.move(job, "FAILED", "exited_nonzero", retry_at=1.0)
    follower.wait_for(lambda: follower.log == b"first")
    state.start_attempt(job)
    state.append_log(job, b"second")
    succeed(state, job)
    items = [item for item in follower.finish() if isinstance(item, AttemptBegins | LogBytes)]
    assert items == [AttemptBegins(1), LogBytes(b"first"), AttemptBegins(2), LogBytes(b"second")]


def test_a_job_that_ended_long_ago_is_told_whole(state: ConsoleState, console: Console, job: str) -> None:
    state.start_attempt(job)
    state.append_log(job, b"x" * 5000)
    succeed(state, job)
    follower = Follower(console, job, Start())
    follower.finish()
    assert len(follower.log) == 5000
    assert follower.states == ["QUEUED", "RUNNING", "SUCCEEDED"]


def test_a_job_that_was_stopped_in_the_queue_ends_without_a_log(
    state: ConsoleState, job: str, follower: Follower
) -> None:
    state.move(job, "STOPPED", "stop_requested")
    items = follower.finish()
    assert follower.log == b""
    assert isinstance(items[-1], End)
    assert items[-1].job.state == "STOPPED"


def test_one_attempt_alone_may_be_followed_from_an_offset(state: ConsoleState, console: Console, job: str) -> None:
    state.start_attempt(job)
    state.append_log(job, b"0123456789", ended=True)
    state.move(job, "FAILED", "exited_nonzero", retry_at=1.0)
    state.start_attempt(job)
    follower = Follower(console, job, Start(attempt=1, offset=4, only_attempt=True))
    follower.finish()
    assert follower.log == b"456789"


@pytest.mark.parametrize(("token", "kind"), [(TOKEN, NotFound), ("wrong", SignInRequired)])
def test_a_refusal_ends_following_with_its_error(state: ConsoleState, token: str, kind: type[Exception]) -> None:
    with serve(state) as url, Connection(url, token) as connection, pytest.raises(kind):
        list(follow(Console(connection), "jaaaaaaaaa"))


def test_leaving_early_leaves_the_job_alone(state: ConsoleState, console: Console, job: str) -> None:
    state.start_attempt(job)
    state.append_log(job, b"x")
    with closing(follow(console, job)) as items:
        for item in items:
            if isinstance(item, LogBytes):
                break
    assert {seen.method for seen in state.seen} == {"GET"}
    assert state.jobs[job].view.desired == "run"

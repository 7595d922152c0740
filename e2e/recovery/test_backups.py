"""A backup of a console that is asked for more jobs all the time: each that was answered before it is restored."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.recovery.asking import PATH, Asker, Reply, read_json, run, sign_in
from e2e.recovery.conftest import Make
from e2e.support.console import wait_for

AT_ONCE = 20


@contextmanager
def submitting(asker: Asker) -> Iterator[list[Reply]]:
    """Submissions without end, some at a time; gives those that were answered so far."""
    answered: list[Reply] = []
    over = threading.Event()

    def go_on() -> None:
        while not over.is_set():
            first = len(answered)
            answered.extend(asker.submit_at_once([f"load-{first + n}" for n in range(AT_ONCE)]))

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield answered
    finally:
        over.set()
        thread.join()


def test_what_was_answered_before_is_there_and_nothing_is_there_in_part(make: Make) -> None:
    console = make("console")
    asker = sign_in(console)
    with submitting(asker) as answered:
        wait_for(lambda: len(answered) >= 3 * AT_ONCE, "jobs to be accepted")
        before = list(answered)
        told = read_json(run(console, "backup", str(console.folder / "backup"), "--json"))
        wait_for(lambda: len(answered) > len(before), "more jobs to be accepted")
    assert told["gaps"] == []
    live = asker.list_jobs()
    assert live == {reply.job: reply.key for reply in answered}
    specs = {job: asker.get(f"{PATH}/{job}")["spec"] for job in live}
    console.kill()

    again = make("again")
    restored = read_json(run(again, "restore", str(console.folder / "backup"), "--json"))
    again.start()
    there = Asker(again, asker.token)  # tokens are in the backup
    kept = there.list_jobs()
    assert {reply.job for reply in before} <= set(kept) <= set(live)
    assert kept == {job: live[job] for job in kept}
    assert restored["counts"]["jobs"] == len(kept)
    for job in kept:
        assert there.get(f"{PATH}/{job}")["spec"] == specs[job]

    # A program that repeats under a key what it had no answer to gets the job of that time, or makes it.
    repeated = there.submit_at_once([reply.key for reply in answered])
    assert {reply.key: reply.job for reply in repeated if reply.job in kept} == {
        name: job for job, name in kept.items()
    }
    assert len(there.list_jobs()) == len({reply.key for reply in answered})

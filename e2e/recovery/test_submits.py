"""Five hundred submissions at one time, keys repeated among them: all are answered, and none is doubled."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from e2e.recovery.asking import Asker, Reply, sign_in
from e2e.recovery.conftest import Make

AT_ONCE: Final = 500
KEYS: Final = [f"key-{number // 4}" for number in range(AT_ONCE)]
"""Each four times."""


def check_one_job_for_each_key(asker: Asker, replies: Iterable[Reply]) -> None:
    jobs = defaultdict(set)
    for reply in replies:
        jobs[reply.key].add(reply.job)
    assert {key: len(found) for key, found in jobs.items()} == dict.fromkeys(KEYS, 1)
    assert asker.list_jobs() == {job: key for key, (job,) in jobs.items()}


def test_all_are_answered_and_none_is_doubled(make: Make) -> None:
    asker = sign_in(make("console"))
    replies = asker.submit_at_once(KEYS)
    assert {reply.status for reply in replies} == {201}
    check_one_job_for_each_key(asker, replies)
    check_one_job_for_each_key(asker, asker.submit_at_once(KEYS))


def test_what_a_crash_left_unanswered_is_repeated_and_not_doubled(make: Make) -> None:
    """The console is killed while they are on their way; whoever had no answer asks again under the same key."""
    console = make("console")
    asker = sign_in(console)
    replies = asker.submit_until(KEYS, AT_ONCE // 2, console.kill)
    answered = [reply for reply in replies if reply.status == 201]
    assert 1 <= len(answered) <= AT_ONCE // 2
    console.start()
    kept = set(asker.list_jobs())
    assert {reply.job for reply in answered} <= kept
    again = asker.submit_at_once([reply.key for reply in replies if reply.status != 201])
    check_one_job_for_each_key(asker, answered + again)

"""A window closes around a real training and opens again: it keeps a checkpoint, gives its GPUs back, and goes on."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from e2e.scheduling.training import TRAIN, begun_at, checkpoints
from e2e.support.console import wait_for
from e2e.support.farm import FLEET
from e2e.support.work import Work

pytestmark = [pytest.mark.engine, pytest.mark.timeout(400)]

ALWAYS = ("--zone", "UTC", "--open", "mon-sun 00:00-24:00")
LIMIT_S = 90.0


def open_always(work: Work) -> None:
    work.console.sf("admin", "window", "set", "fleet", FLEET, *ALWAYS)


def close_for_today(work: Work, *options: str) -> None:
    """A window that is closed now and opens in two days, whenever midnight comes."""
    today = datetime.now(UTC).date()
    without = [word for days in (-1, 0, 1) for word in ("--except", str(today + timedelta(days=days)))]
    work.console.sf("admin", "window", "set", "fleet", FLEET, *ALWAYS, *without, *options)


@pytest.fixture
def opened(work: Work) -> Iterator[Work]:
    """The fleet with a window that is open; without one afterwards."""
    open_always(work)
    yield work
    work.console.sf("admin", "window", "rm", "fleet", FLEET, may_fail=True)


def begin(work: Work) -> str:
    """A training that has kept its first checkpoint."""
    job = work.submit(TRAIN)
    work.wait_started(job, limit_s=LIMIT_S)
    wait_for(lambda: checkpoints(work, job), f"job {job} to commit a checkpoint", LIMIT_S)
    return job


def test_a_training_keeps_a_checkpoint_before_its_window_closes_and_goes_on_when_it_opens(opened: Work) -> None:
    work = opened
    job = begin(work)
    close_for_today(work)
    work.probe.wait_state(job, "STOPPED", limit_s=LIMIT_S)
    told = work.probe.detail(job)["job"]
    assert told["reason"] == "window_closed"
    edge = json.loads(work.console.sf("windows", "--json").stdout)["edges"][0]
    assert (edge["edge"], edge["name"], edge["at"]) == ("opens", FLEET, told["retry_at"])
    waiting = work.submit("true")
    work.wait_note(waiting, f"the window of fleet {FLEET}: is closed", LIMIT_S)

    work.console.restart()
    assert work.probe.state(job) == "STOPPED"
    open_always(work)
    work.wait_started(job, 2, LIMIT_S)
    first, second = wait_for(lambda: _find_both(work, job), "the second attempt to go on", LIMIT_S)
    work.tell(job)
    assert work.wait_end(job, LIMIT_S)["job"]["state"] == "SUCCEEDED"
    assert (first, checkpoints(work, job)[:2]) == (0, [1, second]), "it went on from what the window's close left"
    assert work.wait_end(waiting, LIMIT_S)["job"]["state"] == "SUCCEEDED"
    reasons = work.probe.reasons(job)
    assert (reasons.count("window_closed"), reasons.count("window_opened")) == (1, 1)


def _find_both(work: Work, job: str) -> list[int] | None:
    begun = begun_at(work, job)
    return begun if len(begun) == 2 else None


def test_what_is_not_to_go_on_stays_stopped_until_its_user_says_so(opened: Work) -> None:
    work = opened
    job = begin(work)
    close_for_today(work, "--no-continue")
    assert work.wait_end(job, LIMIT_S)["job"]["reason"] == "window_closed"
    work.console.sf("admin", "window", "rm", "fleet", FLEET)
    assert work.probe.state(job) == "STOPPED"
    work.console.sf("job", "retry", job)
    work.wait_started(job, 2, LIMIT_S)
    work.tell(job)
    assert work.wait_end(job, LIMIT_S)["job"]["state"] == "SUCCEEDED"
    assert "window_opened" not in work.probe.reasons(job)

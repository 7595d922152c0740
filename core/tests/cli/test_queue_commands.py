"""`sf queue`, `sf why` and `sf admin queue`: what is sent, and what is said."""

import json

import pytest

from core.tests.cli.conftest import Sf
from core.tests.client.server import ConsoleState

pytestmark = pytest.mark.usefixtures("server")

JOB = "jabc"


@pytest.mark.parametrize(
    ("to", "says"),
    [
        ("first", f"{JOB} stands first in the queue until it starts\n"),
        ("last", f"{JOB} stands last in the queue until it starts\n"),
        ("release", f"{JOB} stands where it belongs\n"),
    ],
)
def test_a_queued_job_is_moved(sf: Sf, state: ConsoleState, to: str, says: str) -> None:
    state.answers[f"PUT /admin/queue/{JOB}"] = {}
    done = sf("admin", "queue", to, JOB)
    assert (done.code, done.out) == (0, says)
    assert [json.loads(seen.body) for seen in state.seen if seen.method == "PUT"] == [{"to": to}]
    assert sf("admin", "queue", to, JOB, "--json").json == {"job": JOB, "to": to}


WHY = {
    "job": JOB,
    "state": "QUEUED",
    "place": 1200,
    "waits": [{"reason": "1 of 4 GPUs free, 4 asked for", "code": "room.gpus", "places": ["n1", "n2"], "more": 3}],
    "nodes": [{"fleet": "lab", "node": "n1", "why": "1 of 4 GPUs free, 4 asked for", "code": "room.gpus"}],
    "starts_with": [
        {"change": "gpus", "value": "1", "fleet": "lab", "node": "n1"},
        {"change": "series", "value": "any", "fleet": "lab", "node": "n2"},
        {"change": "fleet", "value": "spare", "fleet": "spare", "node": "z"},
    ],
}


def test_a_job_that_waits_is_explained_machine_by_machine_with_what_would_start_it(sf: Sf, state: ConsoleState) -> None:
    state.answers[f"GET /jobs/{JOB}/why"] = WHY
    told = sf("why", JOB).out
    assert "at place 1,200 of the queue" in told
    assert "n1, n2 and 3 more: 1 of 4 GPUs free, 4 asked for" in told
    assert "lab    n1       1 of 4 GPUs free, 4 asked for" in told
    for change in ("1 GPU a machine, on lab/n1", "GPUs of any series, on lab/n2", "fleet spare, on spare/z"):
        assert f"  {change}\n" in told
    assert sf("why", JOB, "--json").json == WHY


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"place": None, "state": "RUNNING"}, "is RUNNING: it does not wait"),
        ({"waits": []}, "it has room, and starts with the next look"),
        ({"starts_with": []}, "no single change of GPUs, series or fleet would start it now"),
    ],
)
def test_a_job_that_does_not_wait_or_that_nothing_would_start_is_said_to_be_so(
    sf: Sf, state: ConsoleState, changes: dict[str, object], says: str
) -> None:
    state.answers[f"GET /jobs/{JOB}/why"] = WHY | changes
    assert says in sf("why", JOB).out


def _entry(place: int, job: str, user: str, **changes: object) -> dict[str, object]:
    view = {
        "id": job, "name": "first", "project": "demo", "user": user, "state": "QUEUED", "reason": "admitted",
        "desired": "run", "note": f"note of {job}", "fleet": None, "gpus": 2, "attempt": 0, "submitted_at": 1.0,
        "state_since": 1.0, "series": "h200",
    }  # fmt: skip
    return {"place": place, "priority": 0, "job": view} | changes


QUEUE: dict[str, object] = {
    "items": [_entry(1, "j1", "bob", moved="first"), _entry(2, "j2", "ada", priority=1)],
    "jobs": 1200,
    "gpus": 2400,
    "own": [_entry(2, "j2", "ada"), _entry(700, "j700", "ada")],
    "own_jobs": 2,
    "promises": [
        {**_entry(1, "j1", "bob"), "by": 1_800_000_000.0, "node": "n1", "passed": 0, "passed_at_most": 16},
        {**_entry(2, "j2", "ada"), "by": None, "node": "n2", "passed": 16, "passed_at_most": 16},
        {**_entry(3, "j3", "ada"), "by": None, "node": None, "passed": 3, "passed_at_most": 16},
    ],
    "closed": [
        {"kind": "fleet", "name": "lab", "zone": "UTC", "open": ["mon 08:00-09:00"], "without": [],
         "goes_on": True, "is_open": False, "changes_at": 1_800_000_000.0, "set_by": "ada", "set_at": 1.0},
    ],
}  # fmt: skip


def test_the_queue_is_shown_in_its_order_with_ones_own_jobs_further_down(sf: Sf, state: ConsoleState) -> None:
    state.answers["GET /queue"] = QUEUE
    done = sf("queue", "--limit", "2")
    assert done.code == 0, done.err
    head, _, first, second, _, yours, _, later = done.out.splitlines()
    assert head == "1200 jobs wait, 2400 GPUs asked for"
    assert first.split()[:7] == ["1", "j1", "first", "bob", "put", "first", "h200"]
    assert second.split()[:5] == ["2", "j2", "first", "ada", "high"]
    assert second.endswith("note of j2")
    assert yours == "yours further down, of 2 queued jobs of yours"
    assert later.split()[:5] == ["700", "j700", "first", "ada", "normal"]
    assert [line.partition(" (")[0] for line in done.err.splitlines() if "(place" in line] == ["j1", "j2"]
    assert "on n1" in done.err
    assert "n2 is kept for it, which 16 other jobs passed" in done.err
    assert "the window of fleet lab is closed until 2027-01-15 08:00 UTC" in done.err


def test_a_queue_longer_than_a_page_of_the_api_is_asked_for_page_by_page(sf: Sf, state: ConsoleState) -> None:
    state.answers["GET /queue"] = QUEUE | {"next": 2}
    told = sf("queue", "--limit", "6", "--series", "h200", "--json").json
    assert [entry["job"]["id"] for entry in told["items"]] == ["j1", "j2", "j1", "j2", "j1", "j2"]
    assert [seen.path for seen in state.seen if seen.path == "/queue"] == ["/queue"] * 3


def test_an_empty_queue_is_said_to_be_so(sf: Sf, state: ConsoleState) -> None:
    state.answers["GET /queue"] = {"items": [], "jobs": 0, "gpus": 0}
    assert sf("queue").out == "nothing waits in the queue\n"
    assert sf("queue", "--series", "b200").out == "nothing waits in the queue for b200\n"

"""`sf admin queue` and `sf why`: what is sent, and what is said."""

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

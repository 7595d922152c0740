"""`sf admin queue`: what is sent, and what is said."""

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

"""What was sent to a cluster is shown as it was; where nothing is kept, that is said."""

from server.tests.web.lives import begin
from server.tests.web.support import ConsoleUnderTest, submit


def test_what_was_sent_for_the_newest_attempt_is_shown_to_the_letter(console: ConsoleUnderTest) -> None:
    ann = console.add_user("ann")
    client, job = console.client(ann), submit(console, ann)
    attempt = begin(console, job).attempt
    assert attempt is not None
    console.fleets.natives["local", attempt] = '[{"name": "x"}]\n\n#!/bin/bash\n'
    told = client.get(f"/api/v1/jobs/{job}/native").json()
    assert told == {"job": job, "attempt": 1, "fleet": "local", "text": '[{"name": "x"}]\n\n#!/bin/bash\n'}
    assert client.get(f"/api/v1/jobs/{job}/native?attempt=2").status_code == 404


def test_a_fleet_that_keeps_nothing_and_a_job_that_waits_are_told_apart(console: ConsoleUnderTest) -> None:
    ann = console.add_user("ann")
    client, job = console.client(ann), submit(console, ann)
    waiting = client.get(f"/api/v1/jobs/{job}/native")
    assert (waiting.status_code, waiting.json()["detail"]) == (404, "no attempt has begun")
    begin(console, job)
    without = client.get(f"/api/v1/jobs/{job}/native")
    assert without.json()["detail"] == "fleet local keeps no submission of it"

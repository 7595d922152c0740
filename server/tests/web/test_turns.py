"""Pausing jobs, letting them go on and starting them again, over the API."""

import pytest

from server.tests.web.lives import begin, go, run_to_end
from server.tests.web.serving import serving
from server.tests.web.support import ConsoleUnderTest, submit
from starforge.client.http import Connection
from starforge.client.maintenance import MaintenanceConsole
from starforge.contract.ids import JobId
from starforge.contract.maintenance import BeginMaintenance
from starforge.contract.states import Reason
from starforge_console.ledger.reports import Output, ReportingAttempt, Reports, note_reports


def keep_checkpoint(console: ConsoleUnderTest, job: JobId) -> None:
    """A running job that has told of a committed checkpoint."""
    ref = begin(console, job)
    assert ref.attempt is not None
    attempt = ReportingAttempt(id=ref.attempt, job=job, number=ref.number)
    told = Reports(before=0, to=1, notes=(), outputs=(Output(kind="checkpoint", path="ckpt/step-5", step=5),))
    assert console.ledger.write_now(lambda c: note_reports(c, attempt, told, console.clock.now()))


def test_a_queued_job_is_paused_at_once_and_goes_on(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    client = console.client(headers)
    paused = client.post(f"/api/v1/jobs/{job}/pause", json={"note": "until noon"})
    assert (paused.status_code, paused.json()["state"], paused.json()["note"]) == (202, "PAUSED", "until noon")
    assert client.post(f"/api/v1/jobs/{job}/pause").json()["state"] == "PAUSED"
    assert client.post(f"/api/v1/jobs/{job}/resume").json()["state"] == "QUEUED"
    assert client.post(f"/api/v1/jobs/{job}/resume").json()["state"] == "QUEUED"


def test_a_job_without_a_checkpoint_is_told_what_a_pause_would_lose(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    begin(console, job)
    console.clock.ahead_s += 720
    client = console.client(headers)
    refused = client.post(f"/api/v1/jobs/{job}/pause", json={})
    assert (refused.status_code, refused.json()["code"]) == (409, "progress_at_risk")
    assert "12 min of work would be lost" in refused.json()["detail"]
    assert client.get(f"/api/v1/jobs/{job}").json()["job"]["desired"] == "run"
    paused = client.post(f"/api/v1/jobs/{job}/pause", json={"lose_progress": True})
    assert (paused.status_code, paused.json()["desired"]) == (202, "pause")


def test_a_job_with_a_checkpoint_is_paused_without_a_question(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    keep_checkpoint(console, job)
    answer = console.client(headers).post(f"/api/v1/jobs/{job}/pause", json={"grace_s": 5})
    assert (answer.status_code, answer.json()["desired"]) == (202, "pause")


def test_a_failed_job_is_retried_and_a_succeeded_one_is_final(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    failed, succeeded, queued = (submit(console, headers) for _ in range(3))
    run_to_end(console, failed, Reason.EXITED_NONZERO)
    run_to_end(console, succeeded)
    client = console.client(headers)
    again = client.post(f"/api/v1/jobs/{failed}/retry", json={"note": "the data is whole"})
    assert (again.status_code, again.json()["reason"]) == (202, "retried_by_user")
    for job, word in ((succeeded, "final"), (queued, "only a job that failed or was stopped")):
        refused = client.post(f"/api/v1/jobs/{job}/retry")
        assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
        assert word in refused.json()["detail"]
    assert "sf rerun" in client.post(f"/api/v1/jobs/{succeeded}/retry").json()["next_step"]
    client.post(f"/api/v1/jobs/{queued}/stop")
    assert client.post(f"/api/v1/jobs/{queued}/retry").json()["reason"] == "continued"


@pytest.mark.parametrize("verb", ["pause", "resume", "retry"])
def test_only_owner_and_administrator_may(console: ConsoleUnderTest, verb: str) -> None:
    job = submit(console, console.add_user("ann"))
    assert console.client(console.add_user("bob")).post(f"/api/v1/jobs/{job}/{verb}").status_code == 403
    reader = console.client(console.add_user("rea", scopes=("read",)))
    assert reader.post(f"/api/v1/jobs/{job}/{verb}").status_code == 403
    admin = console.client(console.add_user("root", "admin"))
    assert admin.post(f"/api/v1/jobs/{job}/{verb}").status_code in {202, 409}
    assert admin.post(f"/api/v1/jobs/j222222222/{verb}").status_code == 404


def test_an_unknown_member_of_a_pause_is_named(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    answer = console.client(headers).post(f"/api/v1/jobs/{job}/pause", json={"lose": True})
    assert answer.status_code == 422
    assert "lose" in answer.text


def test_maintenance_is_begun_seen_and_ended(console: ConsoleUnderTest) -> None:
    headers, member = console.add_user("root", "admin"), console.add_user("ann")
    running, waiting = submit(console, member), submit(console, member)
    begin(console, running)
    assert console.client(member).post("/api/v1/admin/maintenance/drain").status_code == 403
    admin = console.client(headers)
    assert admin.get("/api/v1/maintenance").json()["since"] is None
    begun = admin.post("/api/v1/admin/maintenance/drain", json={"reason": "new disks"}).json()
    assert (begun["by"], begun["reason"], begun["running"], begun["queued"]) == ("root", "new disks", 1, 1)
    assert admin.post("/api/v1/admin/maintenance/drain").json() == begun
    seen = console.client(member).get(f"/api/v1/jobs/{running}").json()
    assert seen["job"]["desired"] == "pause"
    assert "paused for maintenance by root: new disks" in [event["note"] for event in seen["events"]]
    assert admin.post("/api/v1/admin/maintenance/resume").json()["since"] is None
    assert admin.post("/api/v1/admin/maintenance/resume").status_code == 200
    assert console.client(member).get(f"/api/v1/jobs/{waiting}").json()["job"]["state"] == "QUEUED"


def test_the_client_of_sf_speaks_of_maintenance(console: ConsoleUnderTest) -> None:
    token = console.add_user("root", "admin")["Authorization"].removeprefix("Bearer ")
    with (
        serving(console) as served,
        Connection(f"http://127.0.0.1:{served.ports.api_port}", token) as connection,
    ):
        client = MaintenanceConsole(connection)
        assert client.maintenance().since is None
        assert client.begin_maintenance(BeginMaintenance(reason="disks")).reason == "disks"
        assert client.end_maintenance().since is None


def test_a_pause_whose_job_fails_by_itself_has_failed(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    go(console, begin(console, job), Reason.EXITED_NONZERO)
    answer = console.client(headers).post(f"/api/v1/jobs/{job}/pause")
    assert (answer.status_code, "has ended" in answer.json()["detail"]) == (409, True)

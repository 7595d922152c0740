import asyncio
import os
import subprocess

import pytest

from server.tests.web.lives import begin, clean, go, retry, run_to_end
from server.tests.web.support import ConsoleUnderTest, submit
from starforge.containers.storage import MARK_FILE
from starforge.contract.states import Reason
from starforge_console.assembly.layout import StorageLayout
from starforge_console.jobs.deleted import DeletedRuns


def test_a_list_goes_on_where_its_page_ended(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    made = [submit(console, headers) for _ in range(5)]
    client = console.client(headers)
    seen: list[str] = []
    cursor: str | None = ""
    pages = 0
    while cursor is not None:
        page = client.get("/api/v1/jobs", params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
        seen += [job["id"] for job in page["items"]]
        cursor, pages = page["next"], pages + 1
    assert (sorted(seen), pages) == (sorted(made), 3)


def test_a_list_is_filtered_by_state_user_and_project(console: ConsoleUnderTest) -> None:
    ann, bob = console.add_user("ann"), console.add_user("bob")
    first, second = submit(console, ann), submit(console, bob)
    run_to_end(console, second)
    client = console.client(ann)

    def found(**query: str) -> list[str]:
        return [job["id"] for job in client.get("/api/v1/jobs", params=query).json()["items"]]

    assert found(user="ann") == [first]
    assert found(state="SUCCEEDED") == [second]
    assert found(project="other") == []
    assert set(found(project="demo")) == {first, second}


@pytest.mark.parametrize("cursor", ["!!", "bnVsbA", "W10", "WyJhIiwgImIiXQ", "W05hTiwgIngiXQ", "W1tbW1tb"])
def test_a_cursor_that_was_made_up_is_refused(console: ConsoleUnderTest, cursor: str) -> None:
    answer = console.client(console.add_user("ann")).get("/api/v1/jobs", params={"cursor": cursor})
    assert (answer.status_code, answer.json()["code"]) == (422, "input_invalid")


def test_a_page_holds_five_hundred_at_most(console: ConsoleUnderTest) -> None:
    client = console.client(console.add_user("ann"))
    assert client.get("/api/v1/jobs", params={"limit": 500}).status_code == 200
    assert client.get("/api/v1/jobs", params={"limit": 501}).status_code == 422


def test_a_queued_job_stops_at_once(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    answer = console.client(headers).post(f"/api/v1/jobs/{job}/stop", json={"note": "no longer needed"})
    assert answer.status_code == 202
    assert (answer.json()["state"], answer.json()["note"]) == ("STOPPED", "no longer needed")


def test_a_running_job_is_wished_to_stop(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    begin(console, job)
    client = console.client(headers)
    answer = client.post(f"/api/v1/jobs/{job}/stop", json={"grace_s": 5})
    assert (answer.json()["state"], answer.json()["desired"]) == ("RUNNING", "stop")
    assert client.post(f"/api/v1/jobs/{job}/stop", json={}).status_code == 202
    notes = [event["note"] for event in client.get(f"/api/v1/jobs/{job}/events").json()["items"]]
    assert notes.count("stopped by ann") == 1


def test_a_job_that_has_ended_is_stopped_already(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    run_to_end(console, job)
    answer = console.client(headers).post(f"/api/v1/jobs/{job}/stop", json={})
    assert (answer.status_code, answer.json()["state"]) == (202, "SUCCEEDED")


def test_everybody_sees_a_job_but_only_owner_and_administrator_end_it(console: ConsoleUnderTest) -> None:
    job = submit(console, console.add_user("ann"))
    other, admin = console.client(console.add_user("bob")), console.client(console.add_user("root", "admin"))
    assert other.get(f"/api/v1/jobs/{job}").status_code == 200
    assert other.post(f"/api/v1/jobs/{job}/stop", json={}).status_code == 403
    assert other.delete(f"/api/v1/jobs/{job}").status_code == 403
    assert admin.post(f"/api/v1/jobs/{job}/stop", json={}).json()["state"] == "STOPPED"


def test_deleting_removes_record_series_logs_and_folder(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    attempt = run_to_end(console, job)
    folder = console.run_folder(job)
    (folder / "out").mkdir(parents=True)
    (folder / "out" / "model.bin").write_bytes(b"x")
    client = console.client(headers)
    assert client.delete(f"/api/v1/jobs/{job}").status_code == 204
    assert client.get(f"/api/v1/jobs/{job}").status_code == 404
    assert not folder.exists()
    assert console.logs.removed == [attempt]


def test_a_job_whose_folder_cannot_be_removed_is_still_there_to_be_deleted_again(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    run_to_end(console, job)
    folder = console.run_folder(job)
    folder.parent.mkdir()
    folder.write_text("a file where a folder should be")
    client = console.client(headers)
    assert client.delete(f"/api/v1/jobs/{job}").status_code == 503
    assert client.get(f"/api/v1/jobs/{job}").status_code == 200
    folder.unlink()
    assert client.delete(f"/api/v1/jobs/{job}").status_code == 204


def test_a_job_that_nested_folders_without_end_is_deleted(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    run_to_end(console, job)
    folder = console.run_folder(job)
    folder.mkdir(parents=True)
    descriptor = os.open(folder, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=descriptor)
        inner = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    try:
        assert console.client(headers).delete(f"/api/v1/jobs/{job}").status_code == 204
        assert not folder.exists()
        asyncio.run(DeletedRuns(StorageLayout(console.root / "storage"), console.services.blobs).run_once())
        assert list(folder.parent.rglob("*")) == [folder.parent / ".deleted"]
    finally:
        subprocess.run(["rm", "-rf", folder.parent], check=True)


def test_a_job_is_not_deleted_while_its_storage_is_not_mounted(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    run_to_end(console, job)
    mark = console.root / "storage" / MARK_FILE
    mark.rename(console.root / "elsewhere")
    client = console.client(headers)
    answer = client.delete(f"/api/v1/jobs/{job}")
    assert (answer.status_code, answer.json()["code"]) == (503, "storage_not_mounted")
    (console.root / "elsewhere").rename(mark)
    assert client.delete(f"/api/v1/jobs/{job}").status_code == 204


def test_a_job_that_lives_or_is_not_cleaned_up_is_not_deleted(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    client = console.client(headers)
    assert client.delete(f"/api/v1/jobs/{job}").status_code == 409
    ended = go(console, begin(console, job), Reason.EXITED_ZERO)
    assert client.delete(f"/api/v1/jobs/{job}").status_code == 409
    assert ended.attempt is not None
    clean(console, ended.attempt)
    assert client.delete(f"/api/v1/jobs/{job}").status_code == 204


def test_the_outputs_of_all_attempts_are_listed(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    ended = go(console, begin(console, job), Reason.EXITED_ZERO)
    assert ended.attempt is not None
    left: dict[str, object] = {
        "artifacts": [{"path": "model.bin", "bytes": 3, "sha256": None}],
        "checkpoints": [{"step": 7, "path": "ckpt/step-7", "bytes": 9, "committed": True}],
    }
    clean(console, ended.attempt, left)
    outputs = console.client(headers).get(f"/api/v1/jobs/{job}/outputs").json()
    folder = console.run_folder(job)
    place = {"folder": "out", "storage_path": f"{folder}/out/model.bin"}
    assert outputs["artifacts"] == [{"path": "model.bin", "bytes": 3, "sha256": None, **place}]
    assert [(one["attempt"], one["step"], one["committed"]) for one in outputs["checkpoints"]] == [(1, 7, True)]
    assert [one["storage_path"] for one in outputs["checkpoints"]] == [f"{folder}/checkpoints/1/ckpt/step-7"]


def test_outputs_from_before_and_after_a_lost_attempt_are_told_apart(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    running = begin(console, job)
    for reason in (Reason.NODE_LOST, Reason.INTERRUPTED, Reason.EXITED_ZERO):
        ended = go(console, running, reason)
        assert ended.attempt is not None
        size_bytes = {Reason.NODE_LOST: 1, Reason.INTERRUPTED: 2, Reason.EXITED_ZERO: 3}[reason]
        clean(console, ended.attempt, {"artifacts": [{"path": "model.bin", "bytes": size_bytes, "sha256": None}]})
        running = running if reason is Reason.EXITED_ZERO else retry(console, ended)
    client = console.client(headers)
    outputs = client.get(f"/api/v1/jobs/{job}/outputs").json()
    assert [(one["folder"], one["path"], one["bytes"]) for one in outputs["artifacts"]] == [
        ("out", "model.bin", 1),
        ("out-2", "model.bin", 3),
    ]
    assert outputs["artifacts"][1]["storage_path"] == f"{console.run_folder(job)}/out-2/model.bin"


@pytest.mark.parametrize("path", ["", "/events", "/log", "/metrics", "/metrics/loss", "/outputs"])
@pytest.mark.parametrize("job", ["jaaaaaaaaa", "nonsense", "%00", "%ff%fe"])
def test_a_job_that_does_not_exist_is_not_found(console: ConsoleUnderTest, job: str, path: str) -> None:
    answer = console.client(console.add_user("ann")).get(f"/api/v1/jobs/{job}{path}")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")

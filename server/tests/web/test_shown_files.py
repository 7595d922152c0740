"""Files whose names hold a secret of their job: told without it, and fetched by the name that is told."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from server.tests.ledger.builders import apply
from server.tests.pages.support import sign_in
from server.tests.retention.yard import Yard, open_yard
from server.tests.web.serving import serving
from starforge.client.files import FilesConsole
from starforge.client.http import Connection
from starforge.client.outputs import list_wanted
from starforge.contract.ids import JobId
from starforge.contract.states import Reason
from starforge_console.jobs.shown import build_shown
from starforge_console.ledger.endings import note_cleaned, note_finalised

SECRET = "hf-a-secret-of-the-job"  # noqa: S105 - made up


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    with open_yard(tmp_path) as made:
        yield made


def client(yard: Yard) -> TestClient:
    return yard.console.client(yard.headers)


def end(yard: Yard, *paths: str, checkpoints: tuple[str, ...] = ()) -> JobId:
    """A job that ended with these files of its own names as their content, told as finalising tells them."""
    job, attempt = yard.start()
    out, told = yard.out(job), []
    for path in ("model.bin", *paths):
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (out / path).write_text(path)
        told.append({"path": path.replace(SECRET, "***"), "bytes": len(path), "sha256": None})
    left = []
    for name in checkpoints:
        (yard.layout(attempt).checkpoints / name).mkdir()
        (yard.layout(attempt).checkpoints / name / "model.bin").write_text(name)
        path = f"ckpt/{name.replace(SECRET, '***')}"
        left.append({"step": 1, "path": path, "bytes": 1, "committed": True})
    ledger, now = yard.console.ledger, yard.console.clock.now()
    ledger.write_now(lambda c: apply(c, job, Reason.EXITED_ZERO, now=now))
    ledger.write_now(lambda c: note_finalised(c, attempt, now, {"artifacts": told, "checkpoints": left}, 6))
    ledger.write_now(lambda c: note_cleaned(c, attempt, now))
    return job


def fetch(yard: Yard, job: JobId, path: str) -> tuple[int, str]:
    answer = client(yard).get(f"/api/v1/jobs/{job}/file", params={"path": path})
    return answer.status_code, answer.text


def names(yard: Yard, job: JobId, folder: str) -> list[str]:
    answer = client(yard).get(f"/api/v1/jobs/{job}/files", params={"path": folder})
    assert SECRET not in answer.text
    return [one["name"] for one in answer.json()["items"]]


def test_what_is_listed_under_a_masked_name_is_fetched_by_it(yard: Yard) -> None:
    job = end(yard, f"{SECRET}.bin", f"runs/{SECRET}/log.txt")
    assert sorted(names(yard, job, "out")) == ["***.bin", "model.bin", "runs"]
    assert names(yard, job, "out/runs") == ["***"]
    assert names(yard, job, "out/runs/***") == ["log.txt"]
    assert fetch(yard, job, "out/***.bin") == (200, f"{SECRET}.bin")
    assert fetch(yard, job, "out/runs/***/log.txt") == (200, f"runs/{SECRET}/log.txt")
    assert fetch(yard, job, "out/model.bin") == (200, "model.bin")


def test_the_page_leads_to_it_and_shows_nothing_of_the_secret(yard: Yard) -> None:
    job = end(yard, f"{SECRET}.bin")
    browser = sign_in(yard.console, yard.headers)
    page = browser.get(f"/jobs/{job}?view=outputs&folder=out").text
    assert SECRET not in page
    assert f"/jobs/{job}/file?path=out%2F%2A%2A%2A.bin" in page
    answer = browser.get(f"/jobs/{job}/file?path=out%2F%2A%2A%2A.bin")
    assert answer.text == f"{SECRET}.bin"
    assert SECRET not in str(answer.headers)


def test_the_command_brings_it_under_the_name_that_is_told(yard: Yard, tmp_path: Path) -> None:
    job = end(yard, f"{SECRET}.bin", f"runs/{SECRET}/log.txt")
    token = yard.headers["Authorization"].removeprefix("Bearer ")
    with serving(yard.console) as served:
        console = FilesConsole(Connection(f"http://127.0.0.1:{served.ports.api_port}", token))
        for path in ("***.bin", "runs"):
            for one in list_wanted(console, job, path, tmp_path / "here"):
                console.save(job, one, lambda _: None)
        console.connection.close()
    assert (tmp_path / "here" / "***.bin").read_text() == f"{SECRET}.bin"
    assert (tmp_path / "here" / "runs" / "***" / "log.txt").read_text() == f"runs/{SECRET}/log.txt"


def test_of_several_that_are_told_alike_the_size_tells_which(yard: Yard) -> None:
    job = end(yard, f"{SECRET}.bin")
    (yard.out(job) / "never-told.bin").write_text("x" * 99)
    assert fetch(yard, job, "out/***.bin") == (200, f"{SECRET}.bin")


def test_where_several_could_be_meant_it_is_said_and_none_is_sent(yard: Yard) -> None:
    job = end(yard, f"a{SECRET}.bin")
    twin = f"a{'x' * len(SECRET)}.bin"
    (yard.out(job) / twin).write_text("y" * len(twin))
    status, text = fetch(yard, job, "out/a***.bin")
    assert (status, "as an archive" in text, SECRET in text) == (409, True, False)


def test_a_checkpoint_is_found_under_its_masked_name(yard: Yard) -> None:
    job = end(yard, checkpoints=(f"step-1-{SECRET}", "step-2"))
    assert names(yard, job, "checkpoints/1") == ["step-1-***", "step-2"]
    assert fetch(yard, job, "checkpoints/1/step-1-***/model.bin") == (200, f"step-1-{SECRET}")
    archive = client(yard).get(f"/api/v1/jobs/{job}/archive", params={"path": "checkpoints/1/step-1-***"})
    assert archive.status_code == 200


def test_a_name_that_is_there_as_it_stands_is_meant_as_it_stands(yard: Yard) -> None:
    job = end(yard, "a***b")
    (yard.out(job) / "a-real-b").write_text("another")
    assert fetch(yard, job, "out/a***b") == (200, "a***b")


def test_a_masked_name_that_nothing_has_is_not_there(yard: Yard) -> None:
    job = end(yard, "other.txt")
    assert fetch(yard, job, "out/***.safetensors")[0] == 404


def test_no_masked_name_leads_out_of_the_folders_of_the_job(yard: Yard) -> None:
    job = end(yard, f"{SECRET}.bin")
    (yard.out(job) / f"link-{SECRET}").symlink_to("/etc")
    assert fetch(yard, job, "out/link-***/hostname")[0] in {404, 422}


def test_names_that_are_told_whole_stand_for_no_masked_one() -> None:
    shown = build_shown([("out/model.bin", 7), ("out/***.bin", 30)])
    assert shown.find_names("out", "***.bin", ["model.bin", "secret.bin"]) == ["secret.bin"]
    assert (shown.name("out", "model.bin"), shown.name("out", "secret.bin")) == ("model.bin", "***.bin")

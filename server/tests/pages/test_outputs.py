"""What a job left, on its page: folders, downloads, what retention removed."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from server.tests.pages.support import sign_in
from server.tests.retention.yard import Yard, open_yard
from starforge.contract.ids import AttemptId
from starforge_console.ledger.endings import note_finalised


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    with open_yard(tmp_path) as made:
        yield made


@pytest.fixture
def client(yard: Yard) -> TestClient:
    return sign_in(yard.console, yard.headers)


def tell(yard: Yard, attempt: AttemptId, steps: tuple[int, ...]) -> None:
    """Let the attempt have told of its checkpoints and its artifact."""
    checkpoints = [{"step": step, "path": f"ckpt/step-{step}", "committed": True, "bytes": step} for step in steps]
    outputs = {"artifacts": [{"path": "model.bin", "bytes": 7, "sha256": "ab" * 32}], "checkpoints": checkpoints}
    yard.console.ledger.write_now(lambda c: note_finalised(c, attempt, 1.0, outputs, 6))


def test_the_page_leads_through_the_folders_to_a_file(yard: Yard, client: TestClient) -> None:
    job, _ = yard.end(steps=(10,))
    (yard.out(job) / "<b>.txt").write_text("odd")
    tops = client.get(f"/jobs/{job}?view=outputs").text
    assert f"/jobs/{job}?view=outputs&amp;folder=out#files" in tops
    page = client.get(f"/jobs/{job}?view=outputs&folder=out").text
    assert "&lt;b&gt;.txt" in page
    assert "<b>.txt" not in page
    assert f"/jobs/{job}/file?path=out%2Fmodel.bin" in page
    answer = client.get(f"/jobs/{job}/file?path=out%2Fmodel.bin")
    assert (answer.content, answer.headers["x-content-type-options"]) == (b"weights", "nosniff")
    assert answer.headers["content-disposition"].startswith("attachment;")


def test_a_checkpoint_is_kept_as_a_tar(yard: Yard, client: TestClient) -> None:
    job, attempt = yard.end(steps=(10,))
    tell(yard, attempt, (10,))
    page = client.get(f"/jobs/{job}?view=outputs").text
    assert f"/jobs/{job}/archive?path=checkpoints%2F1%2Fstep-10" in page
    assert (
        client.get(f"/jobs/{job}/archive?path=checkpoints%2F1%2Fstep-10").headers["content-type"] == "application/x-tar"
    )


def test_a_checkpoint_that_retention_removed_is_told_and_no_longer_offered(yard: Yard, client: TestClient) -> None:
    job, attempt = yard.end(steps=(1, 2, 3, 4))
    tell(yard, attempt, (1, 2, 3, 4))
    yard.later(8)
    asyncio.run(yard.collector.collect("ada"))
    yard.later(-8)  # the session is of today
    page = client.get(f"/jobs/{job}?view=outputs").text
    assert page.count("removed by retention") == 1
    assert "checkpoint@step=1<" not in page
    assert "checkpoint@step=2<" in page
    outputs = yard.console.client(yard.headers).get(f"/api/v1/jobs/{job}/outputs").json()["checkpoints"]
    assert [(one["step"], one["removed_at"] is None) for one in outputs] == [
        (1, False),
        (2, True),
        (3, True),
        (4, True),
    ]


def test_a_log_that_retention_removed_is_told_where_it_was(yard: Yard) -> None:
    job, _ = yard.end()
    yard.later(91)
    asyncio.run(yard.collector.collect("ada"))
    yard.later(-91)
    client = sign_in(yard.console, yard.headers)  # sessions of before are over and forgotten
    assert "logs of ended jobs are kept for a while" in client.get(f"/jobs/{job}").text
    api = yard.console.client(yard.headers)
    assert api.get(f"/api/v1/jobs/{job}").json()["log"]["removed_at"] is not None
    answer = api.get(f"/api/v1/jobs/{job}/log")
    assert (answer.status_code, answer.json()["detail"]) == (
        404,
        "the console keeps the logs of ended jobs for a while (FORGE_LOG_RETENTION_S)",
    )
    assert client.get(f"/jobs/{job}/log.txt").status_code == 404


def test_without_its_storage_the_page_says_so_and_shows_the_rest(yard: Yard, client: TestClient) -> None:
    job, attempt = yard.end(steps=(10,))
    tell(yard, attempt, (10,))
    (yard.console.root / "storage" / ".starforge-storage").unlink()
    answer = client.get(f"/jobs/{job}?view=outputs")
    assert answer.status_code == 200
    assert "model.bin" in answer.text


def test_whoever_is_not_signed_in_gets_no_file(yard: Yard) -> None:
    job, _ = yard.end()
    answer = yard.console.client().get(f"/jobs/{job}/file?path=out%2Fmodel.bin", follow_redirects=False)
    assert answer.status_code in {303, 401}
    assert answer.content != b"weights"

"""What the console keeps of a job's origin, and what it gives back of it."""

import json
from typing import Any

import pytest
from sqlalchemy import func, update

from server.tests.web.support import WORKSPACE, ConsoleUnderTest, build_submission
from starforge.contract.api import DIFFERENCE_BYTES
from starforge.contract.canonical import Json, digest_json
from starforge_console.ledger.lineages import load_lineage
from starforge_console.ledger.tables import jobs

CONFIG: dict[str, Json] = {"image": "python:3.11", "hyperparameters": {"steps": 7, "lr": 1e-5}}
TEXT = "diff --git a/train.py b/train.py\n-a\n+ä\n"
DIFFERENCE = {"text": TEXT, "is_cut": False}
DIRTY = {"commit": "0" * 40, "dirty": True, "dirty_files": ["train.py"], "config_digest": digest_json(CONFIG)}


def build_dirty(**members: Any) -> dict[str, Any]:
    beside = {"allow_dirty": True, "difference": DIFFERENCE, "config": CONFIG}
    return {**build_submission(provenance=DIRTY), **beside, **members}


def send(console: ConsoleUnderTest, headers: dict[str, str], body: dict[str, Any]) -> dict[str, Any]:
    console.keep_workspace()
    answer = console.client(headers).post("/api/v1/jobs", json=body)
    found: dict[str, Any] = answer.json()
    assert answer.status_code in {201, 422}, answer.text
    return found


def codes(answer: dict[str, Any]) -> list[str]:
    return [refusal["code"] for refusal in answer["refusals"]]


def test_a_dirty_tree_keeps_its_difference_and_its_settings_beside_the_spec(console: ConsoleUnderTest) -> None:
    ann = console.add_user("ann")
    job = send(console, ann, build_dirty())["job"]
    client = console.client(ann)
    detail = client.get(f"/api/v1/jobs/{job}").json()
    assert detail["lineage"] == {
        "rerun_of": None,
        "difference_bytes": len(TEXT.encode()),
        "difference_is_cut": False,
        "config": CONFIG,
    }
    assert "difference" not in json.dumps(detail["spec"])
    kept = client.get(f"/api/v1/jobs/{job}/difference").json()
    assert kept == {"job": job, "commit": "0" * 40, **DIFFERENCE}


def test_what_explains_the_spec_changes_no_digest(console: ConsoleUnderTest) -> None:
    ann = console.add_user("ann")
    with_it = send(console, ann, build_dirty())
    without = send(console, ann, build_dirty(difference=None, config=None))
    assert with_it["spec_digest"] == without["spec_digest"]
    assert any("difference from the commit did not come along" in warning for warning in without["warnings"])


def test_a_clean_tree_has_no_difference_and_none_is_taken_of_it(console: ConsoleUnderTest) -> None:
    ann = console.add_user("ann")
    job = send(console, ann, build_submission())["job"]
    answer = console.client(ann).get(f"/api/v1/jobs/{job}/difference")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert codes(send(console, ann, {**build_submission(), "difference": DIFFERENCE})) == ["difference_unasked"]


@pytest.mark.parametrize("config", [{"image": "another"}, {"x": 1 << 70}, {}])
def test_settings_that_have_another_digest_are_refused(console: ConsoleUnderTest, config: dict[str, Any]) -> None:
    assert codes(send(console, console.add_user("ann"), build_dirty(config=config))) == ["config_differs"]


def test_a_difference_is_bounded_in_bytes_and_the_largest_one_is_taken(console: ConsoleUnderTest) -> None:
    ann = console.add_user("ann")
    whole = {"text": '+"\n' * (DIFFERENCE_BYTES // 3), "is_cut": True}
    job = send(console, ann, build_dirty(difference=whole))["job"]
    assert console.client(ann).get(f"/api/v1/jobs/{job}/difference").json()["text"] == whole["text"]
    larger = {"text": "ä" * (DIFFERENCE_BYTES // 2 + 1)}
    answer = send(console, ann, build_dirty(difference=larger))
    assert codes(answer) == ["value_error"], answer


def test_credentials_in_the_address_of_a_remote_are_not_kept_and_that_is_said(console: ConsoleUnderTest) -> None:
    ann = console.add_user("ann")
    origin = {"commit": "0" * 40, "remote": "https://ann:hunter2secret@git.example/a.git?token=hunter2secret"}
    record = send(console, ann, build_submission(provenance=origin))
    detail = console.client(ann).get(f"/api/v1/jobs/{record['job']}")
    assert detail.json()["spec"]["spec"]["provenance"]["remote"] == "https://git.example/a.git"
    assert "hunter2secret" not in detail.text
    assert any("credentials" in warning for warning in record["warnings"])


def test_the_same_spec_again_is_a_new_job_with_the_same_digest_that_says_from_which(console: ConsoleUnderTest) -> None:
    ann, bob = console.add_user("ann"), console.add_user("bob")
    first = send(console, ann, build_dirty())
    client = console.client(bob)
    answer = client.post(f"/api/v1/jobs/{first['job']}/rerun", headers={"Idempotency-Key": "k"})
    assert answer.status_code == 201, answer.text
    again = answer.json()
    assert again["spec_digest"] == first["spec_digest"]
    assert any(f"allowed for {first['job']}, and again" in warning for warning in again["warnings"])
    detail = client.get(f"/api/v1/jobs/{again['job']}").json()
    assert (detail["job"]["user"], detail["job"]["state"]) == ("bob", "QUEUED")
    assert detail["events"][0]["note"] == f"the spec of {first['job']}, submitted again"
    assert detail["lineage"]["rerun_of"] == first["job"]
    assert detail["lineage"]["config"] == CONFIG
    assert client.get(f"/api/v1/jobs/{again['job']}/difference").json()["text"] == TEXT
    repeated = client.post(f"/api/v1/jobs/{first['job']}/rerun", headers={"Idempotency-Key": "k"})
    assert repeated.json() == again
    other = client.post(f"/api/v1/jobs/{again['job']}/rerun", headers={"Idempotency-Key": "k"})
    assert other.status_code == 409


def test_a_rerun_asks_every_gate_anew(console: ConsoleUnderTest) -> None:
    ann = console.add_user("ann")
    job = send(console, ann, build_submission())["job"]
    root = console.services.settings.storage_root
    for blob in (root / "blobs" / "sha256").rglob("*"):
        if blob.is_file():
            blob.unlink()
    client = console.client(ann)
    answer = client.post(f"/api/v1/jobs/{job}/rerun")
    assert (answer.status_code, codes(answer.json())) == (422, ["workspace_missing"])
    assert client.post("/api/v1/jobs/jaaaaaaaaa/rerun").status_code == 404
    reader = console.client(console.add_user("eve", scopes=["read"]))
    assert reader.post(f"/api/v1/jobs/{job}/rerun").status_code == 403


def test_a_rerun_of_a_method_that_is_published_otherwise_by_now_is_refused_with_what_to_do(
    console: ConsoleUnderTest,
) -> None:
    ann = console.add_user("ann")
    job = send(console, ann, build_submission())["job"]
    digest = build_submission()["spec"]["spec"]["recipe"]["digest"]  # type: ignore[index]  # a document
    was = func.replace(jobs.c.spec, digest, "sha256:" + "5" * 64)
    console.ledger.write_now(lambda c: c.execute(update(jobs).values(spec=was)))
    answer = console.client(ann).post(f"/api/v1/jobs/{job}/rerun").json()
    assert codes(answer) == ["recipe_digest"]
    assert "sf recipe upgrade" in answer["refusals"][0]["next_step"]


def test_the_packed_workspace_comes_back_as_it_is_whole_or_in_part(console: ConsoleUnderTest) -> None:
    ann = console.add_user("ann")
    job = send(console, ann, build_submission())["job"]
    client = console.client(ann)
    answer = client.get(f"/api/v1/jobs/{job}/workspace")
    assert (answer.status_code, answer.content) == (200, WORKSPACE)
    assert answer.headers["content-type"] == "application/x-tar"
    part = client.get(f"/api/v1/jobs/{job}/workspace", headers={"Range": "bytes=2-"})
    assert (part.status_code, part.content) == (206, WORKSPACE[2:])
    assert console.client().get(f"/api/v1/jobs/{job}/workspace").status_code == 401


def test_a_deleted_job_takes_its_lineage_with_it_and_its_rerun_stays(console: ConsoleUnderTest) -> None:
    ann = console.add_user("ann")
    job = send(console, ann, build_dirty())["job"]
    client = console.client(ann)
    again = client.post(f"/api/v1/jobs/{job}/rerun").json()["job"]
    assert client.post(f"/api/v1/jobs/{job}/stop").status_code == 202
    assert client.delete(f"/api/v1/jobs/{job}").status_code == 204
    assert console.ledger.read_now(lambda c: load_lineage(c, job)).config is None
    assert client.get(f"/api/v1/jobs/{again}").json()["lineage"]["rerun_of"] == job

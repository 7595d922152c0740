"""Requests that no client of ours would send to the API: each is refused in words, and the console goes on."""

import hashlib
import json
import threading

import pytest
from backports import zstd

from e2e.badinput.yard import Yard, write_sound
from e2e.support.console import wait_for

pytestmark = pytest.mark.engine

MEBIBYTE = 1 << 20


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return {"FORGE_WORKSPACE_MAX_BYTES": str(8 * MEBIBYTE)}


def test_a_body_that_is_too_large_is_refused(unharmed: Yard) -> None:
    answer = unharmed.send("x" * (5 * MEBIBYTE))
    assert (answer.status, answer.code) == (413, "too_large")


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"spec":' * 50_000, b'{"spec":' + b"[" * 500 + b"]" * 500 + b"}"])
def test_a_body_nested_without_end_is_refused(unharmed: Yard, body: bytes) -> None:
    answer = unharmed.api.call("POST", "/api/v1/jobs", body, {"Content-Type": "application/json"})
    assert answer.status == 422
    assert "nested" in answer.words


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe{}", b"nul", b'{"spec": NaN}', b"[]", b"\0", b'{"a":1}'])
def test_a_body_that_is_no_submission_is_refused(unharmed: Yard, body: bytes) -> None:
    answer = unharmed.api.call("POST", "/api/v1/jobs", body, {"Content-Type": "application/json"})
    assert answer.status == 422
    assert answer.body["title"]
    assert answer.body["next_step"]


def test_every_fault_of_a_spec_is_named_at_once(unharmed: Yard) -> None:
    spec = unharmed.spec_with(unharmed.upload(write_sound))
    spec["metadata"]["name"] = "../../etc"
    spec["spec"]["entry"]["value"] = "../outside"
    spec["spec"]["resources"]["pools"][0]["gpus_per_node"] = -1
    spec["spec"]["surprise"] = True
    answer = unharmed.send(spec)
    assert answer.status == 422
    for field in ("metadata.name", "entry.value", "gpus_per_node", "surprise"):
        assert field in answer.words


@pytest.mark.parametrize("entry", ["..", "/etc", "a/../../b", "experiments/probe/../../.."])
def test_an_entry_outside_of_the_workspace_is_refused(unharmed: Yard, entry: str) -> None:
    spec = unharmed.spec_with(unharmed.upload(write_sound))
    spec["spec"]["entry"]["value"] = entry
    answer = unharmed.send(spec)
    assert answer.status == 422
    assert "inside the workspace" in answer.words


@pytest.mark.parametrize(
    "job",
    [
        "..%2f..%2fetc%2fpasswd",
        "jaaaaaaaaa%2f..%2f..",
        "%00",
        "j" * 4000,
        "%F0%9F%92%A9",
        "jaaaaaaaaa.1",
        "' OR 1=1 --",
    ],
)
def test_a_job_whose_id_is_a_trick_does_not_exist(unharmed: Yard, job: str) -> None:
    path = f"/api/v1/jobs/{job.replace(' ', '%20')}"
    for method, rest in (("GET", ""), ("GET", "/log"), ("GET", "/outputs"), ("GET", "/metrics"), ("DELETE", "")):
        assert unharmed.api.call(method, path + rest).status == 404, (method, rest)


@pytest.mark.parametrize(
    "digest",
    [
        "sha256:..%2f..%2f..%2fetc%2fpasswd",
        "..",
        "sha256:" + "A" * 64,
        "sha256:" + "0" * 63,
        "sha256:" + "0" * 64 + "%0a",
    ],
)
def test_a_digest_that_is_a_trick_is_refused_and_nothing_is_written(unharmed: Yard, digest: str) -> None:
    before = sorted(path.name for path in (unharmed.console.storage / "blobs").rglob("*"))
    for method, body in (("GET", None), ("PUT", b"x")):
        assert unharmed.api.call(method, f"/api/v1/blobs/{digest}", body).status in {404, 422}
    assert sorted(path.name for path in (unharmed.console.storage / "blobs").rglob("*")) == before


def test_content_that_is_not_what_its_digest_says_is_not_kept(unharmed: Yard) -> None:
    digest = "sha256:" + "2" * 64
    answer = unharmed.api.call("PUT", f"/api/v1/blobs/{digest}", b"something else")
    assert (answer.status, answer.code) == (422, "blob_refused")
    assert unharmed.api.call("GET", f"/api/v1/blobs/{digest}").body["present"] is False
    assert unharmed.kept_of_an_upload(digest) == []


@pytest.mark.parametrize("encoding", ["identity", "zstd"])
def test_a_workspace_over_the_limit_is_refused_however_small_it_travels(unharmed: Yard, encoding: str) -> None:
    content = b"\0" * (64 * MEBIBYTE)
    digest = "sha256:" + hashlib.sha256(content).hexdigest()
    body = zstd.compress(content) if encoding == "zstd" else content
    answer = unharmed.api.call("PUT", f"/api/v1/blobs/{digest}", body, {"Content-Encoding": encoding})
    assert (answer.status, answer.code) == (413, "too_large")
    assert "FORGE_WORKSPACE_MAX_BYTES" in answer.words
    assert unharmed.kept_of_an_upload(digest) == []


def test_an_upload_that_breaks_off_is_no_blob_and_can_go_on(unharmed: Yard) -> None:
    digest = "sha256:" + "3" * 64
    assert not unharmed.api.trickle("PUT", f"/api/v1/blobs/{digest}", 1000, 0.5)
    wait_for(
        lambda: unharmed.api.call("GET", f"/api/v1/blobs/{digest}").body["received"] == 1, "what came to be kept", 10
    )
    assert len(unharmed.kept_of_an_upload(digest)) == 1
    assert unharmed.api.call("GET", f"/api/v1/blobs/{digest}").body["present"] is False


def test_one_submission_sent_many_times_at_once_is_one_job(yard: Yard) -> None:
    body = json.dumps({"spec": yard.spec_with(yard.upload(write_sound)), "allow_dirty": True}).encode()
    headers = {"Content-Type": "application/json", "Idempotency-Key": "the-same"}
    jobs: list[str] = []
    threads = [
        threading.Thread(target=lambda: jobs.append(yard.api.call("POST", "/api/v1/jobs", body, headers).body["job"]))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(jobs) == 8
    assert len(set(jobs)) == 1
    assert yard.probe.wait_end(jobs[0])["job"]["state"] == "SUCCEEDED"


def test_one_key_for_another_submission_is_refused(yard: Yard) -> None:
    workspace = yard.upload(write_sound)
    headers = {"Content-Type": "application/json", "Idempotency-Key": "used-twice"}
    answers = []
    for note in ("first", "second"):
        spec = yard.spec_with(workspace)
        spec["metadata"]["note"] = note
        body = json.dumps({"spec": spec, "allow_dirty": True}).encode()
        answers.append(yard.api.call("POST", "/api/v1/jobs", body, headers))
    assert [answer.status for answer in answers] == [201, 409]
    yard.probe.wait_end(answers[0].body["job"])


@pytest.mark.parametrize("query", ["limit=0", "limit=-1", "limit=1e9", "cursor=nonsense", "state=GONE", "limit=x"])
def test_a_question_with_an_impossible_answer_is_refused(unharmed: Yard, query: str) -> None:
    assert unharmed.api.call("GET", f"/api/v1/jobs?{query}").status == 422


@pytest.fixture(scope="module")
def sound(shared_yard: Yard) -> str:
    """A job that has ended."""
    job = shared_yard.submit(shared_yard.upload(write_sound))
    shared_yard.probe.wait_end(job)
    return job


@pytest.mark.parametrize("query", ["points=0", "points=-5", "points=1e12", "points=x"])
def test_a_curve_with_an_impossible_number_of_points_is_refused(sound: str, unharmed: Yard, query: str) -> None:
    yard, job = unharmed, sound
    assert yard.api.call("GET", f"/api/v1/jobs/{job}/metrics/loss?{query}").status == 422

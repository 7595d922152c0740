import asyncio

import httpx2
import pytest

from server.tests.web.support import WORKSPACE, ConsoleUnderTest, build_submission
from starforge.contract.api import AdmissionRecord
from starforge.contract.canonical import digest_bytes, digest_json
from starforge.contract.ids import Digest
from starforge_console.blobs.places import locate_blob


def test_a_submission_that_every_gate_passes_becomes_a_queued_job(console: ConsoleUnderTest) -> None:
    console.keep_workspace()
    client = console.client(console.add_user("ann"))
    answer = client.post("/api/v1/jobs", json=build_submission(), headers={"Idempotency-Key": "k"})
    assert answer.status_code == 201
    record = AdmissionRecord.model_validate(answer.json())
    gates = [
        *("account", "catalog", "provenance", "topology", "backend", "max_runtime"),
        *("quota", "windows", "image", "inputs", "huggingface"),
    ]
    assert [check.gate for check in record.checks] == gates
    shown = client.get(f"/api/v1/jobs/{record.job}").json()
    assert shown["job"]["state"] == "QUEUED"
    assert shown["admission"] == answer.json()


def test_the_record_is_digested_without_its_own_digest(console: ConsoleUnderTest) -> None:
    console.keep_workspace()
    record = console.client(console.add_user("ann")).post("/api/v1/jobs", json=build_submission()).json()
    digest = record.pop("digest")
    assert digest_json(record) == digest


def test_every_refusal_comes_at_once(console: ConsoleUnderTest) -> None:
    submission = build_submission(
        recipe={"name": "custom/costum", "version": "1", "digest": "sha256:" + "0" * 64},
        provenance={"dirty": True, "dirty_files": ["train.py"]},
        placement={"fleet": "locale"},
    )
    answer = console.client(console.add_user("ann")).post("/api/v1/jobs", json=submission)
    assert answer.status_code == 422
    problem = answer.json()
    assert problem["code"] == "admission_refused"
    assert [(refusal["gate"], refusal["code"]) for refusal in problem["refusals"]] == [
        ("catalog", "method_unknown"),
        ("provenance", "workspace_dirty"),
        ("provenance", "workspace_missing"),
        ("topology", "fleet_unknown"),
    ]


def test_deciding_answers_with_the_refusals_and_keeps_nothing(console: ConsoleUnderTest) -> None:
    client = console.client(console.add_user("ann", scopes=["read"]))
    answer = client.post("/api/v1/admission", json=build_submission())
    assert answer.status_code == 200
    assert [refusal["code"] for refusal in answer.json()["refusals"]] == ["scope_missing"]
    assert answer.json()["job"] is None
    assert client.get("/api/v1/jobs").json()["items"] == []


def test_a_workspace_that_is_still_to_come_is_only_noted_until_a_job_is_to_be_made(console: ConsoleUnderTest) -> None:
    client = console.client(console.add_user("ann"))
    answer = client.post("/api/v1/admission", json=build_submission()).json()
    assert answer["refusals"] == []
    assert "is not here yet" in next(check["message"] for check in answer["checks"] if check["gate"] == "provenance")
    refused = client.post("/api/v1/jobs", json=build_submission()).json()
    assert [refusal["code"] for refusal in refused["refusals"]] == ["workspace_missing"]


def test_a_repeat_under_the_same_key_gives_the_same_answer(console: ConsoleUnderTest) -> None:
    console.keep_workspace()
    client = console.client(console.add_user("ann"))
    first, second = (
        client.post("/api/v1/jobs", json=build_submission(), headers={"Idempotency-Key": "once"}) for _ in range(2)
    )
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json()
    assert len(client.get("/api/v1/jobs").json()["items"]) == 1


def test_a_repeat_is_answered_as_before_when_a_gate_would_refuse_it_by_now(console: ConsoleUnderTest) -> None:
    console.keep_workspace()
    client = console.client(console.add_user("ann"))
    first = client.post("/api/v1/jobs", json=build_submission(), headers={"Idempotency-Key": "once"})
    locate_blob(console.services.settings.storage_root, build_digest()).unlink()
    second = client.post("/api/v1/jobs", json=build_submission(), headers={"Idempotency-Key": "once"})
    assert second.json() == first.json()


def test_another_submission_under_the_same_key_is_a_conflict(console: ConsoleUnderTest) -> None:
    console.keep_workspace()
    client = console.client(console.add_user("ann"))
    client.post("/api/v1/jobs", json=build_submission(), headers={"Idempotency-Key": "once"})
    other = build_submission(hyperparameters={"lr": 0.1})
    answer = client.post("/api/v1/jobs", json=other, headers={"Idempotency-Key": "once"})
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")


def test_two_users_may_choose_the_same_key(console: ConsoleUnderTest) -> None:
    console.keep_workspace()
    jobs = {
        console.client(console.add_user(name))
        .post("/api/v1/jobs", json=build_submission(), headers={"Idempotency-Key": "once"})
        .json()["job"]
        for name in ("ann", "bob")
    }
    assert len(jobs) == 2


def test_five_hundred_at_once_all_become_jobs_and_none_twice(console: ConsoleUnderTest) -> None:
    console.keep_workspace()
    headers = console.add_user("ann")
    answers = asyncio.run(_submit_at_once(console, headers, [f"key-{number}" for number in range(500)]))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["job"] for answer in answers}) == 500


def test_five_hundred_at_once_under_one_key_are_one_job(console: ConsoleUnderTest) -> None:
    console.keep_workspace()
    headers = console.add_user("ann")
    answers = asyncio.run(_submit_at_once(console, headers, ["one"] * 500))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert len(console.client(headers).get("/api/v1/jobs").json()["items"]) == 1


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"metadata": {"name": "UPPER", "project": "demo"}}, "body.spec.metadata.name"),
        ({"surprise": 1}, "body.spec.surprise"),
        ({"kind": "Other"}, "body.spec.kind"),
    ],
)
def test_each_fault_of_a_spec_is_named_with_its_path(
    console: ConsoleUnderTest, change: dict[str, object], path: str
) -> None:
    submission = build_submission()
    spec = submission["spec"]
    assert isinstance(spec, dict)
    answer = console.client(console.add_user("ann")).post("/api/v1/jobs", json={"spec": spec | change})
    assert answer.status_code == 422
    assert any(refusal["what"].startswith(f"{path}:") for refusal in answer.json()["refusals"])


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999", '"\\ud800"'])
def test_a_value_that_json_cannot_carry_on_is_refused(console: ConsoleUnderTest, value: str) -> None:
    body = httpx2.Request("POST", "http://x", json=build_submission(hyperparameters={"lr": 7})).content
    spoilt = body.replace(b'"lr":7', f'"lr":{value}'.encode())
    assert spoilt != body
    client = console.client(console.add_user("ann"))
    answer = client.post("/api/v1/jobs", content=spoilt, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422, answer.text


def test_a_token_that_may_only_read_cannot_submit(console: ConsoleUnderTest) -> None:
    console.keep_workspace()
    answer = console.client(console.add_user("ann", scopes=["read"])).post("/api/v1/jobs", json=build_submission())
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


def build_digest() -> Digest:
    return digest_bytes(WORKSPACE)


async def _submit_at_once(console: ConsoleUnderTest, headers: dict[str, str], keys: list[str]) -> list[httpx2.Response]:
    transport = httpx2.ASGITransport(console.app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://console", headers=headers) as client:
        sent = [client.post("/api/v1/jobs", json=build_submission(), headers={"Idempotency-Key": key}) for key in keys]
        return list(await asyncio.gather(*sent))

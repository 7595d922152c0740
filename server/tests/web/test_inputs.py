"""What jobs read, from the submission to the record: pinned, shown, and kept while somebody starts from it."""

import asyncio

import httpx2
import pytest

from server.tests.ledger.builders import wish_stop
from server.tests.web.lives import run_to_end
from server.tests.web.support import ConsoleUnderTest, build_submission, submit
from starforge.contract.ids import JobId
from starforge.runner.checkpoints import commit
from starforge_console.assembly.layout import StorageLayout
from starforge_console.domain.inputs import HubAnswer, HubRef, HubStanding
from starforge_console.domain.quota import Holder
from starforge_console.inputs.stored import StoredInputs
from starforge_console.ledger.moves import Guard
from starforge_console.ledger.quotas import change_parts

COMMIT = "c" * 40
MODEL = HubRef("model", "qwen/qwen3", "main")


def keep_checkpoint(console: ConsoleUnderTest, job: JobId, step: int) -> None:
    folder = console.run_folder(job) / "checkpoints" / "1" / "ckpt" / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "weights").write_bytes(b"w")
    commit(str(folder), step)


def test_the_commit_of_a_model_stands_in_the_record_and_beside_the_job(console: ConsoleUnderTest) -> None:
    console.keep_workspace()
    console.hub.answers[MODEL] = HubAnswer(HubStanding.READABLE, commit=COMMIT)
    client = console.client(console.add_user("ann"))
    record = client.post("/api/v1/jobs", json=build_submission(model="hf://qwen/qwen3")).json()
    said = next(check for check in record["checks"] if check["gate"] == "huggingface")
    assert said["against"] == f"model: hf://qwen/qwen3@main = commit {COMMIT}"
    detail = client.get(f"/api/v1/jobs/{record['job']}").json()
    pinned = {"member": "model", "kind": "hub", "name": "qwen/qwen3@main", "version": COMMIT}
    assert detail["inputs"] == [pinned]


def test_a_model_that_is_not_there_is_refused_beside_everything_else(console: ConsoleUnderTest) -> None:
    submission = build_submission(model="hf://qwen/qwen3", data={"train": "/etc/passwd"}, provenance={"dirty": True})
    answer = console.client(console.add_user("ann")).post("/api/v1/jobs", json=submission).json()
    assert {refusal["code"] for refusal in answer["refusals"]} == {
        *("workspace_dirty", "workspace_missing", "input_outside", "hub_not_found"),
    }


def test_a_job_that_another_starts_from_is_kept_until_that_one_has_ended(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    first = submit(console, headers)
    run_to_end(console, first)
    keep_checkpoint(console, first, 7)
    client = console.client(headers)
    asked = build_submission(init_from=f"run/{first}/checkpoint")
    second = client.post("/api/v1/jobs", json=asked).json()["job"]
    refused = client.delete(f"/api/v1/jobs/{first}")
    assert refused.status_code == 409
    assert second in refused.json()["detail"]
    guard = Guard(now=console.clock.now(), monotonic=console.clock.monotonic())
    console.ledger.write_now(lambda c: wish_stop(c, JobId(second), None, guard))
    assert client.delete(f"/api/v1/jobs/{first}").status_code == 204


def test_the_method_of_the_job_that_another_starts_from_is_looked_up(console: ConsoleUnderTest) -> None:
    first = submit(console, console.add_user("ann"))
    storage = StorageLayout(console.run_folder(first).parent.parent)
    assert StoredInputs(storage, [], console.ledger).load_method(first) == "custom/custom"


def test_five_hundred_at_once_under_a_quota_with_a_model_are_all_admitted_and_ask_the_hub(
    console: ConsoleUnderTest,
) -> None:
    console.keep_workspace()
    console.hub.answers[MODEL] = HubAnswer(HubStanding.READABLE, commit=COMMIT)
    headers = console.add_user("ann")
    console.ledger.write_now(lambda c: change_parts(c, Holder("user", "ann"), {"jobs": 1}))

    async def go() -> list[httpx2.Response]:
        transport = httpx2.ASGITransport(console.app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://console", headers=headers) as client:
            body = build_submission(model="hf://qwen/qwen3")
            sent = [
                client.post("/api/v1/jobs", json=body, headers={"Idempotency-Key": f"key-{number // 2}"})
                for number in range(500)
            ]
            return list(await asyncio.gather(*sent))

    answers = asyncio.run(go())
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["job"] for answer in answers}) == 250


@pytest.mark.parametrize("path", ["/api/v1/methods/trl/sfd", "/api/v1/methods/trl/sft?version=0.1"])
def test_what_is_not_published_is_not_found(console: ConsoleUnderTest, path: str) -> None:
    assert console.client(console.add_user("ann")).get(path).status_code == 404

"""A user's own secrets over the API: set, listed by name, removed, named by jobs; a value never comes back."""

import json

import pytest
from structlog.testing import capture_logs

from server.tests.databases import read_stored
from server.tests.web.support import ConsoleUnderTest, build_submission
from starforge.contract.secrets import SECRETS_OF_A_USER, VALUE_BYTES

VALUE = "hf_a-value-that-nobody-may-see"


def submission(*names: str) -> dict[str, object]:
    return build_submission(secrets=list(names))


def test_a_secret_is_listed_by_name_and_time_and_its_value_is_in_no_answer_and_no_log(
    console: ConsoleUnderTest,
) -> None:
    client = console.client(console.add_user("ann"))
    with capture_logs() as logs:
        set_answer = client.put("/api/v1/secrets/HF_TOKEN", json={"value": VALUE})
    listed = client.get("/api/v1/secrets")
    assert (set_answer.status_code, listed.status_code) == (200, 200)
    (one,) = listed.json()["items"]
    assert (one["name"], one["set_at"]) == ("HF_TOKEN", set_answer.json()["set_at"])
    assert VALUE not in set_answer.text + listed.text + json.dumps(logs)
    assert [(entry["event"], entry["user"], entry["name"]) for entry in logs] == [
        ("a secret was set", "ann", "HF_TOKEN")
    ]


def test_nothing_of_a_value_is_in_the_files_of_the_ledger(console: ConsoleUnderTest) -> None:
    console.client(console.add_user("ann")).put("/api/v1/secrets/HF_TOKEN", json={"value": VALUE})
    files = [file for file in console.root.rglob("*") if file.is_file()]
    kept = read_stored(console.root / "state")
    assert b"HF_TOKEN" in kept
    assert VALUE.encode() not in kept
    assert not [file for file in files if VALUE.encode() in file.read_bytes()]


def test_setting_a_secret_again_replaces_it(console: ConsoleUnderTest) -> None:
    client = console.client(console.add_user("ann"))
    first = client.put("/api/v1/secrets/HF_TOKEN", json={"value": VALUE}).json()
    console.clock.ahead_s = 60
    second = client.put("/api/v1/secrets/HF_TOKEN", json={"value": VALUE}).json()
    assert second["set_at"] >= first["set_at"] + 60
    assert len(client.get("/api/v1/secrets").json()["items"]) == 1


def test_everybody_sees_and_removes_their_own_alone(console: ConsoleUnderTest) -> None:
    ann, root = console.client(console.add_user("ann")), console.client(console.add_user("root", "admin"))
    ann.put("/api/v1/secrets/HF_TOKEN", json={"value": VALUE})
    assert root.get("/api/v1/secrets").json()["items"] == []
    assert root.delete("/api/v1/secrets/HF_TOKEN").status_code == 404
    assert ann.delete("/api/v1/secrets/HF_TOKEN").status_code == 204
    assert ann.get("/api/v1/secrets").json()["items"] == []
    assert ann.delete("/api/v1/secrets/HF_TOKEN").status_code == 404


def test_who_removes_a_secret_that_is_not_there_is_told_the_nearest(console: ConsoleUnderTest) -> None:
    client = console.client(console.add_user("ann"))
    client.put("/api/v1/secrets/HF_TOKEN", json={"value": VALUE})
    assert "'HF_TOKEN'" in client.delete("/api/v1/secrets/HF_TOKN").json()["next_step"]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_a_token_that_may_only_read_has_nothing_to_do_with_secrets(console: ConsoleUnderTest, method: str) -> None:
    client = console.client(console.add_user("ann", scopes=["read"]))
    path = "/api/v1/secrets" if method == "GET" else "/api/v1/secrets/HF_TOKEN"
    answer = client.request(method, path, json={"value": VALUE} if method == "PUT" else None)
    assert answer.status_code == 403


@pytest.mark.parametrize("name", ["hf_token", "LD_PRELOAD", "FORGE_JOB", "A" * 65])
def test_a_name_that_no_secret_may_have_is_refused(console: ConsoleUnderTest, name: str) -> None:
    answer = console.client(console.add_user("ann")).put(f"/api/v1/secrets/{name}", json={"value": VALUE})
    assert (answer.status_code, VALUE in answer.text) == (422, False)
    assert answer.json()["detail"]


@pytest.mark.parametrize("value", ["", "x" * (VALUE_BYTES + 1), "a\0b", "a\ud800b", 7, None, [VALUE]])
def test_a_value_that_no_variable_can_hold_is_refused_and_not_repeated(
    console: ConsoleUnderTest, value: object
) -> None:
    client = console.client(console.add_user("ann"))
    body = json.dumps({"value": value}).encode()
    answer = client.put("/api/v1/secrets/HF_TOKEN", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert VALUE not in answer.text
    assert client.get("/api/v1/secrets").json()["items"] == []


def test_of_a_value_that_will_not_be_masked_its_owner_is_told(console: ConsoleUnderTest) -> None:
    client = console.client(console.add_user("ann"))
    assert "not be masked" in client.put("/api/v1/secrets/PIN", json={"value": "1234567"}).json()["note"]
    assert client.put("/api/v1/secrets/PIN", json={"value": "12345678"}).json()["note"] == ""


def test_a_user_has_a_bounded_number_of_secrets_and_may_still_change_them(console: ConsoleUnderTest) -> None:
    client = console.client(console.add_user("ann"))
    for number in range(SECRETS_OF_A_USER):
        assert client.put(f"/api/v1/secrets/A{number}", json={"value": VALUE}).status_code == 200
    refused = client.put("/api/v1/secrets/ONE_MORE", json={"value": VALUE})
    assert (refused.status_code, "sf secret rm" in refused.json()["next_step"]) == (409, True)
    assert client.put("/api/v1/secrets/A7", json={"value": VALUE}).status_code == 200


def test_a_job_is_refused_with_every_secret_that_its_submitter_has_not_set(console: ConsoleUnderTest) -> None:
    console.keep_workspace()
    client = console.client(console.add_user("ann"))
    console.client(console.add_user("bob")).put("/api/v1/secrets/B", json={"value": VALUE})
    client.put("/api/v1/secrets/A", json={"value": VALUE})
    answer = client.post("/api/v1/jobs", json=submission("A", "B", "C"))
    found = [(one["gate"], one["code"], one["next_step"]) for one in answer.json()["refusals"]]
    assert found == [
        ("account", "secret_missing", "sf secret set B"),
        ("account", "secret_missing", "sf secret set C"),
    ]


def test_a_job_whose_secrets_are_set_is_admitted_and_says_which(console: ConsoleUnderTest) -> None:
    console.keep_workspace()
    client = console.client(console.add_user("ann"))
    for name in ("A", "B"):
        client.put(f"/api/v1/secrets/{name}", json={"value": VALUE})
    job = client.post("/api/v1/jobs", json=submission("B", "A")).json()["job"]
    shown = client.get(f"/api/v1/jobs/{job}").json()
    assert shown["spec"]["spec"]["secrets"] == ["A", "B"]
    assert shown["admission"]["checks"][0]["message"] == "2 secrets: A, B"


def test_whoever_runs_another_users_job_again_needs_secrets_of_their_own(console: ConsoleUnderTest) -> None:
    console.keep_workspace()
    ann, bob = console.client(console.add_user("ann")), console.client(console.add_user("bob"))
    ann.put("/api/v1/secrets/A", json={"value": VALUE})
    job = ann.post("/api/v1/jobs", json=submission("A")).json()["job"]
    refused = bob.post(f"/api/v1/jobs/{job}/rerun")
    assert [one["code"] for one in refused.json()["refusals"]] == ["secret_missing"]
    bob.put("/api/v1/secrets/A", json={"value": "bob's own value"})
    again = bob.post(f"/api/v1/jobs/{job}/rerun").json()["job"]
    assert bob.get(f"/api/v1/jobs/{again}").json()["spec"]["spec"]["secrets"] == ["A"]


def test_the_console_says_that_it_passes_secrets(console: ConsoleUnderTest) -> None:
    assert "secrets" in console.client({}).get("/api/v1/meta").json()["features"]

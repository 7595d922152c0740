"""The section of secrets on the page of tokens, and what a job's pages tell of them: never a value."""

import pytest

from server.tests.pages.support import form_key, sign_in
from server.tests.web.lives import begin
from server.tests.web.support import ConsoleUnderTest, build_submission
from starforge.contract.ids import AttemptId, JobId
from starforge_console.ledger.secrets import Recipient, find_secrets, keep_given

VALUE = "hf_a-value-that-nobody-may-see"


@pytest.mark.parametrize(("language", "title"), [("en", "Secrets"), ("zh-Hans", "机密")])
def test_a_secret_is_set_listed_and_removed_by_forms_and_its_value_is_never_shown(
    console: ConsoleUnderTest, language: str, title: str
) -> None:
    client = sign_in(console, console.add_user("ann"))
    client.cookies.set("starforge_language", language)
    key = form_key(client.get("/tokens").text)
    after = client.post("/secrets", data={"form_key": key, "name": "HF_TOKEN", "value": VALUE})
    assert (after.status_code, after.url.path) == (200, "/tokens")
    assert f">{title}</h2>" in after.text
    assert "<code>HF_TOKEN</code>" in after.text
    assert VALUE not in after.text
    removed = client.post("/secrets/HF_TOKEN/remove", data={"form_key": key})
    assert "<code>HF_TOKEN</code>" not in removed.text


@pytest.mark.parametrize(("value", "is_warned"), [("1234567", True), ("12345678", False)])
def test_of_a_value_that_will_not_be_masked_its_owner_is_told(
    console: ConsoleUnderTest, value: str, *, is_warned: bool
) -> None:
    client = sign_in(console, console.add_user("ann"))
    key = form_key(client.get("/tokens").text)
    after = client.post("/secrets", data={"form_key": key, "name": "PIN", "value": value})
    assert ("too short to be masked" in after.text, value in after.text) == (is_warned, False)


def test_a_value_keeps_its_blanks(console: ConsoleUnderTest) -> None:
    client = sign_in(console, console.add_user("ann"))
    key = form_key(client.get("/tokens").text)
    assert client.post("/secrets", data={"form_key": key, "name": "A", "value": " "}).status_code == 200


@pytest.mark.parametrize(("name", "value"), [("LD_PRELOAD", VALUE), ("hf_token", VALUE), ("", VALUE), ("A", "")])
def test_what_cannot_be_set_is_refused_in_words_without_the_value(
    console: ConsoleUnderTest, name: str, value: str
) -> None:
    client = sign_in(console, console.add_user("ann"))
    data = {"form_key": form_key(client.get("/tokens").text), "name": name, "value": value}
    answer = client.post("/secrets", data=data)
    assert (answer.status_code, 'role="alert"' in answer.text, VALUE in answer.text) == (422, True, False)


def test_who_may_only_read_has_no_section_and_sets_nothing(console: ConsoleUnderTest) -> None:
    client = sign_in(console, console.add_user("ann", scopes=["read"]))
    page = client.get("/tokens").text
    assert 'action="/secrets"' not in page
    data = {"form_key": form_key(page), "name": "A", "value": VALUE}
    assert client.post("/secrets", data=data).status_code == 403


def test_an_administrator_sees_nobody_elses_secrets(console: ConsoleUnderTest) -> None:
    console.client(console.add_user("ann")).put("/api/v1/secrets/HF_TOKEN", json={"value": VALUE})
    assert "HF_TOKEN</code>" not in sign_in(console, console.add_user("root", "admin")).get("/tokens").text


def test_a_job_shows_which_secrets_it_was_given_and_when_they_were_set(console: ConsoleUnderTest) -> None:
    console.keep_workspace()
    headers = console.add_user("ann")
    api = console.client(headers)
    set_at = api.put("/api/v1/secrets/HF_TOKEN", json={"value": VALUE}).json()["set_at"]
    job = JobId(api.post("/api/v1/jobs", json=build_submission(secrets=["HF_TOKEN"])).json()["job"])
    attempt = begin(console, job).attempt
    assert attempt is not None
    to = Recipient(attempt=AttemptId(attempt), job=job, number=1)
    found = console.ledger.read_now(lambda c: find_secrets(c, to, ["HF_TOKEN"]))
    console.ledger.write_now(lambda c: keep_given(c, to, found, console.clock.now()))
    shown = api.get(f"/api/v1/jobs/{job}").json()
    assert shown["attempts"][0]["secrets"] == [{"name": "HF_TOKEN", "set_at": set_at}]
    assert any(event["note"].startswith("passed 1 secret: HF_TOKEN (set 20") for event in shown["events"])
    client = sign_in(console, headers)
    assert "<li><code>HF_TOKEN</code>" in client.get(f"/jobs/{job}?view=lineage").text
    assert "<code>HF_TOKEN</code>" in client.get(f"/jobs/{job}").text

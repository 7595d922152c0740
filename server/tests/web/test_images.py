"""Images from the submission to the record: asked for once, refused in the registry's words, pinned, shown."""

import asyncio

import httpx2
import pytest

from server.tests.web.support import ConsoleUnderTest, build_console, build_submission, close_console
from starforge_console.domain.images import Denied, ImageAnswer, NoSuchTag, NotAnswered, Resolved

DIGEST = "sha256:" + "1" * 64
IMAGE = "registry.test/train:v3"


def build_train(image: str = IMAGE) -> dict[str, object]:
    return build_submission(framework={"kind": "custom", "image": image})


def test_the_record_names_tag_and_digest_and_the_spec_stays_as_it_was_written(console: ConsoleUnderTest) -> None:
    console.keep_workspace()
    console.registries.answers[IMAGE] = Resolved(DIGEST)
    client = console.client(console.add_user("ann"))
    record = client.post("/api/v1/jobs", json=build_train()).json()
    (check,) = [check for check in record["checks"] if check["gate"] == "image"]
    assert (check["outcome"], check["message"]) == ("passed", f"{IMAGE} = {DIGEST}")
    shown = client.get(f"/api/v1/jobs/{record['job']}").json()
    assert (shown["image_digest"], shown["spec"]["spec"]["framework"]["image"]) == (DIGEST, IMAGE)
    assert shown["spec_digest"] == record["spec_digest"]
    assert client.post("/api/v1/admission", json=build_train()).json()["checks"] == record["checks"]


@pytest.mark.parametrize(
    ("answer", "code", "next_step"),
    [
        (NoSuchTag("404 MANIFEST_UNKNOWN manifest unknown"), "image_not_found", "push the image"),
        (Denied("401 UNAUTHORIZED"), "image_denied", "sf admin registry set registry.test"),
        (Denied("401 UNAUTHORIZED", had_login=True), "image_denied", "renews the login"),
    ],
)
def test_a_refusal_has_the_registrys_words_and_the_next_step(
    console: ConsoleUnderTest, answer: ImageAnswer, code: str, next_step: str
) -> None:
    console.keep_workspace()
    console.registries.answers[IMAGE] = answer
    problem = console.client(console.add_user("ann")).post("/api/v1/jobs", json=build_train())
    (refusal,) = problem.json()["refusals"]
    assert (problem.status_code, refusal["gate"], refusal["code"]) == (422, "image", code)
    assert IMAGE in refusal["what"]
    assert not isinstance(answer, NotAnswered | Resolved)
    assert refusal["why"] == answer.why
    assert next_step in refusal["next_step"]


def test_a_registry_that_does_not_answer_leaves_a_note_in_the_record(console: ConsoleUnderTest) -> None:
    console.keep_workspace()
    console.registries.answers[IMAGE] = NotAnswered("no answer within 3 s")
    client = console.client(console.add_user("ann"))
    record = client.post("/api/v1/jobs", json=build_train()).json()
    assert "no answer within 3 s" in record["warnings"][-1]
    assert client.get(f"/api/v1/jobs/{record['job']}").json()["image_digest"] is None


def test_a_job_that_is_submitted_again_asks_anew(console: ConsoleUnderTest) -> None:
    console.keep_workspace()
    client = console.client(console.add_user("ann"))
    console.registries.answers[IMAGE] = Resolved("sha256:" + "2" * 64)
    first = client.post("/api/v1/jobs", json=build_train()).json()["job"]
    console.registries.answers[IMAGE] = Resolved(DIGEST)
    again = client.post(f"/api/v1/jobs/{first}/rerun").json()["job"]
    assert client.get(f"/api/v1/jobs/{first}").json()["image_digest"] == "sha256:" + "2" * 64
    assert client.get(f"/api/v1/jobs/{again}").json()["image_digest"] == DIGEST


def test_the_same_submission_again_asks_nobody(console: ConsoleUnderTest) -> None:
    console.keep_workspace()
    console.registries.answers[IMAGE] = Resolved(DIGEST)
    client = console.client(console.add_user("ann"))
    jobs = {
        client.post("/api/v1/jobs", json=build_train(), headers={"Idempotency-Key": "k"}).json()["job"] for _ in "ab"
    }
    assert (len(jobs), console.registries.asked) == (1, [IMAGE])


def test_nobody_is_asked_about_an_image_that_is_not_allowed(tmp_path_factory: pytest.TempPathFactory) -> None:
    console = build_console(tmp_path_factory.mktemp("console"), image_allow="allowed.test/*")
    try:
        client = console.client(console.add_user("ann"))
        for image in (IMAGE, "A:b:c"):
            assert client.post("/api/v1/admission", json=build_train(image)).json()["refusals"] != []
        assert console.registries.asked == []
    finally:
        close_console(console)


def test_submissions_at_the_same_time_are_each_pinned(console: ConsoleUnderTest) -> None:
    console.keep_workspace()
    console.registries.answers[IMAGE] = Resolved(DIGEST)
    headers = console.add_user("ann")

    async def submit_all() -> list[str]:
        transport = httpx2.ASGITransport(app=console.app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://console", headers=headers) as client:
            answers = await asyncio.gather(*(client.post("/api/v1/jobs", json=build_train()) for _ in range(40)))
            return [answer.json()["job"] for answer in answers]

    jobs = asyncio.run(submit_all())
    client = console.client(headers)
    assert len(set(jobs)) == 40
    assert {client.get(f"/api/v1/jobs/{job}").json()["image_digest"] for job in jobs} == {DIGEST}

import html
import re

import pytest
from sqlalchemy import update
from starlette.testclient import TestClient

from server.tests.pages.support import form_key, sign_in
from server.tests.web.lives import begin, run_to_end
from server.tests.web.support import ConsoleUnderTest, build_submission
from server.tests.web.test_inputs import keep_checkpoint
from starforge.contract.canonical import digest_json
from starforge.contract.ids import Digest, JobId
from starforge_console.ledger.lineages import Assembled, note_assembled
from starforge_console.ledger.tables import attempts

HOSTILE = "<script>alert(1)</script>\u202e\"'&"
CONFIG = {"image": "python:3.11", "note": HOSTILE}
DIFFERENCE = f"""\
diff --git a/a.py b/a.py
--- a/a.py
+++ b/a.py
@@ -1 +1 @@
-old
+{HOSTILE}
not shown: .env
"""
ORIGIN = {
    "commit": "c" * 40,
    "branch": "main",
    "remote": "git@git.example:a/b.git",
    "dirty": True,
    "dirty_files": ["a.py", HOSTILE],
    "config_digest": digest_json(CONFIG),  # type: ignore[arg-type]  # a dict of texts
}
CAPSULE, RUNNER, IMAGE = (f"sha256:{digit * 64}" for digit in "123")


def submit_dirty(console: ConsoleUnderTest, headers: dict[str, str], **members: object) -> JobId:
    console.keep_workspace()
    beside = {"allow_dirty": True, "difference": {"text": DIFFERENCE, "is_cut": True}, "config": CONFIG, **members}
    answer = console.client(headers).post("/api/v1/jobs", json={**build_submission(provenance=ORIGIN), **beside})
    assert answer.status_code == 201, answer.text
    return JobId(answer.json()["job"])


@pytest.fixture
def client(console: ConsoleUnderTest) -> TestClient:
    return sign_in(console, console.add_user("ann"))


def test_every_fact_of_the_lineage_stands_whole_and_can_be_copied(
    console: ConsoleUnderTest, client: TestClient
) -> None:
    job = submit_dirty(console, console.add_user("owner"))
    ran = begin(console, job)
    attempt = ran.attempt
    assert attempt is not None
    made = Assembled(capsule=Digest(CAPSULE), runner=Digest(RUNNER), is_bare=False)
    console.ledger.write_now(lambda c: note_assembled(c, attempt, made))
    console.ledger.write_now(lambda c: c.execute(update(attempts).values(image_id=IMAGE)))
    detail = console.client(console.add_user("eve")).get(f"/api/v1/jobs/{job}").json()
    spec, page = detail["spec"]["spec"], client.get(f"/jobs/{job}?view=lineage").text
    whole = [
        ORIGIN["commit"],
        ORIGIN["remote"],
        spec["recipe"]["digest"],
        spec["framework"]["image"],
        *(CAPSULE, RUNNER, IMAGE),
        spec["workspace"]["digest"],
        detail["spec_digest"],
        ORIGIN["config_digest"],
        detail["admission"]["digest"],
    ]
    copied = {
        identity: html.unescape(text) for identity, text in re.findall(r'<code id="([\w-]+)">([^<]*)</code>', page)
    }
    assert set(whole) <= set(copied.values())
    targets = re.findall(r'data-copy="([\w-]+)"', page)
    assert {identity for identity in copied if identity.startswith("l-")} <= set(targets)
    assert "<script>alert" not in page
    assert "\u202e" not in page
    assert "python:3.11" in page


def test_the_difference_is_folded_and_each_line_carries_what_it_is(
    console: ConsoleUnderTest, client: TestClient
) -> None:
    job = submit_dirty(console, console.add_user("owner"))
    page = client.get(f"/jobs/{job}?view=lineage").text
    assert '<details class="panel" id="difference"><summary>' in page
    assert '<li class="del">-old</li>' in page
    assert '<li class="add">+&lt;script&gt;' in page
    assert '<li class="hunk">@@ -1 +1 @@</li>' in page
    assert "not shown: .env" in page
    assert "There was more of it than is kept." in page
    assert "view=lineage#difference" in client.get(f"/jobs/{job}").text
    file = client.get(f"/jobs/{job}/difference.diff")
    assert (file.status_code, file.text) == (200, DIFFERENCE)
    assert file.headers["content-disposition"] == f'attachment; filename="{job}.diff"'
    assert file.headers["content-security-policy"] == "default-src 'none'; sandbox"


def test_a_dirty_tree_without_a_difference_says_so_and_a_clean_one_says_nothing(
    console: ConsoleUnderTest, client: TestClient
) -> None:
    owner = console.add_user("owner")
    without = client.get(f"/jobs/{submit_dirty(console, owner, difference=None)}?view=lineage").text
    assert "its client sent no difference" in without
    console.keep_workspace()
    clean = console.client(owner).post("/api/v1/jobs", json=build_submission()).json()["job"]
    page = client.get(f"/jobs/{clean}?view=lineage").text
    assert "difference" not in page.split("<main")[1].split('id="show-clone"')[0]
    assert client.get(f"/jobs/{clean}/difference.diff").status_code == 404


def test_a_rerun_from_the_page_makes_one_new_job_however_often_it_is_sent(
    console: ConsoleUnderTest, client: TestClient
) -> None:
    job = submit_dirty(console, console.add_user("owner"))
    run_to_end(console, job)
    page = client.get(f"/jobs/{job}").text
    once = re.findall(r'name="once" value="([^"]+)"', page)[0]
    form = {"form_key": form_key(page), "once": once}
    answers = [client.post(f"/jobs/{job}/rerun", data=form) for _ in range(2)]
    assert {answer.status_code for answer in answers} == {200}
    again = {answer.url.path.removeprefix("/jobs/") for answer in answers}
    assert len(again) == 1
    assert "Submitted again: this is the new job." in answers[0].text
    assert f'href="/jobs/{job}"' in answers[0].text
    assert f"the spec of {job}, submitted again" in answers[0].text
    assert console.client(console.add_user("eve")).get(f"/api/v1/jobs/{again.pop()}").json()["job"]["user"] == "ann"


def test_a_rerun_that_a_gate_refuses_says_why(console: ConsoleUnderTest, client: TestClient) -> None:
    job = submit_dirty(console, console.add_user("owner"))
    for blob in (console.services.settings.storage_root / "blobs" / "sha256").rglob("*"):
        if blob.is_file():
            blob.unlink()
    page = client.get(f"/jobs/{job}").text
    answer = client.post(f"/jobs/{job}/rerun", data={"form_key": form_key(page), "once": "x"})
    assert answer.status_code == 422
    assert "was not uploaded" in answer.text


def test_who_may_only_read_gets_the_way_to_clone_and_no_way_to_run_again(console: ConsoleUnderTest) -> None:
    job = submit_dirty(console, console.add_user("owner"))
    client = sign_in(console, console.add_user("eve", scopes=["read"]))
    page = client.get(f"/jobs/{job}").text
    assert f'<code id="clone-line">sf job clone {job}</code>' in page
    assert "ask-rerun" not in page
    answer = client.post(f"/jobs/{job}/rerun", data={"form_key": form_key(page)})
    assert answer.status_code == 403


def test_a_start_is_shown_with_the_checkpoint_that_it_was_pinned_to(
    console: ConsoleUnderTest, client: TestClient
) -> None:
    owner = console.add_user("owner")
    first = submit_dirty(console, owner)
    run_to_end(console, first)
    keep_checkpoint(console, first, 70)
    asked = build_submission(init_from=f"run/{first}/checkpoint")
    second = console.client(owner).post("/api/v1/jobs", json=asked).json()["job"]
    for view in ("run", "lineage"):
        page = client.get(f"/jobs/{second}?view={view}").text
        assert f"<code>run/{first}/checkpoint</code></a> <span" in page
        assert ">step 70 of attempt 1<" in page


def test_the_config_names_what_trains_and_a_pool_without_gpus_as_such(
    console: ConsoleUnderTest, client: TestClient
) -> None:
    console.keep_workspace()
    pools = [{"name": "main", "nodes": 1, "gpus_per_node": 0, "cpus": 1, "memory_bytes": 1 << 30}]
    members = {"model": "models/tiny", "data": {"train": "data/train.jsonl"}, "resources": {"pools": pools}}
    answer = console.client(console.add_user("owner")).post("/api/v1/jobs", json=build_submission(**members))
    page = client.get(f"/jobs/{answer.json()['job']}?view=config", headers={"Accept-Language": "zh"}).text
    for shown in ("1 台，不用 GPU", "时长上限", "<code>models/tiny</code>", "<code>data/train.jsonl</code>"):  # noqa: RUF001 - Chinese
        assert shown in page
    assert "max_runtime" not in page


def test_gates_are_named_in_the_readers_language(console: ConsoleUnderTest, client: TestClient) -> None:
    job = submit_dirty(console, console.add_user("owner"))
    page = client.get(f"/jobs/{job}?view=admission", headers={"Accept-Language": "zh"}).text
    assert '代码来源 <code class="muted">provenance</code>' in page


def test_an_attempt_without_a_container_says_that_its_image_was_not_used(
    console: ConsoleUnderTest, client: TestClient
) -> None:
    headers = console.add_user("owner")
    job = submit_dirty(console, headers)
    attempt = begin(console, job).attempt
    assert attempt is not None
    said = "none: it ran without a container"
    assert said not in client.get(f"/jobs/{job}?view=lineage").text
    made = Assembled(capsule=Digest(CAPSULE), runner=Digest(RUNNER), is_bare=True)
    console.ledger.write_now(lambda c: note_assembled(c, attempt, made))
    assert console.client(headers).get(f"/api/v1/jobs/{job}").json()["attempts"][0]["is_bare"] is True
    assert all(said in client.get(f"/jobs/{job}{view}").text for view in ("", "?view=lineage"))

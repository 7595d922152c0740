import re
import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, event
from starlette.testclient import TestClient

from server.tests.pages.support import form_key, sign_in
from server.tests.web.lives import begin, clean, go, retry, run_to_end
from server.tests.web.support import ConsoleUnderTest, submit
from starforge.contract.ids import JobId
from starforge.contract.states import Reason
from starforge_console.web.pages.assets import load_assets

HOSTILE = "<script>alert(1)</script>\u202e\"'&"


@pytest.fixture
def client(console: ConsoleUnderTest) -> TestClient:
    return sign_in(console, console.add_user("ann"))


@pytest.fixture
def job(console: ConsoleUnderTest) -> JobId:
    return submit(console, console.add_user("owner"))


def rows_of(page: str) -> list[str]:
    return re.findall(r'<tr id="job-(\w+)">', page)


@pytest.mark.parametrize("path", ["/signin", "/jobs", "/tokens", "/nowhere", "/jobs/jaaaaaaaaa"])
def test_every_page_carries_the_strict_policy_and_is_kept_nowhere(client: TestClient, path: str) -> None:
    headers = client.get(path, headers={"Accept": "text/html"}).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_no_template_has_an_inline_script_style_or_handler(client: TestClient, job: JobId) -> None:
    pages = "".join(client.get(path).text for path in ("/jobs", "/tokens", f"/jobs/{job}"))
    assert re.findall(r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=|javascript:", pages) == []


@pytest.mark.parametrize(
    ("path", "code", "title"),
    [
        ("/nowhere", "404 route_unknown", "There is nothing here"),
        ("/jobs/jaaaaaaaaa", "404 not_found", "There is nothing here"),
        ("/jobs?page=0", "422 request_invalid", "The request cannot be used"),
        ("/signout", "405 method_not_allowed", "This address does not work like that"),
    ],
)
def test_errors_are_pages_with_what_why_and_what_next(client: TestClient, path: str, code: str, title: str) -> None:
    page = client.get(path, headers={"Accept": "text/html"})
    assert str(page.status_code) == code.split(maxsplit=1)[0]
    assert f">{code}</code>" in page.text
    assert f"<h1>{title}</h1>" in page.text
    assert 'href="/jobs"' in page.text


def test_a_fault_of_the_console_is_a_page_too(console: ConsoleUnderTest, client: TestClient) -> None:
    console.services.series.close()
    console.services.ledger.close()
    page = client.get("/jobs")
    assert page.status_code == 500
    assert "The console has a fault" in page.text


def test_the_list_is_filtered_by_state_owner_project_and_text(console: ConsoleUnderTest, client: TestClient) -> None:
    ann, bob = console.add_user("ann2"), console.add_user("bob")
    first, second = submit(console, ann), submit(console, bob)
    run_to_end(console, first)
    shown = {
        path: set(rows_of(client.get(path).text))
        for path in (
            "/jobs",
            "/jobs?state=SUCCEEDED",
            "/jobs?state=ACTIVE",
            "/jobs?user=bob",
            "/jobs?project=demo",
            "/jobs?project=other",
            f"/jobs?q={first}",
            "/jobs?q=FIRST",
            "/jobs?q=100%25",
            "/jobs?q=0000000",
        )
    }
    assert shown == {
        "/jobs": {first, second},
        "/jobs?state=SUCCEEDED": {first},
        "/jobs?state=ACTIVE": {second},
        "/jobs?user=bob": {second},
        "/jobs?project=demo": {first, second},
        "/jobs?project=other": set(),
        f"/jobs?q={first}": {first},
        "/jobs?q=FIRST": {first, second},
        "/jobs?q=100%25": set(),
        "/jobs?q=0000000": {first, second},
    }


def test_a_filter_that_finds_nothing_is_repeated_and_can_be_cleared(client: TestClient) -> None:
    page = client.get("/jobs", params={"q": HOSTILE}).text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\ufffd" in page
    assert "<script>alert" not in page
    assert 'href="/jobs">Clear the filters</a>' in page


def test_the_list_is_paged(console: ConsoleUnderTest, client: TestClient) -> None:
    headers = console.add_user("busy")
    jobs = [submit(console, headers) for _ in range(53)]
    first, second = client.get("/jobs").text, client.get("/jobs?page=2").text
    assert (len(rows_of(first)), len(rows_of(second))) == (50, 3)
    assert set(rows_of(first)) | set(rows_of(second)) == set(jobs)
    assert "1–50 of 53" in first  # noqa: RUF001 - the dash between two numbers


def test_a_retry_is_shown_as_such(console: ConsoleUnderTest, client: TestClient, job: JobId) -> None:
    go(console, begin(console, job), Reason.EXITED_NONZERO, retry_at=console.clock.now() + 60)
    page = client.get(f"/jobs/{job}").text
    assert "retries at" in page
    assert job in rows_of(client.get("/jobs?state=ACTIVE").text)


def test_what_a_job_left_is_shown_as_text(console: ConsoleUnderTest, client: TestClient, job: JobId) -> None:
    ended = go(console, begin(console, job), Reason.EXITED_ZERO)
    assert ended.attempt is not None
    console.logs.written[ended.attempt] = HOSTILE.encode() + b"\n\x1b[31mred\x1b[0m\x00\n"
    clean(console, ended.attempt, {"artifacts": [{"path": f"a\n{HOSTILE}", "bytes": 3}]})
    run, outputs = client.get(f"/jobs/{job}").text, client.get(f"/jobs/{job}?view=outputs").text
    for page in (run, outputs):
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;\ufffd" in page
    assert '<span class="t-red">red</span>\u2400</code>' in run


def test_a_committed_checkpoint_is_shown_with_its_place_and_how_to_start_from_it(
    console: ConsoleUnderTest, client: TestClient, job: JobId
) -> None:
    ended = go(console, begin(console, job), Reason.EXITED_ZERO)
    assert ended.attempt is not None
    left = [{"step": 7, "path": "ckpt/step-7", "bytes": 9, "committed": True}]
    left.append({"step": 9, "path": "ckpt/step-9", "bytes": 3, "committed": False})
    clean(console, ended.attempt, {"checkpoints": left})
    page = client.get(f"/jobs/{job}?view=outputs").text
    folder = console.run_folder(job)
    assert f">{folder}/checkpoints/1/ckpt/step-7</code>" in page
    assert f">--init-from run/{job}/checkpoint@step=7</code>" in page
    assert "checkpoint@step=9" not in page
    assert "What the job trained is its newest checkpoint." in page


def test_outputs_from_after_a_lost_attempt_are_shown_apart_with_the_reason(
    console: ConsoleUnderTest, client: TestClient, job: JobId
) -> None:
    lost = go(console, begin(console, job), Reason.NODE_LOST)
    ended = go(console, retry(console, lost), Reason.EXITED_ZERO)
    for one in (lost, ended):
        assert one.attempt is not None
        clean(console, one.attempt, {"artifacts": [{"path": "model.bin", "bytes": 3}]})
    page = client.get(f"/jobs/{job}?view=outputs").text
    folder = console.run_folder(job)
    assert f'<code title="{folder}/out/model.bin">model.bin</code>' in page
    assert f'<code title="{folder}/out-2/model.bin">out-2/model.bin</code>' in page
    assert page.count("What lies in out-2 was left since the attempt before it was lost with its machine") == 1


@pytest.mark.parametrize("language", ["en", "zh-Hans"])
def test_every_view_of_a_job_has_its_words(
    console: ConsoleUnderTest, client: TestClient, job: JobId, language: str
) -> None:
    client.cookies.set("starforge_language", language)
    for reasons in ((), (Reason.EXITED_NONZERO,)):
        if reasons:
            go(console, begin(console, job), *reasons)
        for view in ("run", "outputs", "config", "admission"):
            page = client.get(f"/jobs/{job}?view={view}")
            assert page.status_code == 200
            assert f'<html lang="{language}"' in page.text


def test_files_are_packed_kept_for_ever_and_change_their_address(client: TestClient) -> None:
    page = client.get("/jobs").text
    addresses = set(re.findall(r'(?:href|src)="(/static/[^"#]+)', page))
    assert len(addresses) >= 6
    for address in addresses:
        answer = client.get(address)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        assert address.split("/")[2] == load_assets().version
    assert client.get("/static/other/css/base.css").headers["cache-control"] == "no-cache"
    assert client.get("/static/x/../../api.py").status_code == 404


def test_theme_and_language_are_kept(client: TestClient) -> None:
    key = form_key(client.get("/jobs").text)
    client.post("/preferences", data={"form_key": key, "theme": "dark", "language": "zh-Hans"})
    assert '<html lang="zh-Hans" data-theme="dark" ' in client.get("/jobs").text


@pytest.fixture
def speakers() -> Iterator[set[str]]:
    """The names of the threads that spoke SQL."""
    seen: set[str] = set()

    def note(*_arguments: object) -> None:
        seen.add(threading.current_thread().name.split("_")[0])

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def test_no_page_speaks_sql_on_the_event_loops_thread(
    console: ConsoleUnderTest, client: TestClient, job: JobId, speakers: set[str]
) -> None:
    run_to_end(console, job)
    speakers.clear()
    for path in ("/jobs", f"/jobs/{job}", f"/jobs/{job}/curves?key=a", f"/jobs/{job}/log.txt", "/tokens"):
        client.get(path)
    client.post("/signout", data={"form_key": form_key(client.get("/jobs").text)})
    assert speakers <= {"ledger-reader", "ledger-writer", "series-reader", "series-writer"}
    assert {"ledger-reader", "ledger-writer", "series-reader"} <= speakers

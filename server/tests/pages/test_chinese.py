import re

from starlette.testclient import TestClient

from server.tests.pages.sentences import find_english
from server.tests.pages.support import sign_in
from server.tests.web.lives import begin
from server.tests.web.support import ConsoleUnderTest, submit
from starforge.contract.canonical import digest_json
from starforge.contract.states import Reason
from starforge.said.sentence import say
from starforge_console.ledger.moves import Change, Guard, move, note_timeline
from starforge_console.ledger.tables import jobs
from starforge_console.web.i18n.words import CHINESE


def read_in_chinese(console: ConsoleUnderTest, headers: dict[str, str]) -> TestClient:
    client = sign_in(console, headers)
    client.cookies.set("starforge_language", CHINESE)
    return client


def test_the_gates_words_are_read_in_chinese_and_the_seal_is_over_the_english(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    page = read_in_chinese(console, headers).get(f"/jobs/{job}?view=admission").text
    assert find_english(page) == []
    assert "可放入 local" in page
    record = console.client(headers).get(f"/api/v1/jobs/{job}").json()["admission"]
    assert "fits local" in [check["message"] for check in record["checks"]]
    assert digest_json({name: value for name, value in record.items() if name != "digest"}) == record["digest"]


def test_a_record_of_before_shows_its_english_text(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    console.ledger.write_now(lambda c: c.execute(jobs.update().values(admission_said=None)))
    page = read_in_chinese(console, headers).get(f"/jobs/{job}?view=admission").text
    assert re.search(r'<td class="wrap" lang="en">fits local</td>', page)


def test_the_ends_and_the_timeline_of_a_job_are_read_in_chinese(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    running = begin(console, job)
    told = say("told.resumed", step=40)
    console.ledger.write_now(lambda c: note_timeline(c, job, 5.0, told, 1))
    ended = Change(note=say("exit.code_line", code="1", line="ValueError: 7"))
    console.ledger.write_now(lambda c: move(c, running, [Reason.EXITED_NONZERO], Guard(now=9.0, monotonic=9.0), ended))
    client = read_in_chinese(console, headers)
    for path in (f"/jobs/{job}", f"/jobs/{job}?view=history", "/jobs", "/overview"):
        assert find_english(client.get(path).text) == [], path
    history = client.get(f"/jobs/{job}?view=history").text
    assert "训练进程已启动，从第 40 步的检查点续训" in history  # noqa: RUF001 - Chinese
    assert "退出码 1：ValueError: 7" in history  # noqa: RUF001 - Chinese
    events = console.client(headers).get(f"/api/v1/jobs/{job}/events").json()["items"]
    assert [(one["note"], one["note_code"]) for one in events[-2:]] == [
        ("training process started, resumed from the checkpoint of step 40", "told.resumed"),
        ("exit code 1: ValueError: 7", "exit.code_line"),
    ]

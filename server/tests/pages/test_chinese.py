import re

import pytest
from starlette.testclient import TestClient

from server.tests.pages.sentences import find_english
from server.tests.pages.support import sign_in
from server.tests.web.lives import begin, go, take
from server.tests.web.support import ConsoleUnderTest, submit
from starforge.contract.canonical import digest_json
from starforge.contract.ids import AttemptId
from starforge.contract.states import Reason
from starforge.errors import StarForgeError
from starforge.said.sentence import say
from starforge_console.accounts.tokens import MADE_AT_SIGN_IN
from starforge_console.executors.remembered import explain_fenced
from starforge_console.executors.slurm.native import Complaint
from starforge_console.executors.slurm.refusals import explain_refusal, explain_waiting
from starforge_console.ledger.moves import Change, Guard, move, note_timeline
from starforge_console.ledger.restored import Restored, mark_restored
from starforge_console.ledger.tables import jobs, tokens
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


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (explain_refusal([Complaint(number=2014, text="no nodes")]), Reason.LAUNCH_REFUSED),
        (explain_refusal([Complaint(number=2016, text="busy")]), Reason.NO_CAPACITY),
        (explain_waiting("PartitionTimeLimit", [Complaint(number=1, text="too long")]), Reason.LAUNCH_REFUSED),
        (explain_waiting("", [Complaint(number=1, text="too long")]), Reason.NO_CAPACITY),
        (explain_fenced(AttemptId("a1")), Reason.LAUNCH_REFUSED),
    ],
)
def test_why_a_cluster_took_no_job_is_read_in_chinese(
    console: ConsoleUnderTest, fault: StarForgeError, reason: Reason
) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    go(console, take(console, job), reason, note=fault.said)
    client = read_in_chinese(console, headers)
    for path in (f"/jobs/{job}", f"/jobs/{job}?view=history", "/jobs", "/overview"):
        assert find_english(client.get(path).text) == [], path
    assert str(fault) in [
        one["note"] for one in console.client(headers).get(f"/api/v1/jobs/{job}/events").json()["items"]
    ]


def test_the_labels_that_the_console_gives_are_read_in_chinese(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    client = read_in_chinese(console, headers)
    console.ledger.write_now(lambda c: c.execute(tokens.update().values(label=str(MADE_AT_SIGN_IN))))
    page = client.get("/tokens").text
    assert ("登录时生成" in page, find_english(page)) == (True, [])


def test_why_a_restored_console_starts_and_removes_nothing_is_read_in_chinese(console: ConsoleUnderTest) -> None:
    now = console.clock.now()
    told = say("restored.from", when="2026-11-30 08:00 UTC")
    console.ledger.write_now(lambda c: mark_restored(c, Restored(made_at=now - 9, at=now), told))
    headers = console.add_user("root", role="admin")
    job = submit(console, headers)
    client = read_in_chinese(console, headers)
    for path in ("/admin?view=maintenance", "/admin?view=retention", f"/jobs/{job}"):
        assert find_english(client.get(path).text) == [], path
    assert "从 2026-11-30 08:00 UTC 的备份恢复" in client.get("/admin?view=maintenance").text

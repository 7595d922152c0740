import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import update

from server.tests.pages.support import sign_in
from server.tests.web.lives import begin, clean, go, retry, run_to_end
from server.tests.web.support import ConsoleUnderTest, Logs, build_console, close_console, submit
from starforge.contract.ids import AttemptId, JobId
from starforge.contract.states import Reason
from starforge.diagnosis.answer import RULES_VERSION
from starforge.diagnosis.window import HEAD_BYTES, TAIL_BYTES
from starforge_console.diagnosis.diagnoser import DiagnosedRecords, build_known_exit
from starforge_console.diagnosis.logs import load_window
from starforge_console.ledger.diagnoses import AttemptEnding, KeptDiagnosis, find_diagnosis, keep_diagnosis
from starforge_console.ledger.endings import EndedAttempt
from starforge_console.ledger.tables import attempts
from starforge_console.ledger.views import load_job

OOM = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
LOG = b'step 1 loss 2.5\nTraceback (most recent call last):\n  File "<x>.py", line 1\n' + OOM


@pytest.fixture
def console(tmp_path: Path) -> Iterator[ConsoleUnderTest]:
    built = build_console(tmp_path)
    yield built
    close_console(built)


@pytest.fixture
def headers(console: ConsoleUnderTest) -> dict[str, str]:
    return console.add_user("ann")


def logs_of(console: ConsoleUnderTest) -> Logs:
    logs = console.services.logs
    assert isinstance(logs, Logs)
    return logs


def fail(console: ConsoleUnderTest, headers: dict[str, str], log: bytes, reason: Reason) -> tuple[JobId, AttemptId]:
    job = submit(console, headers)
    attempt = run_to_end(console, job, reason)
    logs_of(console).written[attempt] = log
    return job, attempt


def test_a_failed_job_says_why_with_the_line(console: ConsoleUnderTest, headers: dict[str, str]) -> None:
    job, _ = fail(console, headers, LOG, Reason.EXITED_NONZERO)
    told = console.client(headers).get(f"/api/v1/jobs/{job}/diagnosis").json()
    assert (told["category"], told["line"], told["byte_offset"]) == ("gpu_oom", 4, LOG.index(OOM))
    assert told["root_cause_line"] == OOM.decode().strip()
    assert (told["job"], told["attempt"], told["rules_version"]) == (job, 1, RULES_VERSION)
    assert "smaller batch" in told["advice"]


def test_the_note_of_the_job_says_it_once(console: ConsoleUnderTest, headers: dict[str, str]) -> None:
    job, attempt = fail(console, headers, LOG, Reason.EXITED_NONZERO)
    for _ in range(2):
        asyncio.run(console.services.diagnoser.diagnose(attempt))
    note = console.ledger.read_now(lambda c: load_job(c, job)).note
    assert note.count("The GPU's memory was not enough.") == 1


@pytest.mark.parametrize(
    "line",
    [
        f"FileNotFoundError: [Errno 2] No such file or directory: '/data/hf_{'a1B2' * 8}/x'",
        f"ModuleNotFoundError: No module named 'hf_{'a1B2' * 8}'",
        f"RuntimeError: nothing known: Bearer {'a1B2' * 8}",
    ],
)
def test_what_a_diagnosis_quotes_holds_no_token(console: ConsoleUnderTest, headers: dict[str, str], line: str) -> None:
    log = f'Traceback (most recent call last):\n  File "<x>.py", line 1\n{line}\n'.encode()
    job, attempt = fail(console, headers, log, Reason.EXITED_NONZERO)
    asyncio.run(console.services.diagnoser.diagnose(attempt))
    told = console.client(headers).get(f"/api/v1/jobs/{job}/diagnosis").text
    note = console.ledger.read_now(lambda c: load_job(c, job)).note
    assert "***" in told
    assert "a1B2a1B2" not in told + note


def test_a_line_that_ends_as_a_sentence_is_joined_to_the_cause_without_a_second_stop(
    console: ConsoleUnderTest, headers: dict[str, str]
) -> None:
    job, attempt = fail(console, headers, LOG, Reason.EXITED_NONZERO)
    line = "exit code 1: CUDA out of memory. 77.94 GiB memory in use."
    console.ledger.write_now(lambda c: c.exec_driver_sql("UPDATE jobs SET note = ? WHERE id = ?", (line, job)))
    asyncio.run(console.services.diagnoser.diagnose(attempt))
    note = console.ledger.read_now(lambda c: load_job(c, job)).note
    assert note == f"{line[:-1]}: The GPU's memory was not enough."


def test_an_attempt_is_diagnosed_once_its_log_was_read(console: ConsoleUnderTest, headers: dict[str, str]) -> None:
    class Left:
        async def exit_record(self, attempt: AttemptId) -> None:
            assert attempt

        async def finalise(self, attempt: EndedAttempt) -> tuple[dict[str, object], int | None]:
            logs_of(console).written[attempt.id] = LOG
            return {"artifacts": []}, 7

    ref = go(console, begin(console, submit(console, headers)), Reason.EXITED_NONZERO)
    assert ref.attempt is not None
    ended = EndedAttempt(id=ref.attempt, job=ref.id, number=1, fleet="local", ended_at=1.0, finalised_at=None)
    records = DiagnosedRecords(Left(), console.services.diagnoser)
    assert asyncio.run(records.finalise(ended)) == ({"artifacts": []}, 7)
    kept = console.ledger.read_now(lambda c: find_diagnosis(c, ended.id))
    assert kept is not None
    assert kept.answer["category"] == "gpu_oom"


def test_what_older_rules_found_is_looked_at_anew_unless_the_log_is_gone(
    console: ConsoleUnderTest, headers: dict[str, str]
) -> None:
    _, attempt = fail(console, headers, LOG, Reason.EXITED_NONZERO)
    old = KeptDiagnosis(rules_version=RULES_VERSION - 1, at=1.0, answer={"category": "unknown"})
    console.ledger.write_now(lambda c: keep_diagnosis(c, attempt, old))
    diagnoser = console.services.diagnoser
    assert asyncio.run(diagnoser.find(attempt, has_log=False)) == old
    renewed = asyncio.run(diagnoser.find(attempt))
    assert renewed is not None
    assert renewed.answer["category"] == "gpu_oom"
    logs_of(console).written.clear()
    assert asyncio.run(diagnoser.find(attempt)) == renewed


def test_nothing_is_told_of_an_attempt_that_runs_or_is_still_read(
    console: ConsoleUnderTest, headers: dict[str, str]
) -> None:
    client, job = console.client(headers), submit(console, headers)
    assert client.get(f"/api/v1/jobs/{job}/diagnosis").status_code == 404
    ref = begin(console, job)
    assert "has not ended" in client.get(f"/api/v1/jobs/{job}/diagnosis").text
    ended = go(console, ref, Reason.EXITED_NONZERO)
    assert "still being read" in client.get(f"/api/v1/jobs/{job}/diagnosis").text
    assert ended.attempt is not None
    clean(console, ended.attempt)
    assert client.get(f"/api/v1/jobs/{job}/diagnosis").json()["category"] == "unknown"
    assert client.get("/api/v1/jobs/jaaaaaaaaa/diagnosis").status_code == 404
    assert client.get(f"/api/v1/jobs/{job}/diagnosis?attempt=9").status_code == 404


def test_each_attempt_has_its_own(console: ConsoleUnderTest, headers: dict[str, str]) -> None:
    job = submit(console, headers)
    first = go(console, begin(console, job), Reason.EXITED_NONZERO)
    assert first.attempt is not None
    clean(console, first.attempt)
    second = go(console, retry(console, first), Reason.STOP_CONFIRMED)
    assert second.attempt is not None
    clean(console, second.attempt)
    logs_of(console).written |= {first.attempt: LOG, second.attempt: LOG}
    client = console.client(headers)
    told = [client.get(f"/api/v1/jobs/{job}/diagnosis?attempt={number}").json()["category"] for number in (1, 2)]
    assert told == ["gpu_oom", "stopped"]


def test_a_deleted_job_takes_its_diagnosis_with_it(console: ConsoleUnderTest, headers: dict[str, str]) -> None:
    job, attempt = fail(console, headers, LOG, Reason.EXITED_NONZERO)
    client = console.client(headers)
    client.get(f"/api/v1/jobs/{job}/diagnosis")
    assert client.delete(f"/api/v1/jobs/{job}").status_code == 204
    assert console.ledger.read_now(lambda c: find_diagnosis(c, attempt)) is None
    assert asyncio.run(console.services.diagnoser.diagnose(attempt)) is None


def test_the_page_shows_cause_advice_and_the_way_to_the_line_in_both_languages(
    console: ConsoleUnderTest, headers: dict[str, str]
) -> None:
    hostile = b"FileNotFoundError: [Errno 2] No such file or directory: '<script>alert(1)</script>'\n"
    job, _ = fail(console, headers, b"a\n" + hostile, Reason.EXITED_NONZERO)
    browser = sign_in(console, headers)
    for language, cause in [
        ("en", "A file or folder that it reads is not there."),
        ("zh-CN", "它要读的文件或文件夹不存在。"),
    ]:
        page = browser.get(f"/jobs/{job}", headers={"Accept-Language": language}).text
        assert cause in page
        assert f'href="/jobs/{job}?attempt=1&amp;line=2#L2"' in page
        assert "<script>alert" not in page


def test_a_stopped_job_shows_no_diagnosis(console: ConsoleUnderTest, headers: dict[str, str]) -> None:
    job, _ = fail(console, headers, LOG, Reason.STOP_CONFIRMED)
    assert 'id="di"' not in sign_in(console, headers).get(f"/jobs/{job}").text


def test_a_success_whose_loss_is_no_number_is_warned_of(console: ConsoleUnderTest, headers: dict[str, str]) -> None:
    broken = b"".join(b"{'loss': nan, 'epoch': 0.%d}\n" % step for step in range(5))
    job, attempt = fail(console, headers, broken, Reason.EXITED_ZERO)
    console.ledger.write_now(lambda c: c.execute(update(attempts).where(attempts.c.id == attempt).values(exit_code=0)))
    assert "the loss was not a number" in sign_in(console, headers).get(f"/jobs/{job}").text
    assert console.ledger.read_now(lambda c: load_job(c, job)).note == ""


def test_a_long_log_is_read_at_both_ends_with_the_numbers_of_its_lines() -> None:
    attempt = AttemptId("jaaaaaaaaa-1-abcdef")
    content = b"".join(b"line %d\n" % number for number in range(1, 400_000)) + OOM
    assert len(content) > HEAD_BYTES + TAIL_BYTES
    window = asyncio.run(load_window(Logs(written={attempt: content}), attempt))
    assert window.gap is not None
    whole = content.split(b"\n")
    for line in (window.lines[0], window.lines[window.gap - 1], window.lines[window.gap], window.lines[-1]):
        assert content[line.offset : line.offset + len(line.content)] == line.content
        assert whole[line.number - 1].startswith(line.content)
    assert window.lines[-1].content == OOM.strip()


def test_what_is_lost_of_a_log_is_passed_over() -> None:
    attempt = AttemptId("jaaaaaaaaa-1-abcdef")
    content = b"first\nsecond\nlost\nlost too\nlast\n" + OOM
    begin = content.index(b"lost")
    lost: dict[str, tuple[int, int]] = {attempt: (begin, content.index(b"too"))}
    window = asyncio.run(load_window(Logs(written={attempt: content}, lost=lost), attempt))
    assert [line.content for line in window.lines] == [b"first", b"second", b"last", OOM.strip()]
    assert window.lines[-1].number == 6


@pytest.mark.parametrize(
    ("evidence", "killed"), [({}, None), ({"record_oom_kills": 0}, False), ({"record_oom_kills": 2}, True)]
)
def test_the_kernels_counter_is_known_or_not(evidence: dict[str, object], killed: bool | None) -> None:  # noqa: FBT001
    ending = AttemptEnding(
        id=AttemptId("a"), job=JobId("j"), number=1, reason="exited_nonzero", exit_code=137, evidence=evidence
    )
    assert build_known_exit(ending).kernel_killed is killed

"""What the overview tells of runs that failed: the cause and what to do about it, where both are known."""

import re

import pytest
from sqlalchemy import update

from server.tests.pages.support import sign_in
from server.tests.web.lives import run_to_end
from server.tests.web.support import ConsoleUnderTest, submit
from starforge.contract.ids import AttemptId
from starforge.contract.states import Reason
from starforge.diagnosis.answer import RULES_VERSION
from starforge_console.domain.retention import Kind, Removal
from starforge_console.ledger.diagnoses import KeptDiagnosis, keep_diagnosis
from starforge_console.ledger.removals import begin_removals
from starforge_console.ledger.tables import jobs
from starforge_console.web.i18n.words import CHINESE, ENGLISH, load_words

OOM = {
    "category": "gpu_oom",
    "kind": "cuda_oom",
    "summary": "<b>it</b>",
    "advice": "less & fewer",
    "confidence": "sure",
}


def keep(console: ConsoleUnderTest, attempt: AttemptId, *, version: int = RULES_VERSION, **answer: object) -> None:
    found = KeptDiagnosis(rules_version=version, at=1.0, answer={**OOM, "rules_version": version, **answer})
    console.ledger.write_now(lambda c: keep_diagnosis(c, attempt, found))


def read_concern(console: ConsoleUnderTest, headers: dict[str, str], job: str, language: str = ENGLISH) -> str:
    client = sign_in(console, headers)
    client.cookies.set("starforge_language", language)
    rows: list[str] = re.findall(r"<li>.*?</li>", client.get("/overview").text, re.DOTALL)
    return next(row for row in rows if f"/jobs/{job}" in row)


@pytest.mark.parametrize("language", [ENGLISH, CHINESE])
def test_a_failed_run_tells_its_cause_and_the_next_step_in_the_language_of_the_reader(
    console: ConsoleUnderTest, language: str
) -> None:
    ann = console.add_user("ann")
    job = submit(console, ann)
    keep(console, run_to_end(console, job, Reason.EXITED_NONZERO))
    row, words = read_concern(console, ann, job, language), load_words(language)
    assert words("diagnosis.cuda_oom") in row
    assert f"<small>{words('diagnosis.cuda_oom.advice')}</small>" in row
    assert words("reason.exited_nonzero") not in row


def test_what_rules_of_another_version_found_is_told_as_they_found_it_once_the_log_is_gone(
    console: ConsoleUnderTest,
) -> None:
    ann = console.add_user("ann")
    job = submit(console, ann)
    attempt = run_to_end(console, job, Reason.EXITED_NONZERO)
    keep(console, attempt, version=RULES_VERSION - 1)
    gone = Removal(kind=Kind.LOG, why="old", job=job, attempt=attempt, number=1)
    console.ledger.write_now(lambda c: begin_removals(c, [gone], 2.0))
    row = read_concern(console, ann, job)
    assert "&lt;b&gt;it&lt;/b&gt;" in row
    assert "<small>less &amp; fewer</small>" in row


@pytest.mark.parametrize("language", [ENGLISH, CHINESE])
def test_what_rules_of_another_version_found_is_looked_at_anew(console: ConsoleUnderTest, language: str) -> None:
    ann = console.add_user("ann")
    job = submit(console, ann)
    attempt = run_to_end(console, job, Reason.EXITED_NONZERO)
    keep(console, attempt, version=RULES_VERSION - 1)
    console.logs.written[attempt] = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\n"
    assert load_words(language)("diagnosis.cuda_oom") in read_concern(console, ann, job, language)


def test_a_run_without_a_known_cause_tells_its_reason(console: ConsoleUnderTest) -> None:
    ann = console.add_user("ann")
    unknown, undiagnosed = submit(console, ann), submit(console, ann)
    keep(console, run_to_end(console, unknown, Reason.EXITED_NONZERO), category="unknown", kind="unknown")
    run_to_end(console, undiagnosed, Reason.EXITED_NONZERO)
    for job in (unknown, undiagnosed):
        assert load_words(ENGLISH)("reason.exited_nonzero") in read_concern(console, ann, job)


@pytest.mark.parametrize("language", [ENGLISH, CHINESE])
def test_a_failed_job_reads_as_one_sentence_in_the_list(console: ConsoleUnderTest, language: str) -> None:
    ann = console.add_user("ann")
    job = submit(console, ann)
    run_to_end(console, job, Reason.EXITED_NONZERO)
    client, words = sign_in(console, ann), load_words(language)
    client.cookies.set("starforge_language", language)
    reason = str(words("reason.exited_nonzero"))
    assert f">{reason}</small>" in client.get("/jobs").text
    console.ledger.write_now(lambda c: c.execute(update(jobs).values(note="exit code 1: no data")))
    begun = reason.rstrip(".\N{IDEOGRAPHIC FULL STOP}")
    told = f'>{begun}: <span lang="en">exit code 1: no data</span></small>'
    assert told in client.get("/jobs").text

"""How far jobs have trained, on every page, in the API and to its readers."""

import re
from array import array

import pytest
from sqlalchemy import update

from server.tests.pages.support import sign_in
from server.tests.web.lives import begin
from server.tests.web.support import ConsoleUnderTest, submit
from starforge.contract.ids import JobId
from starforge_console.domain.points import Columns
from starforge_console.ledger.points import add_points
from starforge_console.ledger.tables import jobs


def train(console: ConsoleUnderTest, job: JobId, step: int | None, total: int | None) -> None:
    """Let the job's first attempt have reported a point of `step` and that there will be `total` steps."""
    if step is not None:
        columns = Columns(array("q", [step]), array("d", [0.5]), array("d", [1.0]))
        console.services.series.write_now(lambda c: add_points(c, job, 1, {"loss": columns}))
    console.ledger.write_now(lambda c: c.execute(update(jobs).where(jobs.c.id == job).values(total_steps=total)))


def text_of(page: str, part: str) -> str:
    """The words of the first thing on the page that matches."""
    found = re.search(part, page, re.DOTALL)
    assert found is not None
    return " ".join(re.sub(r"<[^>]*>", " ", found[0]).split())


def test_pages_and_api_tell_the_step_and_how_many_there_will_be(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    begin(console, job)
    train(console, job, 2140, 3000)
    client, api = sign_in(console, headers), console.client(headers)
    page = client.get(f"/jobs/{job}").text
    assert text_of(page, r"<dt>Step.*?</dd>") == "Step 2,140 / 3,000 · 71%"
    assert '<svg class="bar thin" role="img" aria-label="71%"><rect class="c-used" width="71%"/>' in page
    assert "2,140 / 3,000" in text_of(client.get("/jobs").text, rf'<tr id="job-{job}".*?</tr>')
    assert "2,140 / 3,000" in text_of(client.get("/overview").text, rf'<tr id="run-{job}".*?</tr>')
    for view in (api.get(f"/api/v1/jobs/{job}").json()["job"], api.get("/api/v1/jobs").json()["items"][0]):
        assert (view["step"], view["total_steps"]) == (2140, 3000)


@pytest.mark.parametrize(
    ("step", "total", "told"),
    [
        (7, None, "Step 7"),
        (None, 3000, "Step — / 3,000"),
        (2999, 3000, "Step 2,999 / 3,000 · 99%"),
        (3300, 3000, "Step 3,300 / 3,000 · 100%"),
    ],
)
def test_the_page_says_what_is_known_and_no_more(
    console: ConsoleUnderTest, step: int | None, total: int | None, told: str
) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    begin(console, job)
    train(console, job, step, total)
    page = sign_in(console, headers).get(f"/jobs/{job}").text
    assert text_of(page, r"<dt>Step.*?</dd>") == told
    assert ("bar thin" in page) == ("%" in told)


def test_a_job_that_has_reported_nothing_has_no_step(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    assert "<dt>Step" not in sign_in(console, headers).get(f"/jobs/{job}").text
    view = console.client(headers).get(f"/api/v1/jobs/{job}").json()["job"]
    assert (view["step"], view["total_steps"]) == (None, None)

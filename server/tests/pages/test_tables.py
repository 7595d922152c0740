"""How tables of pages show what they hold: figures right under their heads, digests cut, an empty log in words."""

import pytest
from starlette.testclient import TestClient

from server.tests.pages.support import sign_in
from server.tests.web.lives import begin, go
from server.tests.web.support import ConsoleUnderTest, submit
from starforge.contract.states import Reason
from starforge_console.domain.samples import Row, Sample
from starforge_console.ledger.endings import note_finalised
from starforge_console.ledger.samples import keep_samples


@pytest.fixture
def headers(console: ConsoleUnderTest) -> dict[str, str]:
    return console.add_user("ann")


@pytest.fixture
def client(console: ConsoleUnderTest, headers: dict[str, str]) -> TestClient:
    return sign_in(console, headers)


def test_columns_of_figures_have_their_heads_above_them_and_a_truth_is_a_word(
    console: ConsoleUnderTest, client: TestClient, headers: dict[str, str]
) -> None:
    job = submit(console, headers)
    rows: tuple[Row, ...] = (
        {"prompt": "2+2", "reward": None, "passed": True},
        {"prompt": "3+3", "reward": 0.5, "passed": False},
    )
    report = Sample(at_byte=1, name="samples", step=1, at=1.0, rows=rows)
    console.services.series.write_now(lambda c: keep_samples(c, job, 1, [report]))
    page = client.get(f"/jobs/{job}?view=samples").text
    assert '<th>prompt</th><th class="num">reward</th><th>passed</th>' in page
    assert '<td class="text">True</td>' in page
    assert '<td class="text">False</td>' in page


def test_digests_of_a_comparison_are_cut_and_whole_on_demand(
    console: ConsoleUnderTest, client: TestClient, headers: dict[str, str]
) -> None:
    jobs = [submit(console, headers) for _ in range(2)]
    page = client.get("/compare", params={"job": jobs, "all": "1"}).text
    spec = console.client(headers).get(f"/api/v1/jobs/{jobs[0]}").json()["spec"]["spec"]
    digest, commit, image = spec["workspace"]["digest"], spec["provenance"]["commit"], spec["framework"]["image"]
    assert f'<code title="{digest}">{digest[:15]}…{digest[-4:]}</code>' in page
    assert f'<code title="{commit}">{commit[:12]}</code>' in page
    assert f"<code>{image}</code>" in page


def test_an_empty_log_of_an_ended_job_is_told_in_words(
    console: ConsoleUnderTest, client: TestClient, headers: dict[str, str]
) -> None:
    ended = go(console, begin(console, submit(console, headers)), Reason.EXITED_ZERO)
    attempt = ended.attempt
    assert attempt is not None
    console.ledger.write_now(lambda c: note_finalised(c, attempt, console.clock.now(), {}, 0))
    page = client.get(f"/jobs/{ended.id}").text
    assert "The job wrote nothing to its log" in page
    assert "Received everything" not in page

"""Examples on the job's page and over the API."""

import pytest
from starlette.testclient import TestClient

from server.tests.pages.support import sign_in
from server.tests.web.support import ConsoleUnderTest, submit
from starforge.contract.ids import JobId
from starforge_console.domain.samples import Sample
from starforge_console.ledger.samples import keep_samples, list_names


@pytest.fixture
def headers(console: ConsoleUnderTest) -> dict[str, str]:
    return console.add_user("ann")


@pytest.fixture
def client(console: ConsoleUnderTest, headers: dict[str, str]) -> TestClient:
    return sign_in(console, headers)


@pytest.fixture
def job(console: ConsoleUnderTest, headers: dict[str, str]) -> JobId:
    made = submit(console, headers)
    reports = [
        Sample(at_byte=1, name="samples", step=10, at=1.0, rows=({"prompt": "<script>x</script>", "reward": 0.25},)),
        Sample(at_byte=2, name="samples", step=20, at=2.0, rows=({"prompt": "two\nlines"},), left_out=3),
        Sample(at_byte=3, name="eval", step=5, at=3.0, rows=({"question": "why"},)),
    ]
    console.services.series.write_now(lambda c: keep_samples(c, made, 1, reports))
    return made


def test_the_api_lists_steps_and_gives_the_rows_of_one(
    console: ConsoleUnderTest, headers: dict[str, str], job: JobId
) -> None:
    api = console.client(headers)
    told = api.get(f"/api/v1/jobs/{job}/samples", params={"name": "samples"}).json()
    assert (told["names"], [one["step"] for one in told["items"]], told["next"]) == (
        ["eval", "samples"],
        [10, 20],
        None,
    )
    page = api.get(f"/api/v1/jobs/{job}/samples", params={"name": "samples", "limit": 1}).json()
    assert ([one["step"] for one in page["items"]], page["next"]) == ([10], 10)
    found = api.get(f"/api/v1/jobs/{job}/samples/20", params={"name": "samples"}).json()
    assert (found["columns"], found["rows"], found["line"]["left_out"]) == (["prompt"], [{"prompt": "two\nlines"}], 3)
    assert api.get(f"/api/v1/jobs/{job}/samples/11", params={"name": "samples"}).status_code == 404
    assert api.get("/api/v1/jobs/jaaaaaaaaa/samples").status_code == 404


def test_the_page_shows_a_step_as_text_and_two_side_by_side(client: TestClient, job: JobId) -> None:
    page = client.get(f"/jobs/{job}?view=samples&name=samples&step=10&beside=20").text
    assert "&lt;script&gt;x&lt;/script&gt;" in page
    assert "<script>x" not in page
    assert "two\nlines" in page
    assert "3 more rows were reported" in page
    assert page.count('<table class="table samples">') == 2


def test_the_newest_step_comes_first_and_leads_to_the_others(client: TestClient, job: JobId) -> None:
    page = client.get(f"/jobs/{job}?view=samples&name=samples").text
    assert '<option value="20" selected>' in page
    assert "step=10" in page
    assert client.get(f"/jobs/{job}?view=samples&name=samples&step=99").status_code == 200
    assert client.get(f"/jobs/{job}?view=samples&step=x&beside=-9999999999999999999").status_code == 200


def test_a_job_without_any_says_how_they_are_reported(
    console: ConsoleUnderTest, client: TestClient, headers: dict[str, str]
) -> None:
    other = submit(console, headers)
    assert "report.samples(" in client.get(f"/jobs/{other}?view=samples").text


def test_they_go_with_the_job(console: ConsoleUnderTest, headers: dict[str, str], job: JobId) -> None:
    api = console.client(headers)
    api.post(f"/api/v1/jobs/{job}/stop")
    assert api.delete(f"/api/v1/jobs/{job}").status_code == 204
    assert console.services.series.read_now(lambda c: list_names(c, job)) == []


@pytest.mark.parametrize("at", [1e18, -1e18, 1.7e308, 253_402_300_800.0, -5.0])
def test_a_time_that_no_calendar_has_leaves_the_page_as_it_is(
    console: ConsoleUnderTest, headers: dict[str, str], client: TestClient, at: float
) -> None:
    job = submit(console, headers)
    report = Sample(at_byte=1, name="samples", step=10, at=at, rows=({"prompt": "one of them"},))
    console.services.series.write_now(lambda c: keep_samples(c, job, 1, [report]))
    page = client.get(f"/jobs/{job}?view=samples")
    assert page.status_code == 200
    assert "one of them" in page.text
    assert ("1969-12-31 23:59:55" in page.text) is (at == -5.0)

"""Pages of a sweep: its runs compared with the best first, its jobs in the list, and the end of all of them."""

import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from server.tests.pages.support import form_key, sign_in
from server.tests.web.support import ConsoleUnderTest
from server.tests.web.sweeping import SFT, build_sft, build_sweep, report, sweep
from starforge.contract.comparing import RUNS_AT_MOST


@pytest.fixture
def headers(console: ConsoleUnderTest) -> dict[str, str]:
    return console.add_user("ann")


@pytest.fixture
def told(console: ConsoleUnderTest, headers: dict[str, str]) -> dict[str, Any]:
    return sweep(console, console.client(headers), build_sweep(name="rates & more"))


def get(client: TestClient, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.text


def list_rows(page: str) -> list[str]:
    """The jobs of the comparison, in its order."""
    return re.findall(r'<tr data-run="(\w+)"', page)


def test_the_comparison_opens_the_whole_sweep_with_its_values_and_the_best_run_first(
    console: ConsoleUnderTest, headers: dict[str, str]
) -> None:
    combinations = [{"learning_rate": rate} for rate in (0.001, 0.0001, 1e-05)]
    told = sweep(console, console.client(headers), build_sweep(combinations, "rates", **build_sft(max_steps=5)))
    jobs = [one["job"] for one in told["jobs"]]
    assert SFT.primary_metric is not None
    sign = 1 if SFT.primary_metric.better == "lower" else -1
    report(console, jobs[2], SFT.primary_metric.key, [3.0, sign * 0.25])
    report(console, jobs[1], SFT.primary_metric.key, [3.0, sign * 0.5])
    for job in jobs:
        report(console, job, "other", [1.0])
    client = sign_in(console, headers)
    page = get(client, f"/sweeps/{told['sweep']}")
    assert list_rows(page) == [jobs[2], jobs[1], jobs[0]]
    assert "<th>learning_rate</th>" in page
    assert [re.search(f'data-run="{job}".*?<code>([^<]*)</code>', page)[1] for job in jobs] == [  # type: ignore[index]  # a match
        "0.001",
        "0.0001",
        "1e-05",
    ]
    assert f'data-curve="{SFT.primary_metric.key}"' in page
    assert page.count("<b>0.25</b>" if sign == 1 else "<b>-0.25</b>") == 1


def test_the_comparison_of_a_sweep_leads_to_one_with_a_run_less_and_keeps_the_sweep_elsewhere(
    console: ConsoleUnderTest, headers: dict[str, str], told: dict[str, Any]
) -> None:
    page = get(sign_in(console, headers), f"/compare?sweep={told['sweep']}")
    jobs = [one["job"] for one in told["jobs"]]
    rest = "&amp;".join(f"job={job}" for job in jobs[1:])
    assert f'href="/compare?{rest}"' in page
    assert f'href="/compare?sweep={told["sweep"]}&amp;all=1"' in page
    assert f'<input type="hidden" name="sweep" value="{told["sweep"]}">' in page
    assert "rates &amp; more" in page


def test_a_sweep_of_more_runs_than_a_comparison_holds_says_how_many_are_left_out(
    console: ConsoleUnderTest, headers: dict[str, str]
) -> None:
    combinations = [{"seed": number} for number in range(RUNS_AT_MOST + 3)]
    told = sweep(console, console.client(headers), build_sweep(combinations))
    page = get(sign_in(console, headers), f"/compare?sweep={told['sweep']}")
    assert len(list_rows(page)) == RUNS_AT_MOST
    assert "3 further runs are not compared" in page


def test_the_list_of_jobs_tells_the_runs_of_a_sweep_apart_and_shows_one_alone(
    console: ConsoleUnderTest, headers: dict[str, str], told: dict[str, Any]
) -> None:
    sweep(console, console.client(headers), build_sweep([{"seed": 1}, {"seed": 2}]))
    client = sign_in(console, headers)
    assert get(client, "/jobs").count('<tr id="job-') == 6
    page = get(client, f"/jobs?sweep={told['sweep']}")
    assert page.count('<tr id="job-') == 4
    assert "<code>lr=0.01 layers=4</code>" in page
    assert f'name="sweep" value="{told["sweep"]}"' in page
    assert f"sweep={told['sweep']}" in re.search(r'"(/live/jobs[^"]*)"', page)[1]  # type: ignore[index]  # a match


def test_the_page_of_a_job_names_its_sweep_and_its_values(
    console: ConsoleUnderTest, headers: dict[str, str], told: dict[str, Any]
) -> None:
    page = get(sign_in(console, headers), f"/jobs/{told['jobs'][2]['job']}")
    assert f'href="/compare?sweep={told["sweep"]}">rates &amp; more</a> <code>lr=0.01 layers=2</code>' in page


def test_all_jobs_of_a_sweep_are_stopped_from_its_page(
    console: ConsoleUnderTest, headers: dict[str, str], told: dict[str, Any]
) -> None:
    client = sign_in(console, headers)
    page = get(client, f"/compare?sweep={told['sweep']}")
    assert "Stop 4 jobs" in page
    answer = client.post(f"/sweeps/{told['sweep']}/stop", data={"form_key": form_key(page)})
    assert answer.status_code == 200
    assert "All jobs of this sweep were asked to stop" in answer.text
    assert "4 Stopped" in answer.text
    assert "ask-stop" not in answer.text
    states = console.client(headers).get(f"/api/v1/sweeps/{told['sweep']}").json()["sweep"]["states"]
    assert states == {"STOPPED": 4}


def test_nobody_stops_the_sweep_of_somebody_else(console: ConsoleUnderTest, told: dict[str, Any]) -> None:
    client = sign_in(console, console.add_user("bob"))
    page = get(client, f"/compare?sweep={told['sweep']}")
    assert "ask-stop" not in page
    assert client.post(f"/sweeps/{told['sweep']}/stop", data={"form_key": form_key(page)}).status_code == 403
    assert client.get("/compare?sweep=swaaaaaaaaa").status_code == 404
    assert client.get("/sweeps/swaaaaaaaaa").status_code == 404


def test_a_value_that_looks_like_markup_is_shown_as_it_is(console: ConsoleUnderTest, headers: dict[str, str]) -> None:
    told = sweep(console, console.client(headers), build_sweep([{"a": "<i>x"}, {"a": "\u202ey"}], "<u>name"))
    client = sign_in(console, headers)
    for path in ("/jobs", f"/jobs/{told['jobs'][0]['job']}", f"/compare?sweep={told['sweep']}"):
        page = get(client, path)
        assert "&lt;i&gt;x" in page
        assert "<i>x" not in page
        assert "<u>name" not in page
        assert "\u202e" not in page

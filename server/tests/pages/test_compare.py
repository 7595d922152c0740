"""The page of several runs, the curves of a job's page, and what both are without scripts."""

import re
from array import array

import pytest
from starlette.testclient import TestClient

from server.tests.pages.support import form_key, sign_in
from server.tests.web.lives import run_to_end
from server.tests.web.support import ConsoleUnderTest, build_submission
from starforge.contract.ids import JobId
from starforge_console.domain.points import Columns
from starforge_console.ledger.points import add_points
from starforge_console.web.pages.figures import choose_stroke


def _submit(console: ConsoleUnderTest, headers: dict[str, str], **hyperparameters: object) -> JobId:
    console.keep_workspace()
    document = build_submission(hyperparameters=hyperparameters)
    answer = console.client(headers).post("/api/v1/jobs", json=document)
    assert answer.status_code == 201, answer.text
    return JobId(answer.json()["job"])


def _report(console: ConsoleUnderTest, job: str, **values: list[float]) -> None:
    points = {}
    for name, numbers in values.items():
        steps = range(len(numbers))
        points[name.replace("__", "/")] = Columns(array("q", steps), array("d", numbers), array("d", map(float, steps)))
    console.services.series.write_now(lambda c: add_points(c, job, 1, points))


def _get(client: TestClient, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.text


def test_runs_are_chosen_in_the_list_and_compared_at_an_address_of_their_own(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    first, second = _submit(console, headers, lr=1e-5), _submit(console, headers, lr=2e-5)
    run_to_end(console, first)
    client = sign_in(console, headers)
    page = _get(client, "/jobs")
    assert page.count('type="checkbox" name="job"') == 2, "a job that has ended can be compared too"
    form = {"form_key": form_key(page), "job": [first, second], "back": "/jobs", "do": "compare"}
    answer = client.post("/jobs/compare", data=form, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/compare?job={first}&job={second}")
    nothing = client.post("/jobs/compare", data={**form, "job": []}, follow_redirects=False)
    assert nothing.headers["location"] == "/jobs"


def test_a_comparison_is_complete_without_scripts(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    jobs = [_submit(console, headers, lr=lr, same="x") for lr in (1e-5, 2e-5)]
    for number, job in enumerate(jobs):
        _report(console, job, loss=[3.0 + number, 2.0, 1.0 + number])
    client = sign_in(console, headers)
    page = _get(client, f"/compare?job={jobs[0]}&job={jobs[1]}")
    assert page.count("<polyline") == 2
    assert re.findall(r'<td class="num[^"]*">([^<]+)</td>', page)[:6] == ["1", "1", "3", "2", "2", "4"]
    assert '<th scope="row">lr</th><td><code>1e-05</code></td><td><code>2e-05</code></td>' in page
    assert ">same<" not in page
    assert ">same<" in _get(client, f"/compare?job={jobs[0]}&job={jobs[1]}&all=1")
    assert f'href="/compare?job={jobs[1]}"' in page, "each run can be left out"
    curves = client.get("/compare/curves", params={"job": jobs, "key": ["loss", "none"]}).json()
    assert curves["loss"][jobs[1]]["values"] == [4.0, 2.0, 2.0]
    assert list(curves) == ["loss"]


def test_parts_of_curves_are_sent_for_what_is_zoomed_into(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    jobs = [_submit(console, headers, lr=lr) for lr in (1e-5, 2e-5)]
    for job in jobs:
        _report(console, job, loss=[1.0] * 3000, grad=[2.0] * 3000)
    client = sign_in(console, headers)
    asked = {"from": [100, 10], "to": [120, 15]}
    compared = client.get("/compare/curves", params={"job": jobs, "key": ["loss"], **asked}).json()["loss"]
    assert [compared[job]["steps"] for job in jobs] == [list(range(100, 121)), list(range(10, 16))]
    assert [compared[job]["total"] for job in jobs] == [21, 6]
    curves = client.get(f"/jobs/{jobs[0]}/curves", params={"key": ["loss", "grad"], **asked}).json()
    assert [curves[key]["total"] for key in ("loss", "grad")] == [21, 6]
    refused = client.get(f"/jobs/{jobs[0]}/curves", params={"key": ["loss", "grad"], "from": [1], "to": [1, 2]})
    assert refused.status_code == 422
    assert client.get("/compare/curves", params={"job": jobs, "key": ["loss"], "from": 3}).status_code == 422


@pytest.mark.parametrize("count", [0, 51])
def test_too_few_or_too_many_runs_say_what_to_do(console: ConsoleUnderTest, count: int) -> None:
    client = sign_in(console, console.add_user("ann"))
    page = _get(client, "/compare?" + "&".join(f"job=j{number}" for number in range(count)))
    assert "2 to 50 jobs" in page
    assert ("51 runs were chosen" in page) is (count > 0)


def test_a_run_that_is_gone_is_named(console: ConsoleUnderTest) -> None:
    client = sign_in(console, console.add_user("ann"))
    answer = client.get("/compare?job=jaaaaaaaaa&job=jaaaaaaaab")
    assert answer.status_code == 404
    assert "jaaaaaaaaa, jaaaaaaaab" in answer.text


def test_the_first_fifty_strokes_differ() -> None:
    assert len({choose_stroke(index) for index in range(50)}) == 50
    assert [choose_stroke(index).dash for index in range(4)] == ["", "", "6 3", "6 3"]


def test_many_metrics_are_shown_by_group_and_found_by_name(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = _submit(console, headers)
    _report(
        console, job, **{f"layers__{number}": [1.0, 2.0] for number in range(300)}, eval__acc=[0.1, 0.2], loss=[1, 2]
    )
    client = sign_in(console, headers)
    page = _get(client, f"/jobs/{job}")
    assert "layers (300)" in page
    assert page.count('type="checkbox" name="keys"') == 200
    assert "102 more metrics are not listed" in page
    assert 'data-key="loss"' in page
    group = _get(client, f"/jobs/{job}?group=eval")
    assert re.findall(r'data-key="([^"]+)"', group) == ["eval/acc"]
    assert re.findall(r'data-key="([^"]+)"', _get(client, f"/jobs/{job}?group=/")) == ["loss"]
    found = _get(client, f"/jobs/{job}?metric=LAYERS/29")
    assert len(re.findall(r'data-key="layers/29', found)) == 11
    assert "No metric fits." in _get(client, f"/jobs/{job}?metric=nothing-like-it")


def test_what_the_machine_did_stands_apart_in_units(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = _submit(console, headers)
    _report(
        console,
        job,
        system__gpu0__power_w=[300.0, 310.0],
        system__gpu1__power_w=[200.0, 210.0],
        system__memory_used_bytes=[float(1 << 30), float(3 << 30)],
    )
    page = _get(sign_in(console, headers), f"/jobs/{job}")
    curves, machine = page.split('id="machine"')
    assert "No curve yet" in curves
    assert re.findall(r"<b>([^<]+)</b>", machine)[:3] == ["310\u00a0W", "210\u00a0W", "3.0\u00a0GiB"]


def test_all_points_of_a_job_are_a_file(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = _submit(console, headers)
    _report(console, job, loss=[0.5])
    client = sign_in(console, headers)
    assert f'href="/jobs/{job}/metrics.csv"' in _get(client, f"/jobs/{job}")
    assert _get(client, f"/jobs/{job}/metrics.csv") == "key,attempt,step,time,value\nloss,1,0,0.0,0.5\n"

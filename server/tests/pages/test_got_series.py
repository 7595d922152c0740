"""Which GPUs a job got: on its pages and in the API, beside what was asked for where that differs."""

import re

import pytest
from sqlalchemy import update

from server.tests.pages.support import sign_in
from server.tests.web.lives import begin, go
from server.tests.web.support import ConsoleUnderTest, submit
from starforge.contract.executor import FleetView, GpuState, GpuView, NodeView
from starforge.contract.ids import JobId
from starforge.contract.states import Reason
from starforge_console.fleets.views import KnownFleets
from starforge_console.ledger.tables import attempts, jobs


def give(console: ConsoleUnderTest, job: JobId, series: str | None) -> None:
    """Let the job have two GPUs, and its attempt those of `series`."""
    console.ledger.write_now(lambda c: c.execute(update(jobs).where(jobs.c.id == job).values(gpus=2)))
    console.ledger.write_now(lambda c: c.execute(update(attempts).values(series=series)))


def shown(page: str, part: str) -> str:
    """The words of the first thing on the page that matches."""
    found = re.search(part, page, re.DOTALL)
    assert found is not None
    return " ".join(
        re.sub(r"<[^>]*>", " ", found[0]).replace("&nbsp;", " ").replace("\N{MULTIPLICATION SIGN}", "x").split()
    )


@pytest.mark.parametrize(
    ("series", "listed", "told"),
    [
        ("l40s", "L40S x 2", "GPUs L40S x 2 asked for any here"),
        ("h100-sxm l40s", "H100-SXM + L40S x 2", "GPUs H100-SXM + L40S x 2 asked for any here"),
        (None, "any x 2", "GPUs any x 2 here"),
    ],
)
def test_a_placed_job_shows_the_series_that_it_got(
    console: ConsoleUnderTest, series: str | None, listed: str, told: str
) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    begin(console, job)
    give(console, job, series)
    client, api = sign_in(console, headers), console.client(headers)
    assert listed in shown(client.get("/jobs").text, rf'<tr id="job-{job}".*?</tr>')
    assert listed in shown(client.get("/overview").text, rf'<tr id="run-{job}".*?</tr>')
    assert shown(client.get(f"/jobs/{job}").text, r"<dt>GPUs.*?</dd>") == told
    detail = api.get(f"/api/v1/jobs/{job}").json()
    got = series.split() if series else []
    assert (detail["job"]["series"], detail["job"]["got_series"], detail["attempts"][0]["series"]) == (None, got, got)


def test_a_job_that_waits_again_shows_what_it_asks_for(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    failed = go(console, begin(console, job), Reason.NODE_LOST, retry_at=1.0)
    go(console, failed, Reason.RETRIED)
    give(console, job, "l40s")
    assert "any x 2" in shown(sign_in(console, headers).get("/jobs").text, rf'<tr id="job-{job}".*?</tr>')
    assert console.client(headers).get("/api/v1/jobs").json()["items"][0]["got_series"] == []


def gpu(uuid: str, series: str | None) -> GpuView:
    return GpuView(uuid=uuid, index=0, name="a GPU", series=series, memory_bytes=None, state=GpuState.FREE)


@pytest.mark.parametrize(
    ("gpus", "series"),
    [(["a", "b"], ["l40s"]), (["a", "c"], ["h100", "l40s"]), (["a", "d"], []), (["a", "gone"], [])],
)
def test_series_are_known_only_where_that_of_each_gpu_is(gpus: list[str], series: list[str]) -> None:
    known = KnownFleets({})
    machine = (gpu("a", "l40s"), gpu("b", "l40s"), gpu("c", "h100"), gpu("d", None))
    node = NodeView(name="n1", gpus=machine, cpus=8, memory_bytes=1 << 30)
    known.note([FleetView(fleet="lab", nodes=(node,))])
    assert list(known.find_series("lab", gpus)) == series
    assert list(known.find_series("other", gpus)) == []

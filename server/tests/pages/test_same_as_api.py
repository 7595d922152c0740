"""What a page of jobs shows, a program reads from the API: the same jobs, figures and counts."""

import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from server.tests.pages.support import sign_in
from server.tests.web.lives import begin, clean, go, run_to_end
from server.tests.web.support import ConsoleUnderTest, submit
from starforge.contract.states import Reason
from starforge_console.web.pages.jobs import TABS

Readers = tuple[TestClient, TestClient]


@pytest.fixture
def readers(console: ConsoleUnderTest) -> Readers:
    """A page's reader and a program, of one user, beside jobs in several states of two users."""
    ann, bob = console.add_user("ann"), console.add_user("bob")
    submit(console, ann)
    begin(console, submit(console, bob))
    run_to_end(console, submit(console, bob))
    retried = go(console, begin(console, submit(console, ann)), Reason.EXITED_NONZERO, retry_at=1e12)
    assert retried.attempt is not None
    clean(console, retried.attempt)
    return sign_in(console, ann), console.client(ann)


@pytest.mark.parametrize("filters", ["", "user=bob", "q=custom", "q=nowhere-at-all", "state=ACTIVE", "state=RUNNING"])
def test_the_same_filters_find_the_same_jobs(readers: Readers, filters: str) -> None:
    pages, api = readers
    shown = re.findall(r'<tr id="job-(\w+)">', pages.get(f"/jobs?group=none&{filters}").text)
    assert shown == [item["id"] for item in items_of(api, filters)]


@pytest.mark.parametrize("filters", ["", "user=bob", "q=nowhere-at-all"])
def test_the_counts_of_the_tabs_are_those_of_the_api(readers: Readers, filters: str) -> None:
    pages, api = readers
    page = pages.get(f"/jobs?{filters}").text
    shown = {tab: int(re.findall(rf'id="n-{tab or "ALL"}">(\d+)<', page)[0]) for tab in TABS}
    counts = api.get(f"/api/v1/job-counts?{filters}").json()
    told = {tab: counts["states"].get(tab, 0) for tab in TABS if tab not in {"", "ACTIVE"}}
    assert shown == {"": sum(counts["states"].values()), "ACTIVE": counts["active"], **told}


def test_each_figure_of_a_row_is_a_member_of_the_api(readers: Readers) -> None:
    pages, api = readers
    page = pages.get("/jobs").text
    for item in items_of(api, ""):
        row = re.findall(rf'<tr id="job-{item["id"]}">.*?</tr>', page, re.DOTALL)[0]
        assert f">{item['recipe']}<" in row
        assert f">{item['node'] or '—'}<" in row
        detail = api.get(f"/api/v1/jobs/{item['id']}").json()["job"]
        assert detail == item
        facts = pages.get(f"/jobs/{item['id']}").text
        assert item["retries_left"] is not None
        if item["retry_at"] is not None:
            left = item["retries_left"]
            assert f"{left} {'retry is' if left == 1 else 'retries are'} left" in facts


def items_of(api: TestClient, filters: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get(f"/api/v1/jobs?{filters}").json()["items"]
    return found

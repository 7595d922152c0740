"""A page that finds no room for its stream asks again by itself: the part of its script that no unit test reaches."""

import pytest
from playwright.sync_api import Page, Route, expect

from e2e.support.projects import make_experiment
from tools.run import Sample

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]  # the first test waits for the sample too

SOON_MS = 30_000


@pytest.mark.parametrize("status", [429, 503])
def test_a_page_that_found_no_room_for_its_stream_asks_again_when_it_was_told_to(
    page: Page, sample: Sample, status: int
) -> None:
    asked: list[str] = []

    def answer(route: Route) -> None:
        asked.append(route.request.url)
        if len(asked) > 1:
            route.continue_()
            return
        route.fulfill(status=status, headers={"Retry-After": "1"}, content_type="text/plain", body="no room")

    image = sample.console.get(f"/api/v1/jobs/{sample.jobs['sft-support-baseline']}", sample.token())
    name = image["spec"]["spec"]["framework"]["image"]
    probe = make_experiment(sample.console, name, "sleep 3; echo told by the stream", f"no-room-{status}")
    page.route("**/live/jobs/**", answer)
    page.goto(f"/jobs/{probe.submit(profile='any:1')}")
    expect(page.locator("#log-lines")).to_contain_text("told by the stream", timeout=SOON_MS)
    assert len(asked) == 2

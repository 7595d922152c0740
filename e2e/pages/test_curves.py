"""Curves in a real browser: their tools, what is fetched of them, the machine's beside them, and runs side by side."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect

from e2e.pages.addresses import address_of
from e2e.pages.conftest import Watched
from e2e.support.console import wait_for
from tools.run import Sample

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

SOON_MS = 20_000
DRAWN = "panel => [...panel.querySelectorAll('canvas')].map((canvas) => canvas.toDataURL()).join()"


def picture_of(panel: Locator) -> str:
    return str(panel.evaluate(DRAWN))


def test_each_tool_draws_the_curves_anew_and_zooming_can_be_taken_back(watched: Watched, sample: Sample) -> None:
    page = watched.page
    page.goto(address_of(sample, "succeeded"))
    panel = page.locator("#curves")
    panel.locator("canvas").first.wait_for()
    seen = [picture_of(panel)]
    panel.locator("[data-tool=axis]").select_option("relative")
    seen.append(picture_of(panel))
    panel.locator("[data-tool=axis]").select_option("wall")
    seen.append(picture_of(panel))
    for tool in ("log", "band"):
        panel.locator(f"[data-tool={tool}]").click()
        expect(panel.locator(f"[data-tool={tool}]")).to_have_attribute("aria-pressed", "true")
    seen.append(picture_of(panel))
    panel.locator("[data-tool=smooth]").fill("0")
    expect(panel.locator("output").first).to_have_text("0.00")
    seen.append(picture_of(panel))
    assert len(set(seen)) == len(seen), "each tool changes what is drawn"
    unzoom = panel.locator("[data-tool=unzoom]")
    expect(unzoom).to_be_disabled()
    box = panel.locator(".u-over").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 40, steps=5)
    page.mouse.up()
    expect(unzoom).to_be_enabled()
    unzoom.click()
    expect(unzoom).to_be_disabled()
    assert watched.lines == []


def test_only_the_curves_in_sight_are_fetched(page: Page, sample: Sample) -> None:
    asked: set[str] = set()
    page.on("request", lambda one: asked.update(parse_qs(urlsplit(one.url).query).get("key", ())))
    page.goto(address_of(sample, "succeeded"))
    page.locator("#curves canvas").first.wait_for()
    assert asked
    assert not [key for key in asked if key.startswith("system/")]
    page.locator("#machine summary").first.click()
    page.locator("#machine canvas").first.wait_for()
    assert "system/disk_free_bytes" in asked
    expect(page.locator("#machine .key b").first).to_have_text(re.compile(r" (%|[KMGT]?i?B(/s)?)$"))


def test_all_points_are_downloaded_as_csv(page: Page, sample: Sample) -> None:
    page.goto(address_of(sample, "succeeded"))
    with page.expect_download() as download:
        page.locator("#curves a[download]").click()
    lines = download.value.path().read_text().splitlines()
    assert lines[0] == "key,attempt,step,time,value"
    assert len([line for line in lines if line.startswith("train/loss,1,")]) > 20


def test_runs_are_ticked_in_the_list_and_laid_side_by_side(watched: Watched, sample: Sample) -> None:
    page = watched.page
    page.goto("/jobs?group=none")
    button = page.get_by_role("button", name="Compare")
    expect(button).to_be_disabled()
    jobs = [sample.jobs[name] for name in ("qwen3-14b-sft-support", "sft-support-baseline")]
    for job in jobs:
        page.locator(f"#job-{job} input[name=job]").check()
    button.click()
    page.wait_for_url("**/compare?**")
    assert sorted(parse_qs(urlsplit(page.url).query)["job"]) == sorted(jobs)
    panel = page.locator("#compared")
    panel.locator("canvas").first.wait_for()
    expect(page.locator("#runs tr[data-run]")).to_have_count(2)
    before = picture_of(panel)
    page.locator("#runs tr[data-run]").first.hover()
    assert picture_of(panel) != before, "the others fade"
    page.mouse.move(5, 5)
    page.get_by_role("link", name="All settings").click()
    expect(page.locator(".settings")).to_contain_text("image")
    page.locator("details.more summary").click()
    page.locator("input[name=key][value='eval/loss']").check()
    page.get_by_role("button", name="Show the chosen ones").click()
    expect(page.locator("[data-curve='eval/loss'] canvas")).to_be_visible()
    expect(page.locator("[data-curve]")).to_have_count(2)
    page.get_by_role("link", name=re.compile("^Leave ")).first.click()
    expect(page.locator("#runs tr[data-run]")).to_have_count(1)
    assert watched.lines == []


def test_a_run_that_goes_on_grows_in_the_comparison(page: Page, sample: Sample) -> None:
    jobs = [sample.jobs[name] for name in ("qwen3-14b-sft-support", "sft-support-baseline")]
    page.goto("/compare?" + "&".join(f"job={job}" for job in jobs))
    panel = page.locator("#compared")
    panel.locator("canvas").first.wait_for()
    before = picture_of(panel)
    wait_for(lambda: picture_of(panel) != before, "new points in the comparison", SOON_MS / 1000)

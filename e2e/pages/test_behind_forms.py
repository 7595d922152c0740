"""What holds for every page holds for those behind a form: accessible, silent, no wider than a phone."""

from collections.abc import Mapping

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from e2e.pages.behind_forms import FOR_ANYBODY, FOR_READERS, Way
from e2e.pages.judging import LOOKS, choose, violations
from e2e.support.browser import sign_in
from tools.run import Sample

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]  # the first test waits for the sample too

OF_THE_BROWSER = ("error: Failed to load resource", "verbose: [DOM] Password forms should have")
"""What Chromium itself writes for an answer of 4xx, and of a form that asks for a token alone."""


def judge(page: Page, sample: Sample, axe: str, ways: Mapping[str, Way]) -> dict[str, list[str]]:
    """What is wrong with each page, by its name; nothing for one that is as it should be."""
    lines: list[str] = []
    page.on("console", lambda line: lines.append(f"{line.type}: {line.text}"))
    page.on("pageerror", lambda error: lines.append(f"fault: {error}"))
    found: dict[str, list[str]] = {}
    for name, go in ways.items():
        go(page, sample)
        faults = violations(page, axe) + [line for line in lines if not line.startswith(OF_THE_BROWSER)]
        lines.clear()
        room = page.evaluate("window.innerWidth")
        if (width := page.evaluate("document.documentElement.scrollWidth")) > room:
            faults.append(f"is {width} wide where there is room for {room}")
        found[name] = faults
    return {name: faults for name, faults in found.items() if faults}


@pytest.mark.parametrize("look", LOOKS)
def test_pages_that_answer_a_readers_form_are_as_good_as_any(
    page: Page, context: BrowserContext, sample: Sample, axe: str, look: tuple[str, str, int]
) -> None:
    language, theme, width = look
    choose(context, sample.console.url, language, theme)
    page.set_viewport_size({"width": width, "height": 900})
    assert judge(page, sample, axe, FOR_READERS) == {}


@pytest.mark.parametrize("look", LOOKS)
def test_pages_that_answer_who_is_not_signed_in_are_as_good_as_any(
    browser: Browser, sample: Sample, axe: str, look: tuple[str, str, int]
) -> None:
    language, theme, width = look
    found: dict[str, list[str]] = {}
    for name, way in FOR_ANYBODY.items():
        context = browser.new_context(base_url=sample.console.url, viewport={"width": width, "height": 900})
        choose(context, sample.console.url, language, theme)
        found |= judge(context.new_page(), sample, axe, {name: way})
        context.close()
    assert found == {}


def test_a_page_that_asks_before_it_stops_has_stopped_nothing(page: Page, sample: Sample, token: str) -> None:
    for way in ("jobs are about to be stopped", "no job can be stopped"):
        FOR_READERS[way](page, sample)
    running = sample.jobs["qwen3-14b-sft-support"]
    job = sample.console.get(f"/api/v1/jobs/{running}", token)["job"]
    assert (job["state"], job["desired"]) == ("RUNNING", "run")


def test_a_token_from_a_link_signs_in_and_one_from_the_form_too(browser: Browser, sample: Sample, page: Page) -> None:
    FOR_READERS["a token was made"](page, sample)
    made = page.locator("#token").text_content() or ""
    context = browser.new_context(base_url=sample.console.url)
    FOR_ANYBODY["a link was used"](fresh := context.new_page(), sample)
    given = fresh.locator("#token").text_content() or ""
    context.close()
    for token in (made, given):
        context = browser.new_context(base_url=sample.console.url)
        sign_in(context.new_page(), token)
        context.close()

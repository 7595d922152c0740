"""What holds for every page with an address: accessible, within its policy, silent, narrow on a phone, links alive."""

import pytest
from playwright.sync_api import BrowserContext, Page

from e2e.pages.addresses import NAMES, address_of
from e2e.pages.conftest import Watched
from e2e.pages.judging import LOOKS, WRITTEN, choose, violations
from e2e.support.browser import sign_in
from server.tests.pages.sentences import find_english
from tools.run import Sample

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]  # the first test waits for the sample too


@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing_on_any_page(
    page: Page, context: BrowserContext, sample: Sample, axe: str, look: tuple[str, str, int]
) -> None:
    language, theme, width = look
    choose(context, sample.console.url, language, theme)
    page.set_viewport_size({"width": width, "height": 900})
    found = {}
    for name in NAMES:
        page.goto(address_of(sample, name))
        found[name] = violations(page, axe)
    assert {name: faults for name, faults in found.items() if faults} == {}


def test_every_address_shows_its_page_and_not_that_it_is_missing(page: Page, sample: Sample) -> None:
    statuses = {name: page.request.get(address_of(sample, name)).status for name in NAMES}
    assert {name: status for name, status in statuses.items() if status != 200} == {"missing": 404}


@pytest.mark.parametrize("path", ["/signin", "/signin/code"])
def test_axe_finds_nothing_before_signing_in(context: BrowserContext, axe: str, path: str) -> None:
    page = context.new_page()
    page.goto(path)
    assert violations(page, axe) == []


@pytest.mark.parametrize("language", ["en", "zh-Hans"])
def test_no_page_is_wider_than_a_phone(page: Page, context: BrowserContext, sample: Sample, language: str) -> None:
    choose(context, sample.console.url, language, "light")
    page.set_viewport_size({"width": 375, "height": 800})
    widths = {}
    for name in NAMES:
        page.goto(address_of(sample, name))
        widths[name] = page.evaluate("document.documentElement.scrollWidth")
    assert {name: width for name, width in widths.items() if width > 375} == {}


def test_no_page_breaks_its_policy_or_writes_to_the_browsers_console(watched: Watched, sample: Sample) -> None:
    for name in NAMES:
        if name == "missing":
            continue  # the browser itself writes a line for a 404
        watched.page.goto(address_of(sample, name))
        watched.page.locator("main h1").first.wait_for()
        if watched.page.locator("[data-curve]").count():
            watched.page.locator("[data-curve] canvas").first.wait_for()
    assert watched.lines == []


def test_every_link_leads_somewhere(page: Page, sample: Sample) -> None:
    links: set[str] = set()
    for name in NAMES:
        page.goto(address_of(sample, name))
        links |= set(page.eval_on_selector_all("a[href]", "all => all.map(a => a.getAttribute('href').split('#')[0])"))
    statuses = {link: page.request.get(link).status for link in links if link}
    assert len(statuses) > 20
    assert {link: status for link, status in statuses.items() if status >= 400} == {}


def test_everything_is_reached_by_keyboard(page: Page, sample: Sample) -> None:
    page.goto(address_of(sample, "running"))
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    reached: set[str] = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()"))
    assert {"Stop", "log-find", "log-follow", "log", "curves-smooth"} <= reached


def test_the_heaviest_page_loads_less_than_150_kb_of_scripts_and_styles(
    context: BrowserContext, sample: Sample, token: str
) -> None:
    page = context.new_page()
    sign_in(page, token)
    sizes: dict[str, int] = {}
    page.on("response", lambda answer: sizes.update({answer.url: int(answer.headers.get("content-length", 0))}))
    page.goto(address_of(sample, "running"))
    page.locator("[data-curve] canvas").first.wait_for()
    loaded = {url: size for url, size in sizes.items() if url.endswith((".js", ".mjs", ".css"))}
    assert len(loaded) >= 9
    assert sum(loaded.values()) < 150_000


def test_no_page_in_chinese_holds_an_english_sentence(page: Page, context: BrowserContext, sample: Sample) -> None:
    choose(context, sample.console.url, "zh-Hans", "light")
    found = []
    for name in NAMES:
        page.goto(address_of(sample, name))
        found += [f"{name}: {text}" for text in find_english(page.content()) if text not in WRITTEN]
    assert found == []

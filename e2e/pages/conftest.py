"""One engine, one console with real jobs in every state and one browser for the leg; a context for each test."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from e2e.support.browser import find_obstacle, open_chromium, sign_in
from e2e.support.engines import find_obstacle as find_engine_obstacle
from tools.run import Sample, sample_console


@dataclass
class Watched:
    """A page, and every line that its console and its faults came to."""

    page: Page
    lines: list[str]

    def watch(self) -> None:
        self.page.on("console", lambda line: self.lines.append(f"{line.type}: {line.text}"))
        self.page.on("pageerror", lambda error: self.lines.append(f"fault: {error}"))


@pytest.fixture(scope="session")
def sample() -> Iterator[Sample]:
    obstacle = find_engine_obstacle()
    if obstacle is not None:
        pytest.skip(obstacle)
    with sample_console() as running:
        yield running


@pytest.fixture(scope="session")
def token(sample: Sample) -> str:
    return sample.token()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    obstacle = find_obstacle()
    if obstacle is not None:
        pytest.skip(obstacle)
    with sync_playwright() as playwright:
        opened = open_chromium(playwright)
        yield opened
        opened.close()


@pytest.fixture
def context(browser: Browser, sample: Sample) -> Iterator[BrowserContext]:
    opened = browser.new_context(base_url=sample.console.url, locale="en-GB", viewport={"width": 1440, "height": 900})
    yield opened
    opened.close()


@pytest.fixture
def page(context: BrowserContext, token: str) -> Page:
    """A page whose reader is signed in as the administrator."""
    opened = context.new_page()
    sign_in(opened, token)
    return opened


@pytest.fixture
def watched(page: Page) -> Watched:
    seen = Watched(page, [])
    seen.watch()
    return seen


@pytest.fixture(scope="session")
def axe() -> str:
    return (Path(__file__).parent / "vendor" / "axe.min.js").read_text(encoding="utf-8")

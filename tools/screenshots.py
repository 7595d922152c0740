"""`make screenshots`: pictures of every page with real jobs in it, in both languages and themes, wide and narrow.

They go to build/pictures/, named PAGE-WIDTH-LANGUAGE-THEME.png; those that the repository keeps also to docs/pictures/.
"""

import shutil
import sys
from pathlib import Path
from typing import Final

from playwright.sync_api import BrowserContext, Page, sync_playwright

from e2e.pages.addresses import NAMES, address_of
from e2e.support.browser import open_chromium, sign_in
from tools.run import Sample, sample_console
from tools.run_fleet import SAMPLE_FLEET

PICTURES: Final = Path("build/pictures")
KEPT: Final = Path("docs/pictures")
KEPT_PAGES: Final = ("overview", "queue", "jobs", "running", "why", "sweep", "fleets", "fleet", "signin")
KEPT_LOOKS: Final = ("1440-en-light", "1440-zh-Hans-dark", "375-en-dark", "375-zh-Hans-light")
WIDTHS: Final = (1440, 375)
LANGUAGES: Final = ("en", "zh-Hans")
THEMES: Final = ("light", "dark")
_HEIGHT: Final = 900


def main() -> int:
    """Take all pictures; gives the exit code."""
    for folder in (PICTURES, KEPT):
        folder.mkdir(parents=True, exist_ok=True)
    with sample_console() as sample, sync_playwright() as playwright:
        browser, url = open_chromium(playwright), sample.console.url
        for width in WIDTHS:
            for language in LANGUAGES:
                for theme in THEMES:
                    context = browser.new_context(viewport={"width": width, "height": _HEIGHT}, base_url=url)
                    _set_cookies(context, url, language, theme)
                    _take_all(context.new_page(), sample, f"{width}-{language}-{theme}")
                    context.close()
        browser.close()
    for name in (f"{page}-{look}.png" for page in KEPT_PAGES for look in KEPT_LOOKS):
        shutil.copy(PICTURES / name, KEPT / name)
    print(f"screenshots: {len(list(PICTURES.glob('*.png')))} pictures in {PICTURES}/")
    return 0


def _set_cookies(context: BrowserContext, url: str, language: str, theme: str) -> None:
    for name, value in (("starforge_language", language), ("starforge_theme", theme)):
        context.add_cookies([{"name": name, "value": value, "url": url}])


def _take_all(page: Page, sample: Sample, suffix: str) -> None:
    page.goto("/signin")
    _take(page, f"signin-{suffix}")
    sign_in(page, sample.token())
    for name in NAMES:
        page.goto(address_of(sample, name))
        _take(page, f"{name}-{suffix}")
    page.goto(f"/fleets/{SAMPLE_FLEET}")
    page.locator("#join summary").first.click()
    page.locator("#join form.tools button").click()
    _take(page, f"fleet-token-{suffix}")


def _take(page: Page, name: str) -> None:
    if page.locator("[data-curve]").count():
        page.locator("[data-curve] canvas").first.wait_for()
    page.screenshot(path=PICTURES / f"{name}.png", full_page=True, animations="disabled")


if __name__ == "__main__":
    sys.exit(main())

"""`make screenshots`: pictures of every page with real jobs in it, in both languages and themes, wide and narrow.

They go to build/pictures/, named PAGE-WIDTH-LANGUAGE-THEME.png; those that the repository keeps also to docs/pictures/.
With a console that `make run` serves already, name it:
`python -m tools.screenshots URL TOKEN`.
"""

import contextlib
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from playwright.sync_api import BrowserContext, Page, sync_playwright

from e2e.support.browser import open_chromium, sign_in
from e2e.support.console import wait_for
from tools.run import sample_console
from tools.run_fleet import SAMPLE_FLEET

PICTURES: Final = Path("build/pictures")
KEPT: Final = Path("docs/pictures")
DRAWING: Final = "qwen3-14b-sft-support"
"""The job of the sample that reports values while it runs."""
KEPT_PAGES: Final = ("overview", "queue", "jobs", "job-running", "job-queued", "fleets", "fleet", "signin", "tokens")
KEPT_LOOKS: Final = ("1440-en-light", "1440-zh-Hans-dark", "375-en-dark", "375-zh-Hans-light")
WIDTHS: Final = (1440, 375)
LANGUAGES: Final = ("en", "zh-Hans")
THEMES: Final = ("light", "dark")
_HEIGHT: Final = 900


@contextlib.contextmanager
def _console(arguments: list[str]) -> Iterator[tuple[str, str]]:
    """The address of a console with jobs, and a token for it."""
    if arguments:
        yield arguments[0], arguments[1]
        return
    with sample_console() as sample:
        yield sample.console.url, sample.token()


def main(arguments: list[str]) -> int:
    """Take all pictures; gives the exit code."""
    for folder in (PICTURES, KEPT):
        folder.mkdir(parents=True, exist_ok=True)
    with _console(arguments) as (url, token), sync_playwright() as playwright:
        browser = open_chromium(playwright)
        for width in WIDTHS:
            for language in LANGUAGES:
                for theme in THEMES:
                    context = browser.new_context(viewport={"width": width, "height": _HEIGHT}, base_url=url)
                    _set_cookies(context, url, language, theme)
                    _take_all(context.new_page(), token, f"{width}-{language}-{theme}")
                    context.close()
        browser.close()
    for name in (f"{page}-{look}.png" for page in KEPT_PAGES for look in KEPT_LOOKS):
        shutil.copy(PICTURES / name, KEPT / name)
    print(f"screenshots: {len(list(PICTURES.glob('*.png')))} pictures in {PICTURES}/")
    return 0


def _set_cookies(context: BrowserContext, url: str, language: str, theme: str) -> None:
    for name, value in (("starforge_language", language), ("starforge_theme", theme)):
        context.add_cookies([{"name": name, "value": value, "url": url}])


def _take_all(page: Page, token: str, suffix: str) -> None:
    page.goto("/signin")
    _take(page, f"signin-{suffix}")
    sign_in(page, token)
    jobs, node = _find_jobs(page), _find_node(page)
    pages = {
        "overview": "/overview",
        "queue": "/queue",
        "jobs": "/jobs",
        "jobs-plain": "/jobs?group=none",
        "job-queued": f"/jobs/{jobs['QUEUED']}",
        "job-running": f"/jobs/{jobs['RUNNING']}",
        "job-failed": f"/jobs/{jobs['FAILED']}",
        "job-outputs": f"/jobs/{jobs['SUCCEEDED']}?view=outputs",
        "job-config": f"/jobs/{jobs['SUCCEEDED']}?view=config",
        "job-admission": f"/jobs/{jobs['SUCCEEDED']}?view=admission",
        "job-lineage": f"/jobs/{jobs['SUCCEEDED']}?view=lineage",
        "compare": f"/compare?job={jobs['RUNNING']}&job={jobs['SUCCEEDED']}",
        "fleets": "/fleets",
        "fleet": f"/fleets/{SAMPLE_FLEET}",
        "fleet-new": "/new-fleet",
        "fleet-drain": f"/fleets/{SAMPLE_FLEET}/nodes/{node}/drain",
        "fleet-mark-lost": f"/fleets/{SAMPLE_FLEET}/nodes/{node}/mark-lost",
        "catalog": "/catalog",
        "method": "/catalog/trl/sft",
        "account": "/account",
        "tokens": "/tokens",
        "admin": "/admin",
        "admin-audit": "/admin?view=audit",
        "admin-user": "/admin/users/admin",
        "admin-registries": "/admin?view=registries",
        "admin-hardware": "/admin?view=hardware",
        "admin-retention": "/admin?view=retention&plan=1",
        "not-found": "/jobs/jaaaaaaaaa",
    }
    for name, path in pages.items():
        page.goto(path)
        _take(page, f"{name}-{suffix}")
    page.goto(f"/fleets/{SAMPLE_FLEET}")
    page.locator("#join summary").first.click()
    page.locator("#join form.tools button").click()
    _take(page, f"fleet-token-{suffix}")


def _take(page: Page, name: str) -> None:
    if page.locator("[data-curve]").count():
        page.locator("[data-curve] canvas").first.wait_for()
    page.screenshot(path=PICTURES / f"{name}.png", full_page=True, animations="disabled")


def _find_jobs(page: Page) -> Mapping[str, str]:
    """A job of each state that the pictures need; of those that run, the one that draws a curve."""

    def look() -> dict[str, str]:
        found = {}
        for state in ("QUEUED", "RUNNING", "FAILED", "SUCCEEDED"):
            page.goto(f"/jobs?state={state}&group=none")
            rows = page.locator("tr[id^=job-]", has_text=DRAWING if state == "RUNNING" else "")
            if rows.count():
                found[state] = str(rows.last.get_attribute("id")).removeprefix("job-")
        return found if len(found) == len(("QUEUED", "RUNNING", "FAILED", "SUCCEEDED")) else {}

    return wait_for(look, "a job in every state", 60)


def _find_node(page: Page) -> str:
    """The first machine of the sample's fleet."""
    page.goto(f"/fleets/{SAMPLE_FLEET}")
    return page.locator(".node h3").first.inner_text()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

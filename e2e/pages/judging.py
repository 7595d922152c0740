"""Looks that a page is judged in, and what axe finds on it."""

from typing import Any, Final

from playwright.sync_api import BrowserContext, Page

from tools.run_fleet import DRAINED_WHY

PRINTED: Final = "ValueError: no such column"
"""The last line of a job that a test lets fail."""
WRITTEN: Final = (DRAINED_WHY, PRINTED)
"""What people and jobs of the sample wrote, which nobody translates."""
LOOKS: Final = [("en", "light", 1440), ("zh-Hans", "dark", 1440), ("en", "dark", 500), ("zh-Hans", "light", 375)]


def choose(context: BrowserContext, url: str, language: str, theme: str) -> None:
    """Let every page of `context` come in that language and theme."""
    for name, value in (("starforge_language", language), ("starforge_theme", theme)):
        context.add_cookies([{"name": name, "value": value, "url": url}])


def violations(page: Page, axe: str) -> list[str]:
    """The rules that the page breaks, each with the element that does."""
    page.evaluate(axe)
    found: dict[str, Any] = page.evaluate("axe.run({resultTypes: ['violations']})")
    return [f"{rule['id']}: {node['html'][:200]}" for rule in found["violations"] for node in rule["nodes"]]

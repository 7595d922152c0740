"""Chromium for tests and pictures: Debian's own, driven over its protocol."""

import shutil
from typing import Final

from playwright.sync_api import Browser, Page, Playwright

PROGRAM: Final = "/usr/bin/chromium"
_ARGUMENTS: Final = (
    "--no-sandbox",  # tests run as root, where Chromium has no sandbox
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)


def find_obstacle() -> str | None:
    """Why no browser can run here, or None."""
    return None if shutil.which(PROGRAM) else f"{PROGRAM} is not there: tools/needs.sh browser installs it"


def open_chromium(playwright: Playwright) -> Browser:
    """A browser without a window."""
    return playwright.chromium.launch(executable_path=PROGRAM, args=list(_ARGUMENTS))


def sign_in(page: Page, token: str) -> None:
    """Open a session with a personal token, through the form."""
    page.goto("/signin")
    page.locator("#token").fill(token)
    page.locator("button.primary").click()
    page.wait_for_url("**/overview")

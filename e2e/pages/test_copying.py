"""The buttons that copy, over HTTPS and over plain HTTP, where browsers give a page no clipboard."""

import re

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tools.run import Sample

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

PLAIN_HTTP = "Object.defineProperty(Navigator.prototype, 'clipboard', { value: undefined })"
"""What a page sees that was opened at http://HOST: loopback alone counts as safe without TLS."""


@pytest.mark.parametrize("is_plain", [False, True])
def test_a_button_copies_the_text_beside_it(
    page: Page, context: BrowserContext, sample: Sample, *, is_plain: bool
) -> None:
    if is_plain:
        page.add_init_script(PLAIN_HTTP)
    else:
        context.grant_permissions(["clipboard-write"])
    job = sample.jobs["sft-support-baseline"]
    page.goto(f"/jobs/{job}?view=lineage")
    assert page.evaluate("navigator.clipboard === undefined") is is_plain
    button = page.locator("[data-copy=l-rerun]")
    button.click()
    expect(button.locator("use")).to_have_attribute("href", re.compile("#check$"))
    page.evaluate("document.body.prepend(Object.assign(document.createElement('textarea'), { id: 'pasted' }))")
    page.locator("#pasted").focus()
    page.keyboard.press("Control+V")
    expect(page.locator("#pasted")).to_have_value(f"sf rerun {job}")

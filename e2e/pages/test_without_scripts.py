"""Everything but the live parts works in a browser that runs no scripts."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from e2e.pages.addresses import address_of
from e2e.support.browser import sign_in
from tools.run import Sample

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]  # the first test waits for the sample too


@pytest.fixture
def plain(browser: Browser, sample: Sample, token: str) -> Iterator[Page]:
    context = browser.new_context(base_url=sample.console.url, java_script_enabled=False, locale="en-GB")
    page = context.new_page()
    sign_in(page, token)
    yield page
    context.close()


def test_the_list_is_filtered_and_searched(plain: Page, sample: Sample) -> None:
    plain.goto("/jobs?state=FAILED")
    expect(plain.locator(f"#job-{sample.jobs['dpo-helpful-v2']}")).to_be_visible()
    plain.locator("main input[name=q]").fill("no such job")
    plain.get_by_role("button", name="Apply").click()
    expect(plain.locator("main")).to_contain_text("No job matches “no such job”")


def test_a_jobs_page_shows_state_log_curves_and_reasons(plain: Page, sample: Sample) -> None:
    plain.goto(address_of(sample, "failed"))
    expect(plain.locator("#job-state")).to_contain_text("Failed")
    expect(plain.locator("#log")).to_contain_text("KeyError: 'completion'")
    expect(plain.locator("[data-curve] polyline").first).to_be_attached()
    expect(plain.locator("#job-history")).to_contain_text("exited_nonzero")
    expect(plain.locator("#log-follow")).to_be_hidden()


def test_the_log_is_searched_by_the_server(plain: Page, sample: Sample) -> None:
    plain.goto(address_of(sample, "succeeded"))
    plain.locator("#log-find").fill("tokenizer")
    plain.locator("#log-find").press("Enter")
    expect(plain.locator("#log-hits li")).to_have_count(1)
    expect(plain.locator("#log-hits li")).to_contain_text("loading the tokenizer")
    plain.locator("#log-hits li a").click()
    expect(plain.locator("#log .aim")).to_contain_text("loading the tokenizer")


def test_the_first_error_is_a_link(plain: Page, sample: Sample) -> None:
    plain.goto(address_of(sample, "failed"))
    plain.locator("#log-error").click()
    expect(plain.locator("#log .aim")).to_contain_text(re.compile("Traceback|KeyError"))


def test_times_stand_in_utc(plain: Page, sample: Sample) -> None:
    plain.goto(address_of(sample, "succeeded"))
    time = plain.locator("#job-history time").first
    assert str(time.get_attribute("datetime")).endswith("Z")
    assert str(time.get_attribute("title")).endswith("UTC")


def test_language_and_theme_are_forms(plain: Page) -> None:
    plain.goto("/tokens")
    plain.get_by_role("button", name="简体中文").click()
    expect(plain.locator("html")).to_have_attribute("lang", "zh-Hans")
    expect(plain.locator("h1")).to_have_text("令牌")
    plain.get_by_role("button", name="深色").click()
    expect(plain.locator("html")).to_have_attribute("data-theme", "dark")
    assert plain.url.endswith("/tokens")


def test_a_token_is_made_shown_once_and_revoked(plain: Page) -> None:
    plain.goto("/tokens")
    plain.locator("#label").fill("laptop of ada")
    plain.get_by_role("button", name="Create token").click()
    made = plain.locator("#token").inner_text()
    assert made.startswith("sfp_")
    plain.goto("/tokens")
    expect(plain.locator("main")).not_to_contain_text(made)
    plain.locator("tr", has_text="laptop of ada").get_by_role("button").click()
    expect(plain.locator("main")).to_contain_text("The token was revoked.")
    expect(plain.locator("main")).not_to_contain_text("laptop of ada")


def test_signing_out_asks_for_a_token_again(plain: Page) -> None:
    plain.get_by_role("button", name="Sign out").click()
    expect(plain.locator("h1")).to_have_text("Sign in")
    plain.goto("/jobs")
    expect(plain.locator("h1")).to_have_text("Sign in")

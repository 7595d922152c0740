"""Overview, queue and administration in a real browser: they move by themselves, and work without scripts."""

import pytest
from playwright.sync_api import Browser, Page, expect

from e2e.pages.judging import PRINTED
from e2e.support.browser import sign_in
from e2e.support.projects import Experiment, make_experiment
from tools.run import Sample

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]  # the first test waits for the sample too

SOON_MS = 20_000


def experiment(sample: Sample, name: str) -> Experiment:
    image = sample.console.get(f"/api/v1/jobs/{sample.jobs['sft-support-baseline']}", sample.token())
    return make_experiment(sample.console, image["spec"]["spec"]["framework"]["image"], "sleep 300", name)


def test_a_job_comes_to_the_overview_and_the_queue_and_leaves_them_by_itself(page: Page, sample: Sample) -> None:
    other = page.context.new_page()
    page.goto("/overview")
    other.goto("/queue")
    probe = experiment(sample, "passing-by")
    job = probe.submit(profile="any:4")
    expect(page.locator(f"#run-{job}")).to_contain_text("Queued", timeout=SOON_MS)
    expect(page.locator("#overview-queue")).to_contain_text("passing-by", timeout=SOON_MS)
    expect(other.locator(f"#place-{job}")).to_contain_text("4 asked for", timeout=SOON_MS)
    sample.console.sf("job", "stop", job, cwd=probe.project)
    expect(page.locator(f"#run-{job}")).to_contain_text("Stopped", timeout=SOON_MS)
    expect(other.locator(f"#place-{job}")).to_have_count(0, timeout=SOON_MS)


def test_what_fails_while_the_overview_is_open_comes_to_need_attention(page: Page, sample: Sample) -> None:
    page.goto("/overview")
    image = sample.console.get(f"/api/v1/jobs/{sample.jobs['sft-support-baseline']}", sample.token())
    name = image["spec"]["spec"]["framework"]["image"]
    probe = make_experiment(sample.console, name, f"echo '{PRINTED}'; exit 3", "going-wrong")
    probe.wait_end(probe.submit(profile="any:1"))
    row = page.locator("#overview-attention li", has_text="going-wrong")
    expect(row).to_contain_text("failed: The script ended with an error.", timeout=SOON_MS)
    row.get_by_role("link", name="Open job").click()
    expect(page.locator("h1")).to_contain_text("going-wrong")


def test_the_administration_works_without_scripts_and_by_keyboard(browser: Browser, sample: Sample, token: str) -> None:
    context = browser.new_context(base_url=sample.console.url, java_script_enabled=False, locale="en-GB")
    page = context.new_page()
    sign_in(page, token)
    page.get_by_role("link", name="Settings").press("Enter")
    team = page.get_by_role("combobox", name="Team of ada")
    team.fill("vision")
    team.press("Enter")
    expect(page.locator("main [role=status]")).to_have_text("The team is set.")
    page.locator("form[action='/admin/quota'] input[name=name]").fill("ada")
    page.locator("form[action='/admin/quota'] input[name=jobs]").fill("900")
    page.get_by_role("button", name="Set a limit").press("Enter")
    expect(page.locator("main")).to_contain_text("user ada")
    page.goto("/account")
    expect(page.locator("main")).to_contain_text("vision")
    expect(page.locator("main")).to_contain_text("/ 900")
    page.goto("/admin")
    page.get_by_role("button", name="Remove the limit of user ada").press("Enter")
    expect(page.locator("main [role=status]")).to_have_text("The limit is gone.")
    page.get_by_role("combobox", name="Team of ada").fill("")
    page.get_by_role("button", name="Set the team of ada").press("Enter")
    context.close()


def test_language_and_theme_are_kept_on_the_account(page: Page) -> None:
    page.goto("/account")
    page.get_by_role("radio", name="简体中文").check()
    page.get_by_role("radio", name="Dark").check()
    page.get_by_role("button", name="Keep").click()
    expect(page.locator("html")).to_have_attribute("lang", "zh-Hans")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.locator("h1")).to_have_text("账户")

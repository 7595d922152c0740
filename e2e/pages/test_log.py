"""The log on a job's page: search through all of it, the first error, earlier lines, links to lines, colours."""

import re
import secrets

import pytest
from playwright.sync_api import Page, expect

from e2e.support.projects import make_experiment
from tools.run import Sample

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

SOON_MS = 20_000
LAST = 3004
SCRIPT = r"""
printf '\033[1;32mbegun\033[0m with a needle\n'
for ((i = 2; i <= 1500; i++)); do echo "step $i"; done
printf 'Traceback (most recent call last):\nKeyError: 1\n'
for ((i = 1503; i <= 3003; i++)); do echo "step $i"; done
printf '10%%\r55%%\r99%% needle\n'
"""


@pytest.fixture
def address(page: Page, sample: Sample) -> str:
    """The page of a job with a log that is longer than what is loaded of it, opened."""
    base = sample.console.get(f"/api/v1/jobs/{sample.jobs['sft-support-baseline']}", sample.token())
    image = base["spec"]["spec"]["framework"]["image"]
    job = make_experiment(sample.console, image, SCRIPT, f"long-{secrets.token_hex(3)}").submit(profile="any:1")
    page.goto(f"/jobs/{job}")
    expect(page.locator("#job-state")).to_contain_text("Succeeded", timeout=SOON_MS * 3)
    expect(page.locator("#log")).to_contain_text("99% needle", timeout=SOON_MS)
    page.reload()
    expect(page.locator(f"#L{LAST}")).to_be_attached()
    return f"/jobs/{job}"


def numbers(page: Page) -> list[int]:
    return [int(text) for text in page.locator("#log li:visible .ln").all_inner_texts()]


def test_a_search_leads_through_the_whole_log(page: Page, address: str) -> None:
    assert address
    expect(page.locator("#log")).not_to_contain_text("begun with a needle")
    page.locator("#log-find").fill("NEEDLE")
    page.locator("#log-find").press("Enter")
    expect(page.locator("#log-hits li")).to_have_count(2)
    expect(page.locator("#log .aim")).to_contain_text("begun with a needle")
    expect(page.locator("#log .aim mark")).to_have_text("needle")
    expect(page.locator("#log .aim .t-green")).to_have_text("begun")
    page.get_by_role("button", name="Next").click()
    expect(page.locator("#log .aim")).to_contain_text("99% needle")
    page.locator("#log").focus()
    page.keyboard.press("Shift+n")
    expect(page.locator("#log .aim")).to_contain_text("begun with a needle")
    page.get_by_role("link", name="Show the log again").click()
    expect(page.locator(f"#L{LAST}")).to_be_in_viewport()


def test_the_first_error_and_a_linked_line_are_gone_to_without_a_reload(page: Page, address: str) -> None:
    page.evaluate("window.mark = 'the same page'")
    page.locator("#log-error").click()
    expect(page.locator("#log .aim")).to_contain_text("Traceback")
    assert 1501 in numbers(page)
    page.locator("#log-follow").click()
    expect(page.locator(f"#L{LAST}")).to_be_in_viewport()
    assert page.evaluate("window.mark") == "the same page"
    page.goto(f"{address}#L700")
    page.reload()
    expect(page.locator("#log .aim")).to_contain_text("step 700")


def test_earlier_lines_come_when_the_reader_scrolls_up(page: Page, address: str) -> None:
    assert address
    before = numbers(page)
    page.locator("#log").hover()
    for _ in range(3):
        page.mouse.wheel(0, -100_000)
        page.wait_for_function("n => Number(document.querySelector('#log-lines .ln').textContent) < n", arg=before[0])
        before = numbers(page)
        assert before == list(range(before[0], before[-1] + 1))
    expect(page.locator("#log-follow")).to_have_attribute("aria-pressed", "false")
    assert before[0] < LAST - 1500


def test_the_log_is_kept_as_a_file_raw_and_as_it_is_shown(page: Page, address: str) -> None:
    assert address
    with page.expect_download() as raw:
        page.locator("#log-panel").get_by_role("link", name="Raw").click()
    with page.expect_download() as shown:
        page.locator("#log-panel").get_by_role("link", name="Text").click()
    content = raw.value.path().read_bytes()
    assert content.startswith(b"\x1b[1;32mbegun")
    assert b"10%\r55%\r99% needle\n" in content
    text = shown.value.path().read_text()
    assert text.startswith("begun with a needle\nstep 2\n")
    assert re.search(r"^99% needle$", text, re.MULTILINE)

"""Live parts: they change without a reload, keep what the reader does, and come back after the console was killed."""

import re

import pytest
from playwright.sync_api import Page, expect

from e2e.pages.addresses import address_of
from e2e.support.projects import Experiment, make_experiment, write_script
from starforge_console.web.i18n.words import CHINESE, ENGLISH, load_words
from starforge_console.web.pages.formats import units_of, write_time
from tools.run import Sample

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]  # the first test waits for the sample too

SOON_MS = 20_000
COUNTING = "for i in $(seq 1 100000); do echo line $i; sleep 0.3; done"
HOSTILE = r"""
printf '<script>window.owned=1</script>\n\033[31mred\033[0m \033]0;title\007after\n10%%\r55%%\r99%%\n'
printf 'bad \377 byte\nnul \000 here\nevil \342\200\256txt\n'
head -c 300000 /dev/zero | tr '\000' x; echo; echo last
touch "$FORGE_OUT_DIR/<img src=x onerror=window.owned=1>.txt"
"""
SHOWN = (
    "<script>window.owned=1</script>",
    "red after",
    "99%",
    "bad \ufffd byte",
    "nul \u2400 here",
    "evil \ufffdtxt",
    "last",
)
TIMES = (-1, 0, 0.9, 59.9, 60, 95, 3599, 3600, 3605, 3660, 86_399, 86_400, 90_000, 2_678_461)
MARK = "window.mark = 'the same page'"


def experiment(sample: Sample, script: str, name: str) -> Experiment:
    image = sample.console.get(f"/api/v1/jobs/{sample.jobs['sft-support-baseline']}", sample.token())
    return make_experiment(sample.console, image["spec"]["spec"]["framework"]["image"], script, name)


def same_page(page: Page) -> bool:
    return bool(page.evaluate("window.mark === 'the same page'"))


def last_line(page: Page) -> int:
    found = re.findall(r"line (\d+)", page.locator("#log").inner_text())
    return int(found[-1]) if found else 0


def test_a_job_is_followed_from_queue_to_end_without_a_reload(page: Page, sample: Sample) -> None:
    probe = experiment(sample, "for i in 1 2 3; do echo step $i; sleep 0.5; done", "followed")
    job = probe.submit(profile="any:1")
    page.goto(f"/jobs/{job}")
    page.evaluate(MARK)
    expect(page.locator("#job-state")).to_contain_text("Succeeded", timeout=SOON_MS)
    expect(page.locator("#log-lines")).to_contain_text("step 3")
    expect(page.locator("#job-history li").first).to_contain_text("exited_zero")
    expect(page.locator("#job-log_state")).to_contain_text("Received everything that was produced", timeout=SOON_MS)
    expect(page.locator("#job-actions")).to_contain_text("Delete")
    assert same_page(page)


def test_log_and_curves_grow_and_go_on_after_the_console_was_killed(page: Page, sample: Sample) -> None:
    page.goto(address_of(sample, "running"))
    page.evaluate(MARK)
    value = page.locator("[data-curve] .key b").first
    for _ in range(2):
        count, shown = page.locator("#log-lines li").count(), value.inner_text()
        expect(page.locator("#log-lines li").nth(count + 3)).to_be_attached(timeout=SOON_MS)
        expect(value).not_to_have_text(shown, timeout=SOON_MS)
        sample.console.restart()
    count = page.locator("#log-lines li").count()
    expect(page.locator("#log-lines li").nth(count + 3)).to_be_attached(timeout=SOON_MS)
    steps = [int(step) for step in re.findall(r'"step": (\d+)', page.locator("#log-lines").inner_text())]
    assert steps == list(range(steps[0], steps[0] + len(steps))), "a line was lost or doubled"
    assert same_page(page)


def test_rows_change_and_keep_ticked_boxes_focus_and_typed_text(page: Page, sample: Sample) -> None:
    probe = experiment(sample, "sleep 2", "row-probe")
    job = probe.submit(profile="any:1")
    page.goto("/jobs")
    page.evaluate(MARK)
    other = page.locator(f"#job-{sample.jobs['qwen3-14b-sft-support']} input")
    other.check()
    page.locator("main input[name=q]").fill("half a wo")
    expect(page.locator(f"#job-{job}")).to_contain_text("Succeeded", timeout=SOON_MS)
    assert other.is_checked()
    assert page.locator("main input[name=q]").input_value() == "half a wo"
    assert page.evaluate("document.activeElement.name") == "q"
    assert same_page(page)


def test_a_new_job_is_announced_and_the_list_stays_as_it_is(page: Page, sample: Sample) -> None:
    probe = experiment(sample, "echo here", "announced")
    page.goto("/jobs")
    rows = page.locator("tr[id^=job-]").count()
    probe.submit(profile="any:1")
    expect(page.locator("#list-news")).to_contain_text("The list has changed", timeout=SOON_MS)
    assert page.locator("tr[id^=job-]").count() == rows


def test_stop_asks_first_with_the_focus_on_the_safe_button_and_then_stops(page: Page, sample: Sample) -> None:
    # It does not heed the wish, so that the page can be seen while the job has its grace.
    probe = experiment(sample, "trap '' TERM\nsleep 300", "stopped-by-page")
    job = probe.submit(profile="any:1")
    probe.wait_state(job, "RUNNING")
    page.goto(f"/jobs/{job}")
    page.get_by_role("button", name="Stop").click()
    assert page.evaluate("document.activeElement.textContent") == "Keep running"
    page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    expect(page.locator("#job-state")).to_contain_text("stop requested")
    sample.console.sf("job", "stop", job, "--grace", "0", cwd=probe.project)
    expect(page.locator("#job-state")).to_contain_text("Stopped", timeout=60_000)


def test_several_jobs_are_stopped_together_after_one_question(page: Page, sample: Sample) -> None:
    probe = experiment(sample, "sleep 300", "bulk")
    jobs = [probe.submit(profile="any:4") for _ in range(2)]
    page.goto("/jobs?state=QUEUED")
    for job in jobs:
        page.locator(f"#job-{job} input").check()
    expect(page.locator("[data-count]")).to_have_text("2 selected")
    page.locator("button[name=do][value=stop]").click()
    page.get_by_role("button", name="Stop 2 jobs").click()
    for job in jobs:
        assert probe.wait_state(job, "STOPPED") == "STOPPED"


def test_following_ends_where_the_reader_scrolls_up_and_search_marks_lines(page: Page, sample: Sample) -> None:
    page.goto(address_of(sample, "running"))
    expect(page.locator("#log-lines li").nth(30)).to_be_attached(timeout=SOON_MS)
    page.locator("#log").hover()
    page.mouse.wheel(0, -400)
    expect(page.locator("#log-follow")).to_have_attribute("aria-pressed", "false")
    page.locator("#log-find").fill("loss")
    expect(page.locator("#log mark").first).to_have_text("loss")
    # The log is long by now: this line is no longer among those that the page opened with, so the console is asked.
    page.locator("#log-find").fill("tokenizer")
    page.locator("#log-find").press("Enter")
    expect(page.locator("#log mark").first).to_have_text("tokenizer")


def test_a_killed_console_is_announced_and_the_figures_stay(page: Page, sample: Sample) -> None:
    page.goto(address_of(sample, "running"))
    page.locator("[data-curve] canvas").first.wait_for()
    sample.console.kill()
    try:
        expect(page.locator("#live-state")).to_contain_text("Live updates are interrupted", timeout=SOON_MS)
        expect(page.locator("#job-state")).to_contain_text("Running")
    finally:
        sample.console.start()
    expect(page.locator("#live-state")).to_be_hidden(timeout=SOON_MS)


def test_the_pages_script_tells_times_as_the_server_does(page: Page) -> None:
    page.goto("/jobs")
    script = page.locator("script[src*='page.mjs']").get_attribute("src") or ""
    module = script.replace("page.mjs", "durations.mjs")
    for language in (ENGLISH, CHINESE):
        words = load_words(language)
        for most in (1, 2):
            told = page.evaluate(
                "async ([module, units, most, times]) => {"
                " const { describeDuration } = await import(module);"
                " return times.map((seconds) => describeDuration(seconds, units.split(' '), most)); }",
                [module, units_of(words), most, list(TIMES)],
            )
            assert told == [write_time(words, seconds, most) for seconds in TIMES]


def test_hostile_lines_and_names_are_shown_as_text(page: Page, sample: Sample) -> None:
    probe = experiment(sample, "true", "hostile")
    write_script(probe, HOSTILE)
    job = probe.submit(profile="any:1")
    probe.wait_end(job)
    page.goto(f"/jobs/{job}")
    text = page.locator("#log").inner_text()
    for wanted in SHOWN:
        assert wanted in text, wanted
    assert "10%" not in text
    assert max(map(len, text.splitlines())) < 17_000
    page.goto(f"/jobs/{job}?view=outputs")
    expect(page.locator("main")).to_contain_text("<img src=x onerror=window.owned=1>.txt")
    assert page.evaluate("window.owned") is None

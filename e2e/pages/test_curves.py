"""Curves in a real browser: their tools, what is fetched of them, the machine's beside them, and runs side by side."""

import re
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect

from e2e.pages.addresses import address_of
from e2e.pages.conftest import Watched
from e2e.support.console import wait_for
from e2e.support.projects import make_experiment
from tools.run import Sample

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

SOON_MS = 20_000
DRAWN = "panel => [...panel.querySelectorAll('canvas')].map((canvas) => canvas.toDataURL()).join()"


def picture_of(panel: Locator) -> str:
    return str(panel.evaluate(DRAWN))


def test_each_tool_draws_the_curves_anew_and_zooming_can_be_taken_back(watched: Watched, sample: Sample) -> None:
    page = watched.page
    page.goto(address_of(sample, "succeeded"))
    panel = page.locator("#curves")
    panel.locator("canvas").first.wait_for()
    seen = [picture_of(panel)]
    panel.locator("[data-tool=axis]").select_option("relative")
    seen.append(picture_of(panel))
    panel.locator("[data-tool=axis]").select_option("wall")
    seen.append(picture_of(panel))
    for tool in ("log", "band"):
        panel.locator(f"[data-tool={tool}]").click()
        expect(panel.locator(f"[data-tool={tool}]")).to_have_attribute("aria-pressed", "true")
    seen.append(picture_of(panel))
    panel.locator("[data-tool=smooth]").fill("0")
    expect(panel.locator("output").first).to_have_text("0.00")
    seen.append(picture_of(panel))
    assert len(set(seen)) == len(seen), "each tool changes what is drawn"
    unzoom = panel.locator("[data-tool=unzoom]")
    expect(unzoom).to_be_disabled()
    box = panel.locator(".u-over").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 40, steps=5)
    page.mouse.up()
    expect(unzoom).to_be_enabled()
    unzoom.click()
    expect(unzoom).to_be_disabled()
    assert watched.lines == []


def test_only_the_curves_in_sight_are_fetched(page: Page, sample: Sample) -> None:
    asked: set[str] = set()
    page.on("request", lambda one: asked.update(parse_qs(urlsplit(one.url).query).get("key", ())))
    page.goto(address_of(sample, "succeeded"))
    page.locator("#curves canvas").first.wait_for()
    assert asked
    assert not [key for key in asked if key.startswith("system/")]
    page.locator("#machine summary").first.click()
    page.locator("#machine canvas").first.wait_for()
    assert "system/disk_free_bytes" in asked
    expect(page.locator("#machine .key b").first).to_have_text(re.compile(r" (%|[KMGT]?i?B(/s)?)$"))


def test_all_points_are_downloaded_as_csv(page: Page, sample: Sample) -> None:
    page.goto(address_of(sample, "succeeded"))
    with page.expect_download() as download:
        page.locator("#curves a[download]").click()
    lines = download.value.path().read_text().splitlines()
    assert lines[0] == "key,attempt,step,time,value"
    assert len([line for line in lines if line.startswith("train/loss,1,")]) > 20


def test_runs_are_ticked_in_the_list_and_laid_side_by_side(watched: Watched, sample: Sample) -> None:
    page = watched.page
    page.goto("/jobs?group=none")
    button = page.get_by_role("button", name="Compare")
    expect(button).to_be_disabled()
    jobs = [sample.jobs[name] for name in ("qwen3-14b-sft-support", "sft-support-baseline")]
    for job in jobs:
        page.locator(f"#job-{job} input[name=job]").check()
    button.click()
    page.wait_for_url("**/compare?**")
    assert sorted(parse_qs(urlsplit(page.url).query)["job"]) == sorted(jobs)
    panel = page.locator("#compared")
    panel.locator("canvas").first.wait_for()
    expect(page.locator("#runs tr[data-run]")).to_have_count(2)
    before = picture_of(panel)
    page.locator("#runs tr[data-run]").first.hover()
    assert picture_of(panel) != before, "the others fade"
    page.mouse.move(5, 5)
    page.get_by_role("link", name="All settings").click()
    expect(page.locator(".settings")).to_contain_text("image")
    page.locator("details.more summary").click()
    page.locator("input[name=key][value='eval/loss']").check()
    page.get_by_role("button", name="Show the chosen ones").click()
    expect(page.locator("[data-curve='eval/loss'] canvas")).to_be_visible()
    expect(page.locator("[data-curve]")).to_have_count(2)
    page.get_by_role("link", name=re.compile("^Leave ")).first.click()
    expect(page.locator("#runs tr[data-run]")).to_have_count(1)
    assert watched.lines == []


def test_a_run_that_goes_on_grows_in_the_comparison(page: Page, sample: Sample) -> None:
    jobs = [sample.jobs[name] for name in ("qwen3-14b-sft-support", "sft-support-baseline")]
    page.goto("/compare?" + "&".join(f"job={job}" for job in jobs))
    panel = page.locator("#compared")
    panel.locator("canvas").first.wait_for()
    before = picture_of(panel)
    wait_for(lambda: picture_of(panel) != before, "new points in the comparison", SOON_MS / 1000)


_LONG = """
python3 - <<'PY'
import math, time
from starforge import report
report.init(hparams={})
step = 0
while True:
    step += 1
    report.log({"train/loss": math.sin(step / 3) + step / 10000, "train/grad_norm": 1 / step}, step=step)
    if step >= 12000:
        time.sleep(0.2)
PY
"""
SHOWN = """figure => {
  const {min, max} = figure.chart.scales.x, x = figure.chart.data[0];
  return {min, max, end: x.at(-1), points: x.filter(at => at >= min && at <= max).length};
}"""


@pytest.fixture(scope="module")
def long_run(sample: Sample) -> Iterator[str]:
    """A job with 12,000 points that reports more."""
    told = sample.console.get(f"/api/v1/jobs/{sample.jobs['sft-support-baseline']}", sample.token())
    experiment = make_experiment(sample.console, told["spec"]["spec"]["framework"]["image"], _LONG, "long-curve")
    job = experiment.submit(profile="any:1")
    path = f"/api/v1/jobs/{job}/metrics"
    wait_for(
        lambda: sample.console.get(path, experiment.token)["keys"].get("train/loss", 0) >= 12000, "long curve", 120
    )
    yield job
    sample.console.sf("job", "stop", job, "--grace", "1", cwd=experiment.project)
    experiment.wait_state(job, "STOPPED")


def zoom_into(page: Page, figure: Locator, left: float, right: float) -> None:
    box = figure.locator(".u-over").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * left, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * right, box["y"] + 40, steps=5)
    page.mouse.up()


def test_zooming_in_fetches_finer_points_and_goes_on_live(watched: Watched, long_run: str) -> None:
    page, asked = watched.page, list[dict[str, list[str]]]()
    page.on("request", lambda one: asked.append(parse_qs(urlsplit(one.url).query)) if "/curves?" in one.url else None)
    page.goto(f"/jobs/{long_run}")
    panel = page.locator("#curves")
    panel.locator("canvas").first.wait_for()
    figure = panel.locator("[data-curve]").first
    panel.locator("[data-tool=axis]").select_option("step")
    coarse = figure.evaluate(SHOWN)
    assert coarse["points"] < 1200
    assert not [one for one in asked if "from" in one], "nothing finer is asked for before"
    zoom_into(page, figure, 0.5, 0.55)
    wait_for(lambda: figure.evaluate(SHOWN)["points"] > 300, "finer points", SOON_MS / 1000)
    fine = figure.evaluate(SHOWN)
    assert fine["max"] - fine["min"] < 1000, "about a twentieth of the run"
    part = next(one for one in asked if "from" in one)
    assert int(part["from"][0]) == int(fine["min"])
    wait_for(lambda: figure.evaluate(SHOWN)["end"] > fine["end"], "new points behind it", SOON_MS / 1000)
    later = figure.evaluate(SHOWN)
    assert (later["min"], later["max"]) == (fine["min"], fine["max"]), "the zoom stays"
    assert later["points"] >= fine["points"]
    panel.locator("[data-tool=log]").click()
    kept = figure.evaluate(SHOWN)
    assert (kept["min"], kept["max"], kept["points"]) == (fine["min"], fine["max"], later["points"])
    panel.locator("[data-tool=axis]").select_option("relative")
    expect(panel.locator("[data-tool=unzoom]")).to_be_disabled()
    zoom_into(page, figure, 0.98, 0.995)
    expect(panel.locator("[data-tool=unzoom]")).to_be_enabled()
    figure.locator(".u-over").dblclick()
    expect(panel.locator("[data-tool=unzoom]")).to_be_disabled()
    wait_for(lambda: figure.evaluate("figure => figure.parts") is None, "the whole again", SOON_MS / 1000)
    whole = figure.evaluate(SHOWN)
    assert whole["max"] >= whole["end"] - 1
    assert watched.lines == []


def test_a_comparison_is_finer_where_it_is_zoomed_into(page: Page, sample: Sample, long_run: str) -> None:
    other = sample.jobs["sft-support-baseline"]
    page.goto(f"/compare?job={long_run}&job={other}&key=train/loss")
    panel = page.locator("#compared")
    panel.locator("canvas").first.wait_for()
    panel.locator("[data-tool=axis]").select_option("step")
    figure = panel.locator("[data-curve]").first
    before = figure.evaluate(SHOWN)["points"]
    with page.expect_request(lambda one: "from=" in one.url) as request:
        zoom_into(page, figure, 0.5, 0.52)
    assert parse_qs(urlsplit(request.value.url).query)["job"] == [long_run], "the other one has no more points"
    wait_for(lambda: figure.evaluate(SHOWN)["points"] > 150, "finer points", SOON_MS / 1000)
    panel.locator("[data-tool=unzoom]").click()
    expect(panel.locator("[data-tool=unzoom]")).to_be_disabled()
    wait_for(lambda: figure.evaluate("figure => figure.parts") is None, "the whole again", SOON_MS / 1000)
    assert abs(figure.evaluate(SHOWN)["points"] - before) < 100

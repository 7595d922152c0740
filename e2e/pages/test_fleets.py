"""The pages of fleets over real machines: they join, fill, drain, vanish and come back while somebody looks."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from e2e.support.browser import sign_in
from e2e.support.engines import PrivateEngine, find_obstacle, private_engine
from e2e.support.farm import FLEET, Farm, Machine, farm
from e2e.support.images import host_image
from e2e.support.projects import Experiment, make_experiment

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]  # the first test waits for the sample too

SOON_MS = 30_000
GONE_MS = 60_000
MARK = "window.mark = 'the same page'"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose parents the job's user can pass."""
    obstacle = find_obstacle()
    if obstacle is not None:
        pytest.skip(obstacle)
    made = tmp_path_factory.mktemp("fleets")
    for parent in (made, *made.parents[:3]):
        parent.chmod(parent.stat().st_mode | 0o055)
    return made


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[PrivateEngine]:
    with private_engine(folder / "engine") as machine:
        yield machine


@pytest.fixture(scope="module")
def fleet(folder: Path, engine: PrivateEngine) -> Iterator[Farm]:
    with farm(folder, [engine]) as made:
        yield made


@pytest.fixture(scope="module")
def probe(fleet: Farm, engine: PrivateEngine) -> Experiment:
    return make_experiment(fleet.console, host_image(engine), "sleep 300")


@pytest.fixture
def machine(fleet: Farm) -> Machine:
    fleet.wait_ready()
    return fleet.machines[0]


@pytest.fixture
def page(browser: Browser, fleet: Farm) -> Iterator[Page]:
    context = browser.new_context(base_url=fleet.console.url, locale="en-GB", viewport={"width": 1440, "height": 900})
    opened = context.new_page()
    sign_in(opened, fleet.token)
    yield opened
    context.close()


def same_page(page: Page) -> bool:
    return bool(page.evaluate("window.mark === 'the same page'"))


def open_fleet(page: Page, name: str = FLEET) -> None:
    page.goto(f"/fleets/{name}")
    page.evaluate(MARK)


def test_a_fleet_is_made_a_token_is_minted_and_the_machine_that_joins_with_it_appears_by_itself(
    page: Page, fleet: Farm, folder: Path
) -> None:
    page.goto("/fleets")
    page.get_by_role("link", name="New fleet").click()
    page.get_by_label("Name", exact=True).fill("late")
    page.get_by_role("button", name="Create fleet").click()
    expect(page.locator("#fleet-nodes")).to_contain_text("No machine has joined yet")
    page.get_by_role("button", name="New join token").click()
    line = page.locator("#join-line").inner_text()
    assert line.startswith(f"curl -fsSL {fleet.console.url}/install.sh | FORGE_FLEET=late FORGE_JOIN_TOKEN=sfj_")
    token = re.search(r"FORGE_JOIN_TOKEN=(\S+) sh$", line)
    assert token is not None
    page.evaluate(MARK)
    with private_engine(folder / "late-engine") as engine:
        late = Machine(engine, folder / "late-machine")
        late.join(fleet.console, token[1], "late")
        expect(page.locator(f"#node-{late.name} .tag")).to_contain_text("joining", timeout=SOON_MS)
        try:
            late.start()
            expect(page.locator(f"#node-{late.name} .hold.free")).to_have_count(8, timeout=SOON_MS)
            expect(page.locator(f"#node-{late.name} .tag")).to_have_count(0, timeout=SOON_MS)
            expect(page.locator("#fleet-capacity")).to_contain_text("free 8")
        finally:
            late.kill()
    assert same_page(page)


def test_the_map_follows_a_job_from_its_start_to_its_end_and_leads_to_it(
    page: Page, machine: Machine, probe: Experiment
) -> None:
    open_fleet(page)
    job = probe.submit("--fleet", FLEET, profile="h200:3")
    cell = page.locator(f"#node-{machine.name} a.hold")
    expect(cell).to_contain_text(f"{job} · ada", timeout=SOON_MS)
    assert cell.evaluate("cell => cell.className") == "hold held n3"
    expect(page.locator(f"#node-{machine.name} .hold.free")).to_have_count(5)
    assert same_page(page)
    cell.click()
    expect(page.locator("#job-id")).to_have_text(job)
    open_fleet(page)
    probe.console.sf("job", "stop", job, "--grace", "0", cwd=probe.project)
    expect(page.locator(f"#node-{machine.name} .hold.free")).to_have_count(8, timeout=SOON_MS)
    assert same_page(page)


def test_an_open_part_and_typed_text_stay_while_heartbeats_change_the_page(page: Page, machine: Machine) -> None:
    open_fleet(page)
    node = page.locator(f"#node-{machine.name}")
    node.locator("summary").click()
    page.locator("#join summary").first.click()
    page.get_by_label("Machines").fill("7")
    seen = node.locator(".meta time").get_attribute("datetime")
    expect(node.locator(".meta time")).not_to_have_attribute("datetime", str(seen), timeout=SOON_MS)
    expect(node.get_by_text("Called at")).to_be_visible()
    assert page.get_by_label("Machines").input_value() == "7"
    assert page.evaluate("document.activeElement.name") == "uses"
    assert same_page(page)


def test_a_machine_is_drained_with_a_reason_and_undrained(page: Page, machine: Machine, probe: Experiment) -> None:
    open_fleet(page)
    page.get_by_role("link", name=f"Drain: {machine.name}").first.click()
    page.get_by_label("Why").fill("new power supply")
    page.get_by_role("button", name="Drain").click()
    expect(page.locator(f"#node-{machine.name}")).to_contain_text("new power supply")
    job = probe.submit("--fleet", FLEET, profile="h200:1")
    page.goto(f"/jobs/{job}")
    expect(page.locator("#job-notice")).to_contain_text("draining", timeout=SOON_MS)
    open_fleet(page)
    page.get_by_role("link", name=f"Undrain: {machine.name}").first.click()
    page.get_by_role("button", name="Undrain").click()
    expect(page.locator(f"#node-{machine.name} a.hold")).to_contain_text(job, timeout=SOON_MS)
    probe.console.sf("job", "stop", job, "--grace", "0", cwd=probe.project)
    probe.wait_state(job, "STOPPED")


def test_a_silent_machine_is_marked_lost_by_its_typed_name_and_counts_again_once_it_is_back(
    page: Page, fleet: Farm, machine: Machine, probe: Experiment
) -> None:
    job = probe.submit("--fleet", FLEET, "--retries", "0", profile="h200:2")
    probe.wait_state(job, "RUNNING")
    open_fleet(page)
    node = page.locator(f"#node-{machine.name}")
    machine.kill()
    expect(node.locator(".tag")).to_contain_text(re.compile("away|unreachable"), timeout=GONE_MS)
    expect(node.locator("a.hold.blocked")).to_contain_text("the job keeps its state", timeout=GONE_MS)
    assert probe.state(job) == "RUNNING"
    node.get_by_role("link", name=f"Mark lost…: {machine.name}").first.click()
    expect(page.locator("main")).to_contain_text("Only when the machine is off")
    expect(page.locator("main .rows")).to_contain_text(job)
    page.locator("#confirm").fill("somebody else")
    page.locator("button.danger").click()
    expect(page.get_by_role("alert")).to_contain_text("was not marked lost")
    page.locator("#confirm").fill(machine.name)
    page.locator("button.danger").click()
    expect(page.locator(f"#node-{machine.name} .tag")).to_contain_text("lost")
    page.evaluate(MARK)
    machine.start()
    expect(page.locator(f"#node-{machine.name} .hold.free")).to_have_count(8, timeout=GONE_MS)
    expect(page.locator(f"#node-{machine.name} .tag")).to_have_count(0, timeout=GONE_MS)
    assert same_page(page)
    assert "node_lost" in probe.reasons(job)
    probe.console.sf("job", "stop", job, "--grace", "0", cwd=probe.project, may_fail=True)
    fleet.wait_ready()


def test_an_unknown_gpu_is_added_with_one_button_and_a_job_that_waits_for_its_series_starts(
    page: Page, fleet: Farm, machine: Machine, probe: Experiment
) -> None:
    machine.kill()
    machine.settings["FORGE_LOCAL_GPU_NAME"] = "NVIDIA Gizmo 9"
    try:
        machine.start()
        open_fleet(page)
        expect(page.locator("#fleet-unknown")).to_contain_text("NVIDIA Gizmo 9", timeout=GONE_MS)
        page.get_by_label("Series").fill("gizmo-9")
        page.get_by_role("button", name="Add to registry").click()
        expect(page.locator(f"#node-{machine.name} header")).to_contain_text("GIZMO-9 × 8")  # noqa: RUF001 - as it stands there
        expect(page.locator("#fleet-unknown")).to_be_hidden()
        fleet.wait_ready()
        job = probe.submit("--fleet", FLEET, profile="gizmo-9:1")
        probe.wait_state(job, "RUNNING")
        probe.console.sf("job", "stop", job, "--grace", "0", cwd=probe.project)
        probe.wait_state(job, "STOPPED")
    finally:
        machine.kill()
        del machine.settings["FORGE_LOCAL_GPU_NAME"]
        machine.start()
        fleet.wait_ready()
    page.goto("/fleets")
    page.get_by_role("button", name="Forget NVIDIA Gizmo 9").click()
    expect(page.locator("main")).to_contain_text("The name is forgotten")


def test_everything_of_a_fleet_is_reached_by_keyboard(page: Page, machine: Machine) -> None:
    open_fleet(page)
    reached: set[str] = set()
    for _ in range(30):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate("document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent")
        )
    assert f"Drain: {machine.name}" in reached
    assert f"Machine {machine.name}" in reached
    assert any(text.strip().startswith("Add a machine") for text in reached)


def test_fleets_work_without_scripts(browser: Browser, fleet: Farm, machine: Machine) -> None:
    context = browser.new_context(base_url=fleet.console.url, java_script_enabled=False, locale="en-GB")
    plain = context.new_page()
    sign_in(plain, fleet.token)
    plain.goto(f"/fleets/{FLEET}")
    expect(plain.locator(f"#node-{machine.name} .hold")).to_have_count(8)
    plain.locator("#join summary").first.click()
    plain.get_by_role("button", name="New join token").click()
    expect(plain.locator("#join-line")).to_contain_text("FORGE_JOIN_TOKEN=sfj_")
    number = plain.locator("#join table tbody tr").count()
    plain.get_by_role("button", name="Revoke join token").first.click()
    plain.locator("#join summary").first.click()
    expect(plain.locator("#join table tbody tr")).to_have_count(number - 1)
    context.close()


def test_a_page_and_the_api_say_the_same_of_a_machine(page: Page, fleet: Farm, machine: Machine) -> None:
    told = fleet.node(machine.name)
    open_fleet(page)
    page.locator(f"#node-{machine.name} summary").click()
    shown = page.locator(f"#node-{machine.name}").inner_text()
    for value in (told["hostname"], told["advertise"], told["version"], str(told["epoch"])):
        assert value in shown, json.dumps(told)

"""The overview and the queue: what needs attention with the next step, the same figures as the API, and live parts."""

import re

import pytest

from server.tests.pages.support import sign_in
from server.tests.web.lives import begin, go, run_to_end
from server.tests.web.support import ConsoleUnderTest, submit
from starforge.contract.executor import GpuState
from starforge.contract.fleets import FleetDetail, FleetSummary, GpuDetail, HolderView, NodeDetail
from starforge.contract.states import Reason
from starforge_console.ledger.stored import Store, note_stored
from starforge_console.web.i18n.words import CHINESE, ENGLISH
from starforge_console.web.pages.attention import list_concerns


def node(name: str, status: str = "ready", why: str = "", *gpus: GpuDetail) -> NodeDetail:
    return NodeDetail(name=name, fleet="lab", status=status, why=why, gpus=gpus)


def fleet(*nodes: NodeDetail) -> FleetDetail:
    names = tuple({gpu.name for one in nodes for gpu in one.gpus if gpu.series is None})
    return FleetDetail(fleet=FleetSummary(name="lab", kind="node", network="bridge"), nodes=nodes, unknown_gpus=names)


def gpu(index: int, state: str = "free", why: str = "", series: str | None = "h100") -> GpuDetail:
    return GpuDetail(uuid=f"GPU-{index}", index=index, name=f"GPU of {series}", series=series, state=state, why=why)


@pytest.mark.parametrize("status", ["lost", "away", "unreachable", "superseded", "unfit", "joining"])
def test_a_node_that_takes_no_jobs_against_anybodys_will_needs_attention(status: str) -> None:
    (concern,) = list_concerns([fleet(node("n1", status, "no answer"), node("n2"), node("n3", "draining"))], [])
    assert (concern.kind, concern.node, concern.status, concern.told) == ("node", "n1", status, "no answer")


def test_gpus_that_are_quarantined_or_unknown_and_containers_of_nobody_need_attention() -> None:
    sick = node("n1", "ready", "", gpu(0), gpu(5, GpuState.QUARANTINED, "uncorrected ECC"))
    odd = node("n2", "ready", "", gpu(0, series=None))
    held = node("n3").model_copy(update={"attempts": (HolderView(attempt="jx-1-a", phase="running"),)})
    concerns = list_concerns([fleet(sick, odd, held)], [])
    assert [(one.kind, one.node) for one in concerns] == [
        ("quarantined", "n1"),
        ("unknown_gpu", "n2"),
        ("strangers", "n3"),
    ]
    assert (concerns[0].name, concerns[0].told) == ("5", "uncorrected ECC")


def test_a_console_without_fleets_or_nodes_says_what_to_do_first() -> None:
    assert [one.kind for one in list_concerns([], [])] == ["no_fleet"]
    assert [one.kind for one in list_concerns([fleet()], [])] == ["no_node"]


@pytest.mark.parametrize("language", [ENGLISH, CHINESE])
def test_my_failed_run_needs_attention_for_three_days_and_nobody_elses_does(
    console: ConsoleUnderTest, language: str
) -> None:
    ann, bob = console.add_user("ann"), console.add_user("bob")
    mine, others = submit(console, ann), submit(console, bob)
    run_to_end(console, mine, Reason.EXITED_NONZERO)
    run_to_end(console, others, Reason.EXITED_NONZERO)
    again = go(console, begin(console, submit(console, ann)), Reason.EXITED_NONZERO, retry_at=1e12)
    client = sign_in(console, ann)
    client.cookies.set("starforge_language", language)
    attention = part_of(client.get("/overview").text, "overview-attention")
    assert f"/jobs/{mine}" in attention
    assert others not in attention
    assert again.id not in attention, "it is tried again by itself"
    console.clock.ahead_s += 4 * 86_400
    client = sign_in(console, ann)
    assert mine not in part_of(client.get("/overview").text, "overview-attention")


def test_the_figures_of_the_overview_are_those_of_the_api(console: ConsoleUnderTest) -> None:
    ann = console.add_user("ann")
    for _ in range(7):
        submit(console, ann)
    begin(console, submit(console, ann))
    page, api = sign_in(console, ann).get("/overview").text, console.client(ann)
    head = part_of(page, "overview-queue")
    queue = api.get("/api/v1/queue", params={"limit": 5}).json()
    assert re.findall(r'href="/jobs/(\w+)"', head) == [one["job"]["id"] for one in queue["items"]]
    assert f"All {queue['jobs']}<" in head
    capacity = part_of(page, "overview-capacity")
    for one in api.get("/api/v1/capacity").json()["items"]:
        total, row = sum(one["gpus"].values()), re.findall(r"<tr><td.*?</tr>", capacity, re.DOTALL)
        name = one["series"].upper() if one["series"] else "unknown"
        assert [name in line and f">{total}<" in line for line in row].count(True) == 1
    runs = re.findall(r'<tr id="run-(\w+)"', part_of(page, "overview-runs"))
    mine = [one["id"] for one in api.get("/api/v1/jobs", params={"user": "ann", "state": "ACTIVE"}).json()["items"]]
    assert runs == mine


def test_runs_that_are_active_come_before_those_that_ended(console: ConsoleUnderTest) -> None:
    ann = console.add_user("ann")
    waiting = submit(console, ann)
    for _ in range(9):
        run_to_end(console, submit(console, ann))
    runs = re.findall(r'<tr id="run-(\w+)"', sign_in(console, ann).get("/overview").text)
    assert (len(runs), runs[0]) == (8, waiting)


def test_my_queued_runs_tell_how_many_jobs_of_anybody_stand_before_them(console: ConsoleUnderTest) -> None:
    ann, bob = console.add_user("ann"), console.add_user("bob")
    first, second = submit(console, bob), submit(console, ann)
    page = sign_in(console, ann).get("/overview").text
    row = re.findall(rf'<tr id="run-{second}">.*?</tr>', page, re.DOTALL)[0]
    assert "<small>1 job before it</small>" in row
    row = re.findall(rf'<tr id="run-{first}">.*?</tr>', sign_in(console, bob).get("/overview").text, re.DOTALL)[0]
    assert "<small>First in the queue</small>" in row


def test_runs_that_have_just_ended_stay_in_sight_however_many_are_active(console: ConsoleUnderTest) -> None:
    ann = console.add_user("ann")
    ended = [submit(console, ann) for _ in range(3)]
    for job in ended:
        run_to_end(console, job)
    waiting = {submit(console, ann) for _ in range(9)}
    runs = re.findall(r'<tr id="run-(\w+)"', sign_in(console, ann).get("/overview").text)
    assert (len(runs), set(runs[:6]) <= waiting, set(runs[6:]) < set(ended)) == (8, True, True)


def test_a_queued_job_stands_in_the_queue_with_its_reason_and_a_hostile_name_as_text(console: ConsoleUnderTest) -> None:
    ann = console.add_user("ann")
    job = submit(console, ann)
    note = "node-1: <b>8 of 8</b> GPUs in use"
    console.ledger.write_now(lambda c: c.exec_driver_sql("UPDATE jobs SET note = ? WHERE id = ?", (note, job)))
    page = sign_in(console, ann).get("/queue").text
    row = re.findall(rf'<tr id="place-{job}">.*?</tr>', page, re.DOTALL)[0]
    assert "&lt;b&gt;8 of 8&lt;/b&gt; GPUs in use" in row
    assert "<b>8 of 8" not in page


def test_a_long_queue_is_read_in_pages(console: ConsoleUnderTest) -> None:
    ann = console.add_user("ann")
    for _ in range(53):
        submit(console, ann)
    client = sign_in(console, ann)
    first = client.get("/queue").text
    following = re.findall(r'href="(/queue\?after=\d+)"', first)
    assert following == ["/queue?after=50"]
    second = client.get(following[0]).text
    places = re.findall(r'<td class="num muted place">(\d+)</td>', first + second)
    assert places == [str(number) for number in range(1, 54)]


def test_an_empty_queue_and_a_series_that_nobody_waits_for_say_so(console: ConsoleUnderTest) -> None:
    client = sign_in(console, console.add_user("ann"))
    assert "No job waits" in client.get("/queue").text
    page = client.get("/queue", params={"series": "<i>"}).text
    assert "No job waits here." in page
    assert "<i>" not in page.lower()


def test_my_quotas_stand_beside_the_queue_and_on_my_account(console: ConsoleUnderTest) -> None:
    ann, root = console.add_user("ann"), console.client(console.add_user("root", "admin"))
    client = sign_in(console, ann)
    assert "Nothing limits what your jobs may hold and use." in client.get("/account").text
    root.put("/api/v1/admin/quotas/user/ann", json={"gpus": 4, "jobs": 1})
    job = submit(console, ann)
    begin(console, job)
    console.ledger.write_now(lambda c: note_stored(c, job, {(Store.LOG, 1): 3 << 20}))
    for path in ("/queue", "/account"):
        page = client.get(path).text
        assert '<span class="attention">1 / 1</span>' in page
        assert page.count("3.0\xa0MiB") == 4, "of the run, and of all together, each for wide and narrow screens"
        assert f'<tr class="item"><td class="who"><a href="/jobs/{job}">{job}</a><small>@ann</small>' in page


def part_of(page: str, element: str) -> str:
    found = re.search(rf'<section class="panel" id="{element}".*?</section>', page, re.DOTALL)
    assert found is not None, page
    return found[0]


@pytest.mark.parametrize(
    ("language", "runs", "waits"), [(ENGLISH, "running", "waiting"), (CHINESE, "运行中", "排队中")]
)
def test_the_side_bar_of_every_page_counts_what_runs_and_what_waits(
    console: ConsoleUnderTest, language: str, runs: str, waits: str
) -> None:
    ann = console.add_user("ann")
    begin(console, submit(console, ann))
    client = sign_in(console, ann)
    headers = {"accept-language": language}
    for number in (1, 2):
        submit(console, ann)
        for path in ("/overview", "/jobs", "/account", "/catalog"):
            page = client.get(path, headers=headers).text
            assert f'id="side-jobs">1<span class="sr"> {runs}</span></span>' in page
            assert f'id="side-queue">{number}<span class="sr"> {waits}</span></span>' in page
    empty = sign_in(console, ann).get("/jobs/none", headers=headers).text
    assert 'id="side-jobs"></span>' in empty, "where nothing could be counted, nothing is said"

"""The queue and the capacity over the API: the order of the scheduler, every GPU once, and what is asked for."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from sqlalchemy import update

from server.tests.web.lives import begin
from server.tests.web.support import ConsoleUnderTest, build_node, build_submission, submit
from server.tests.web.sweeping import build_sft
from starforge.contract.executor import FleetView, GpuState, GpuView
from starforge.contract.fleets import FleetDetail, FleetSummary, GpuDetail, NodeDetail
from starforge.contract.launch import PoolRequest
from starforge_console.domain.order import order_queue
from starforge_console.ledger.pools import write_pools
from starforge_console.ledger.queue import list_queued
from starforge_console.ledger.queue_order import QueuedShape, find_place, list_places
from starforge_console.ledger.tables import jobs
from starforge_console.web.queue import build_capacity


def submit_with(console: ConsoleUnderTest, headers: dict[str, str], priority: str) -> str:
    console.keep_workspace()
    answer = console.client(headers).post("/api/v1/jobs", json=build_submission(placement={"priority": priority}))
    assert answer.status_code == 201, answer.text
    return str(answer.json()["job"])


def test_the_queue_is_listed_in_the_order_in_which_the_scheduler_places_it(console: ConsoleUnderTest) -> None:
    ann = console.add_user("ann")
    for priority in ("low", "normal", "high", "normal", "low", "high"):
        submit_with(console, ann, priority)
    running = submit(console, ann)
    begin(console, running)
    placed = [job.id for job in order_queue(console.ledger.read_now(list_queued))]
    told = console.client(ann).get("/api/v1/queue").json()
    assert [one["job"]["id"] for one in told["items"]] == placed
    assert [one["place"] for one in told["items"]] == [1, 2, 3, 4, 5, 6]
    assert [one["priority"] for one in told["items"]] == [1, 1, 0, 0, -1, -1]
    assert (told["jobs"], told["next"]) == (6, None)
    assert console.ledger.read_now(lambda c: [find_place(c, job) for job in placed]) == [1, 2, 3, 4, 5, 6]
    assert console.ledger.read_now(lambda c: find_place(c, running)) is None


def test_the_queue_is_read_in_pages_that_lose_and_repeat_nothing(console: ConsoleUnderTest) -> None:
    ann = console.add_user("ann")
    for _ in range(5):
        submit(console, ann)
    api, seen = console.client(ann), list[int]()
    after: int | None = 0
    while after is not None:
        page = api.get("/api/v1/queue", params={"after": after, "limit": 2}).json()
        seen += [one["place"] for one in page["items"]]
        after = page["next"]
    assert seen == [1, 2, 3, 4, 5]


def test_a_job_keeps_its_place_in_the_whole_queue_when_one_series_alone_is_listed(console: ConsoleUnderTest) -> None:
    ann = console.add_user("ann")
    first, second = submit(console, ann), submit(console, ann)
    text = '[{"name": "train", "nodes": 2, "gpus_per_node": 4, "series": "l40s", "cpus": null, "memory_bytes": null}]'
    console.ledger.write_now(lambda c: c.execute(update(jobs).where(jobs.c.id == second).values(pools=text)))
    told = console.client(ann).get("/api/v1/queue", params={"series": "l40s"}).json()
    assert [(one["place"], one["job"]["id"]) for one in told["items"]] == [(2, second)]
    assert (told["jobs"], told["gpus"]) == (1, 8)
    assert console.client(ann).get("/api/v1/queue", params={"series": "h200"}).json()["items"] == []
    assert [place.job for place in console.ledger.read_now(lambda c: list_places(c, 10))] == [first, second]


def test_each_gpu_counts_once_and_what_is_free_on_a_node_that_takes_no_jobs_is_withheld() -> None:
    gpus = (gpu("a", "h100", "held"), gpu("b", "h100", "free"), gpu("c", None, "free"))
    ready = NodeDetail(name="n1", fleet="lab", status="ready", gpus=gpus)
    drains = NodeDetail(name="n2", fleet="lab", status="draining", gpus=(gpu("d", "h100", "free"),))
    fleet = FleetSummary(name="lab", kind="node", network="bridge")
    shapes = [shape("h100", 2, 8), shape("l40s", 1, 1), shape(None, 3, 2)]
    told = build_capacity([FleetDetail(fleet=fleet, nodes=(ready, drains))], shapes)
    assert [(one.series, one.gpus, one.waiting) for one in told.items] == [
        ("h100", {"free": 1, "held": 1, "withheld": 1}, 16),
        ("l40s", {}, 1),
        (None, {"free": 1}, 0),
    ]
    assert told.waiting_for_any == 6


def test_the_capacity_of_the_api_is_that_of_the_fleets(console: ConsoleUnderTest) -> None:
    api = console.client(console.add_user("ann"))
    told, fleets = api.get("/api/v1/capacity").json(), api.get("/api/v1/fleets").json()["items"]
    every = sum(sum(one["gpus"].values()) for one in fleets)
    assert sum(sum(one["gpus"].values()) for one in told["items"]) == every > 0


def gpu(uuid: str, series: str | None, state: str) -> GpuDetail:
    return GpuDetail(uuid=uuid, index=0, name="GPU", series=series, state=state)


def shape(series: str | None, jobs: int, gpus: int) -> QueuedShape:
    return QueuedShape(f"{series}", (PoolRequest(name="train", nodes=1, gpus_per_node=gpus, series=series),), jobs)


def test_an_administrator_moves_a_queued_job_and_nobody_else_does(console: ConsoleUnderTest) -> None:
    ann, root = console.add_user("ann"), console.add_user("root", "admin")
    first, second = submit(console, ann), submit(console, ann)
    api = console.client(root)
    place = f"/api/v1/admin/queue/{second}"
    refused = console.client(ann).put(place, json={"to": "first"})
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert api.put(place, json={"to": "first"}).status_code == 204
    told = [(one["job"]["id"], one["moved"]) for one in api.get("/api/v1/queue").json()["items"]]
    assert told == [(second, "first"), (first, None)]
    events = api.get(f"/api/v1/jobs/{second}").json()["events"]
    assert [one["note"] for one in events if one["kind"] == "timeline"] == ["put first in the queue by root"]
    assert api.put(place, json={"to": "last"}).status_code == 204
    assert [one["moved"] for one in api.get("/api/v1/queue").json()["items"]] == [None, "last"]
    assert api.put(place, json={"to": "release"}).status_code == 204
    assert [one["moved"] for one in api.get("/api/v1/queue").json()["items"]] == [None, None]


def test_a_move_of_what_is_not_queued_or_to_nowhere_is_refused(console: ConsoleUnderTest) -> None:
    root = console.add_user("root", "admin")
    running = submit(console, root)
    begin(console, running)
    api = console.client(root)
    refused = api.put(f"/api/v1/admin/queue/{running}", json={"to": "first"})
    assert (refused.status_code, refused.json()["title"]) == (409, f"job {running} is RUNNING")
    assert api.put("/api/v1/admin/queue/jnone", json={"to": "first"}).status_code == 404
    assert api.put(f"/api/v1/admin/queue/{running}", json={"to": "middle"}).status_code == 422


def test_a_job_that_waits_is_explained_over_the_api(console: ConsoleUnderTest) -> None:
    ann = console.add_user("ann")
    job, running = submit(console, ann), submit(console, ann)
    begin(console, running)
    text = write_pools(shape("h200", 1, 4).pools)
    console.ledger.write_now(lambda c: c.execute(update(jobs).where(jobs.c.id == job).values(pools=text)))
    api = console.client(ann)
    told = api.get(f"/api/v1/jobs/{job}/why").json()
    assert (told["state"], told["place"]) == ("QUEUED", 1)
    assert told["nodes"], told
    assert told["waits"], told
    assert api.get(f"/api/v1/jobs/{running}/why").json()["place"] is None
    assert api.get("/api/v1/jobs/jnone/why").status_code == 404


@pytest.mark.parametrize(("processes", "named"), [(3, ["3"]), (4, [])])
def test_of_fewer_gpus_only_those_are_named_with_which_the_method_takes_the_job(
    console: ConsoleUnderTest, processes: int, named: list[str]
) -> None:
    console.keep_workspace()
    states = [GpuState.FREE] * 3 + [GpuState.FOREIGN]
    console.fleets.views["local"] = FleetView(fleet="local", nodes=(replace(build_node(), gpus=build_gpus(states)),))
    api, parts = console.client(console.add_user("ann")), build_sft(nproc_per_node=processes)
    asked = build_submission(**parts, resources={"pools": [{"gpus_per_node": 4}]})
    job = api.post("/api/v1/jobs", json=asked).json()["job"]
    told = api.get(f"/api/v1/jobs/{job}/why").json()
    assert [one["value"] for one in told["starts_with"] if one["change"] == "gpus"] == named
    again = build_submission(**parts, resources={"pools": [{"gpus_per_node": 3}]})
    assert api.post("/api/v1/jobs", json=again).status_code == (201 if named else 422)


def build_gpus(states: Sequence[GpuState]) -> tuple[GpuView, ...]:
    return tuple(
        GpuView(uuid=str(index), index=index, name="H200", series="h200", memory_bytes=None, state=state)
        for index, state in enumerate(states)
    )

"""A fleet of three machines with different GPUs: joining, placing by series, many jobs at once, draining."""

import random
from collections.abc import Mapping, Sequence

import pytest

from e2e.support.console import wait_for
from e2e.support.farm import FLEET, Farm
from e2e.support.invariants import watching
from e2e.support.projects import Experiment, write_script
from e2e.support.work import UNTIL_TOLD, Work

pytestmark = pytest.mark.engine

NOVEL = "ACME Warp 9000"
"""A GPU that no registry knows."""
MANY = 60


@pytest.fixture(scope="module")
def machine_settings() -> Sequence[Mapping[str, str]]:
    names = ("NVIDIA H200", "NVIDIA L40S", NOVEL)
    return [{"FORGE_LOCAL_GPU_NAME": name} for name in names]


def test_a_job_runs_on_a_machine_that_joined_by_token(work: Work, fleet: Farm, probe: Experiment) -> None:
    write_script(probe, 'echo "with $NVIDIA_VISIBLE_DEVICES"')
    job = probe.submit("--fleet", FLEET, profile="h200:2")
    detail = probe.wait_end(job)
    assert detail["job"]["state"] == "SUCCEEDED", detail
    assert "GPU-" in probe.log(job)
    assert detail["attempts"][-1]["node"] == fleet.machines[0].name
    assert work.picture().jobs[job].state == "SUCCEEDED"


def test_a_pinned_job_runs_on_its_series_alone_and_a_new_name_counts_once_it_is_added(work: Work, fleet: Farm) -> None:
    h200, l40s, novel = fleet.machines
    pinned = work.submit(UNTIL_TOLD, 8, "l40s")
    work.wait_started(pinned)
    assert work.node_of(pinned) == l40s.name
    assert fleet.look()["unknown_gpus"] == [NOVEL]
    second = work.submit(UNTIL_TOLD, 8, "l40s")
    # Whoever asks for no series gets the machine that nobody can ask for yet, too.
    anybody = [work.submit(UNTIL_TOLD, 8) for _ in range(2)]
    for job in anybody:
        work.wait_started(job)
    assert {work.node_of(job) for job in anybody} == {h200.name, novel.name}
    for job in anybody:
        work.tell(job)
        assert work.wait_end(job)["job"]["state"] == "SUCCEEDED"
    refused = work.send("true", 1, "warp-9000")
    assert refused.status == 422, refused
    assert (work.probe.state(second), work.starts(second)) == ("QUEUED", [])
    assert l40s.name in work.note(second)

    added = work.api.send("POST", "/api/v1/gpu-series", {"name": NOVEL, "series": "warp-9000"})
    assert added.status == 201, added
    assert fleet.look()["unknown_gpus"] == []
    named = work.submit("true", 2, "warp-9000")
    assert work.wait_end(named)["job"]["state"] == "SUCCEEDED"
    assert work.node_of(named) == novel.name
    work.tell(pinned)
    work.wait_started(second)
    work.tell(second)
    assert work.wait_end(second)["job"]["state"] == "SUCCEEDED"


def test_sixty_jobs_share_three_machines_and_no_gpu_twice(work: Work, fleet: Farm) -> None:
    dice = random.Random(60)  # noqa: S311 - the same sizes in every run
    with watching(fleet) as watch:
        jobs = [work.submit("sleep 1\n", dice.randint(1, 8)) for _ in range(MANY)]
        for job in jobs:
            assert work.wait_end(job, 240)["job"]["state"] == "SUCCEEDED"
    assert watch.faults == []
    assert watch.samples > MANY
    assert watch.busiest > 8, "the machines were never used side by side"
    assert [len(work.starts(job)) for job in jobs] == [1] * MANY


def test_a_drained_machine_keeps_what_runs_and_counts_it_when_it_takes_jobs_again(work: Work, fleet: Farm) -> None:
    first = fleet.machines[0]
    staying = work.run_on(first, gpus=6)
    work.order(first.name, "drain", why="new fans")
    assert (fleet.node(first.name)["status"], fleet.node(first.name)["why"]) == ("draining", "new fans")
    pinned = work.submit("true", 1, "h200")
    work.wait_note(pinned, "draining")
    assert work.probe.state(staying) == "RUNNING"
    work.order(first.name, "undrain")
    assert work.wait_end(pinned)["job"]["state"] == "SUCCEEDED"
    too_large = work.submit("true", 3, "h200")
    work.wait_note(too_large, first.name)
    assert work.starts(too_large) == []
    work.tell(staying)
    wait_for(lambda: work.starts(too_large), "the room to be given on")
    assert work.wait_end(too_large)["job"]["state"] == "SUCCEEDED"

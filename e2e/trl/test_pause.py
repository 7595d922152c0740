"""A real fine-tuning is paused: its trainer saves, its GPUs are given back, and it goes on from what it saved."""

import pytest

from e2e.support.console import wait_for
from e2e.support.projects import Experiment
from e2e.trl.lab import JOB_S, Lab

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1200)]

STEPS = 600
SAVED_EVERY = 50


def newest(lab: Lab, job: str) -> int:
    """The step of its newest committed checkpoint."""
    return max(lab.checkpoints(job), default=0)


def trained(lab: Lab, job: str, number: int) -> list[int]:
    """The steps of which one attempt told the loss."""
    return [line["step"] for line in lab.metrics(job, number) if "loss" in line["values"]]


def ask(probe: Experiment, job: str, *words: str) -> None:
    probe.console.sf("job", *words, job, cwd=probe.project)


def test_a_paused_fine_tuning_saves_where_it_is_and_goes_on_from_there(lab: Lab) -> None:
    probe = lab.experiment("paused", "trl/sft")
    job = lab.train(probe, STEPS, *lab.data("sft"), save_steps=SAVED_EVERY)
    wait_for(lambda: newest(lab, job), f"a checkpoint of {job}", JOB_S)
    ask(probe, job, "pause")
    probe.wait_state(job, "PAUSED", limit_s=JOB_S)
    reached = trained(lab, job, 1)[-1]
    saved = newest(lab, job)
    assert SAVED_EVERY <= reached <= saved < STEPS, "all that it has done is in a checkpoint"

    ask(probe, job, "resume")
    detail = probe.wait_end(job, JOB_S)
    assert detail["job"]["state"] == "SUCCEEDED", lab.told(job)
    (started,) = lab.events(job, "started", 2)
    assert started["resumed_from"]["step"] == saved
    assert trained(lab, job, 2)[0] > saved
    steps = [step for step, _ in lab.curve(job, "loss")]
    assert steps == list(range(2, STEPS + 1, 2)), "the curve goes on where it stood, without a gap or a step twice"
    assert lab.checkpoints(job)[-1] == STEPS
    assert [one for one in probe.reasons(job) if one in {"pause_confirmed", "resumed"}] == [
        "pause_confirmed",
        "resumed",
    ]
    assert [one["reason"] for one in detail["attempts"]] == ["pause_confirmed", "exited_zero"]

"""Fine-tuning for real: curves, checkpoints, a machine that fails in the middle, and what starts from the result."""

from collections.abc import Mapping
from typing import Any

import pytest

from e2e.support.engines import PrivateEngine
from e2e.trl.lab import JOB_S, Lab, kill_container

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1200)]

STEPS = 400


@pytest.fixture(scope="module")
def killed(lab: Lab, machine: PrivateEngine) -> Mapping[str, Any]:
    """A training whose container was killed in the middle, at its end."""
    probe = lab.experiment("killed", "trl/sft")
    evaluated = {"eval_strategy": "steps", "eval_steps": 200}
    options = [*lab.data("sft"), "--retries", "1"]
    job = lab.train(probe, STEPS, *options, save_steps=50, save_total_limit=2, **evaluated)
    lab.wait_committed(job)
    kill_container(machine, job)
    detail: Mapping[str, Any] = probe.wait_end(job, JOB_S)
    assert detail["job"]["state"] == "SUCCEEDED", lab.told(job)
    return detail


def test_a_killed_training_goes_on_from_its_newest_checkpoint(lab: Lab, killed: Mapping[str, Any]) -> None:
    job = killed["job"]["id"]
    (started,) = lab.events(job, "started", 2)
    from_step = started["resumed_from"]["step"]
    resumed = [line["step"] for line in lab.metrics(job, 2) if "loss" in line["values"]]
    assert len(killed["attempts"]) == 2
    assert 50 <= from_step < STEPS
    assert resumed == list(range(from_step + 2, STEPS + 1, 2))


def test_its_curves_are_the_trainers_and_the_model_learns(lab: Lab, killed: Mapping[str, Any]) -> None:
    job = killed["job"]["id"]
    losses = dict(lab.curve(job, "loss"))
    assert {"loss", "grad_norm", "learning_rate", "mean_token_accuracy", "eval_loss"} <= lab.keys(job)
    assert losses[STEPS] < losses[2] / 2
    assert [step for step, _ in lab.curve(job, "eval_loss")][-1] == STEPS
    assert lab.checkpoints(job)[-1] == STEPS


def test_preferences_are_learned_from_where_the_fine_tuning_ended(lab: Lab, killed: Mapping[str, Any]) -> None:
    probe = lab.experiment_on("preferences", "trl/dpo")
    start = f"run/{killed['job']['id']}/checkpoint"
    job = lab.train(probe, 20, "--init-from", start, *lab.data("dpo"))
    detail = probe.wait_end(job, JOB_S)
    accuracies = dict(lab.curve(job, "rewards/accuracies"))
    assert detail["job"]["state"] == "SUCCEEDED", lab.told(job)
    assert (lab.checkpoints(job), accuracies[20]) == ([20], 1.0)
    assert f"/runs/{killed['job']['id']}/" in lab.settings(job)["model_name_or_path"]


def test_a_benchmark_of_the_result_gives_its_scores_as_metrics(lab: Lab, killed: Mapping[str, Any]) -> None:
    probe = lab.experiment_on("measured", "evalkit/benchmark")
    job = lab.submit(probe, "--init-from", f"run/{killed['job']['id']}/checkpoint")
    detail = probe.wait_end(job, JOB_S)
    assert detail["job"]["state"] == "SUCCEEDED", lab.told(job)
    scores = {key: lab.curve(job, key)[-1][1] for key in lab.keys(job)}
    assert any("capitals" in key and "acc" in key and 0.0 <= score <= 1.0 for key, score in scores.items()), scores

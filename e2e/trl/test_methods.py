"""Every other method of trl, as `sf new` makes it: it trains, draws its own curves and leaves a checkpoint."""

from collections.abc import Mapping

import pytest

from e2e.support.projects import Experiment
from e2e.trl.lab import JOB_S, Lab

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1200)]

GENERATION: dict[str, object] = {"num_generations": 4, "max_completion_length": 16}
REWARDED = {"reward", "kl", "rewards/contains_solution/mean"}
METHODS: dict[str, tuple[dict[str, object], set[str]]] = {
    "grpo": (
        GENERATION | {"beta": 0.04},
        {"reward", "kl", "rewards/contains_solution/mean", "completions/mean_length"},
    ),
    "rloo": (GENERATION, {"reward", "kl", "rewards/contains_solution/mean"}),
    "kto": ({}, {"rewards/chosen", "rewards/rejected", "logps/chosen"}),
    "reward": ({}, {"accuracy", "margin", "mean_reward"}),
}
STEPS = 6


@pytest.fixture(scope="module")
def jobs(lab: Lab) -> Mapping[str, tuple[Experiment, str]]:
    """A job of each method; the machine runs as many at once as it has room for."""
    made = {name: lab.experiment(f"first-{name}", f"trl/{name}") for name in METHODS}
    return {name: (probe, lab.train(probe, STEPS, **METHODS[name][0])) for name, probe in made.items()}


@pytest.mark.parametrize("method", METHODS)
def test_a_method_trains_on_its_own_first_experiment(
    lab: Lab, jobs: Mapping[str, tuple[Experiment, str]], method: str
) -> None:
    probe, job = jobs[method]
    detail = probe.wait_end(job, 3 * JOB_S)
    assert detail["job"]["state"] == "SUCCEEDED", lab.told(job)
    assert METHODS[method][1] | {"loss", "learning_rate"} <= lab.keys(job)
    assert [step for step, _ in lab.curve(job, "loss")] == [2, 4, 6]
    assert lab.checkpoints(job) == [STEPS]

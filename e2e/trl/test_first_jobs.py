"""The first job of every method of trl as `sf new` makes it, but for the model: it ends well and draws a curve."""

from collections.abc import Mapping

import pytest

from e2e.support.projects import Experiment
from e2e.trl.lab import JOB_S, Lab

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1200)]

METHODS = ("sft", "dpo", "kto", "reward", "grpo", "rloo")


@pytest.fixture(scope="module")
def jobs(lab: Lab) -> Mapping[str, tuple[Experiment, str]]:
    """A job of each method; the machine runs as many at once as it has room for."""
    made = {name: lab.experiment(f"plain-{name}", f"trl/{name}") for name in METHODS}
    model = ("--model", str(lab.material / "model"))
    return {name: (probe, lab.submit(probe, *model)) for name, probe in made.items()}


@pytest.mark.parametrize("method", METHODS)
def test_a_first_job_draws_a_curve_of_what_the_template_says(
    lab: Lab, jobs: Mapping[str, tuple[Experiment, str]], method: str
) -> None:
    probe, job = jobs[method]
    detail = probe.wait_end(job, 3 * JOB_S)
    assert detail["job"]["state"] == "SUCCEEDED", lab.told(job)
    steps = [step for step, _ in lab.curve(job, "loss")]
    assert len(steps) >= 8
    assert steps == list(range(1, len(steps) + 1))
    assert lab.checkpoints(job)[-1] == steps[-1]

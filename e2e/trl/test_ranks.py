"""Two processes of one training: they stop at one step with one whole checkpoint, from which others go on."""

import pytest

from e2e.support.console import wait_for
from e2e.trl.lab import JOB_S, Lab

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1200)]


def test_two_ranks_are_stopped_with_one_whole_checkpoint_and_go_on_from_it(lab: Lab) -> None:
    two = {"nproc_per_node": 2, "save_steps": 1_000_000}
    pair = lab.experiment("pair", "trl/sft")
    job = lab.train(pair, 1_000_000, *lab.data("sft"), "--set", "resources.cpus=2", **two)
    wait_for(lambda: "loss" in lab.keys(job) and len(lab.curve(job, "loss")) > 20, "both ranks to train", JOB_S)
    lab.console.sf("job", "stop", job, "--grace", "120", cwd=lab.project)
    detail = pair.wait_end(job, JOB_S)
    steps = lab.checkpoints(job)
    files = {path.name for path in lab.checkpoint_folder(job, 1).glob("checkpoint-*/*")}
    assert (detail["job"]["state"], len(steps)) == ("STOPPED", 1), lab.told(job)
    assert {"rng_state_0.pth", "rng_state_1.pth", "model.safetensors", "optimizer.pt", "trainer_state.json"} <= files

    on = lab.experiment_on("on", "trl/sft")
    again = lab.train(on, 10, *lab.data("sft"), "--init-from", f"run/{job}/checkpoint@step={steps[0]}", **two)
    assert on.wait_end(again, JOB_S)["job"]["state"] == "SUCCEEDED", lab.told(again)
    assert lab.curve(again, "loss")[0][1] < lab.curve(job, "loss")[0][1] / 2

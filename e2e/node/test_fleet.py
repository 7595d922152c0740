"""A fleet of three machines: joining, placing, draining."""

import pytest

from e2e.support.farm import FLEET, Farm
from e2e.support.projects import Experiment, write_script

pytestmark = pytest.mark.engine


def test_a_job_runs_on_a_machine_that_joined_by_token(fleet: Farm, probe: Experiment) -> None:
    write_script(probe, 'echo "on $FORGE_NODE with $NVIDIA_VISIBLE_DEVICES"')
    job = probe.submit("--fleet", FLEET, profile="h200:2")
    detail = probe.wait_end(job)
    assert detail["job"]["state"] == "SUCCEEDED", detail
    assert "GPU-" in probe.log(job)
    assert detail["attempts"][-1]["node"] in {machine.name for machine in fleet.machines}

"""A sweep with real commands, console and engine: every job gets its own values, and the end of all is one command."""

import json

import pytest

from e2e.support.console import ConsoleProcess
from e2e.support.projects import make_experiment

pytestmark = pytest.mark.engine


def test_each_run_of_a_sweep_reads_its_own_values_and_the_rest_are_stopped_together(
    console: ConsoleProcess, image: str
) -> None:
    probe = make_experiment(
        console, image, 'grep -o "lr.*" "$FORGE_SPEC"; case $(cat "$FORGE_SPEC") in *0.25*) sleep 600; esac'
    )
    words = ("sweep", probe.name, "--profile", "cpu", "-g", "lr=0.5,0.75,0.25", "--json")
    told = json.loads(console.sf(*words, cwd=probe.project).stdout)
    assert json.loads(console.sf(*words, cwd=probe.project).stdout)["sweep"] == told["sweep"]
    jobs = [one["job"] for one in told["jobs"]]
    for job, rate in zip(jobs[:2], ("0.5", "0.75"), strict=True):
        assert probe.wait_end(job)["job"]["state"] == "SUCCEEDED"
        assert rate in console.sf("job", "logs", job).stdout
    probe.wait_state(jobs[2], "RUNNING")
    stopped = json.loads(console.sf("sweep", "stop", told["sweep"], "--grace", "1", "--json").stdout)
    assert (stopped["asked"], stopped["ended"]) == (1, 2)
    probe.wait_state(jobs[2], "STOPPED")
    states = json.loads(console.sf("sweep", "show", told["sweep"], "--json").stdout)["sweep"]["states"]
    assert states == {"STOPPED": 1, "SUCCEEDED": 2}

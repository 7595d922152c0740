"""A user's own secrets, from `sf secret set` into a job's environment, and nowhere else."""

from pathlib import Path

import pytest

from e2e.support.console import ConsoleProcess, wait_for
from e2e.support.engines import PrivateEngine
from e2e.support.projects import make_experiment
from e2e.support.secret_job import TOKEN, begin_secret_job, find_values

pytestmark = pytest.mark.engine


def test_a_job_is_given_its_owners_secrets_and_they_are_seen_nowhere_else(
    console: ConsoleProcess, image: str, machine: PrivateEngine
) -> None:
    job = begin_secret_job(make_experiment(console, image, "exit 0"), machine)
    memory = Path(console.environment["FORGE_SECRETS_DIR"])
    assert job.list_faults() == []
    held = [file for file in find_values(console) if memory not in Path(file).parents]
    assert held == [], "only the files in memory hold a value"
    assert len(find_values(console)) == 2
    job.end(console.storage / "runs" / job.id / "out")
    wait_for(lambda: not find_values(console), "the files in memory to go")


def test_a_job_whose_secret_was_removed_while_it_waited_is_refused_by_name(console: ConsoleProcess, image: str) -> None:
    probe = make_experiment(console, image, "sleep 300")
    console.sf("secret", "set", "HF_TOKEN", typed=TOKEN)
    first = probe.submit(profile="any:2")
    probe.wait_state(first, "RUNNING")
    second = probe.submit("--secret", "HF_TOKEN", profile="any:1")
    console.sf("secret", "rm", "HF_TOKEN")
    console.sf("job", "stop", first, "--grace", "0")
    probe.wait_state(second, "FAILED")
    assert probe.reasons(second)[-1] == "launch_refused"
    note = probe.detail(second)["job"]["note"]
    assert "secret HF_TOKEN is not there any more" in note
    assert "sf secret set HF_TOKEN" in note


def test_a_secret_that_was_never_set_is_refused_at_once_and_no_value_is_taken_from_arguments(
    console: ConsoleProcess, image: str
) -> None:
    probe = make_experiment(console, image, "exit 0")
    said = probe.refused("--secret", "HF_TOKEN", "--secret", "WANDB_API_KEY")
    assert "sf secret set HF_TOKEN" in said
    assert "sf secret set WANDB_API_KEY" in said
    for arguments in (("secret", "set", f"HF_TOKEN={TOKEN}"), ("secret", "set", "HF_TOKEN", TOKEN)):
        done = console.sf(*arguments, typed="", may_fail=True)
        assert (done.returncode, TOKEN in done.stdout + done.stderr) == (2, False)
        assert "never taken from the command line" in done.stderr

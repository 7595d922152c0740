"""A job that fails says why: by real commands, on a real console and a real engine."""

import json

import pytest

from e2e.support.console import ConsoleProcess
from e2e.support.projects import make_experiment

pytestmark = pytest.mark.engine

PROGRAM = 'python3 -c \'print("begin"); open("/data/none.jsonl")\''


def test_a_failed_job_names_the_cause_and_its_line_everywhere(console: ConsoleProcess, image: str) -> None:
    probe = make_experiment(console, image, PROGRAM)
    job = probe.submit()
    assert probe.wait_end(job)["job"]["state"] == "FAILED"
    told = json.loads(console.sf("diagnose", job, "--json", cwd=probe.project).stdout)
    assert (told["category"], told["kind"]) == ("path_missing", "file_missing")
    log = console.sf("job", "logs", job, cwd=probe.project).stdout.splitlines()
    assert log[told["line"] - 1] == told["root_cause_line"]
    shown = console.sf("job", "show", job, cwd=probe.project).stdout
    assert "A file or folder that it reads is not there." in shown
    (line,) = json.loads(console.sf("job", "ls", "--json", cwd=probe.project).stdout)["items"]
    assert "A file or folder that it reads is not there." in line["note"]

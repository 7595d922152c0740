"""From a dirty tree to its job, and from the job back to the same spec: with real commands, console and engine."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from e2e.support.console import ConsoleProcess
from e2e.support.engines import PrivateEngine
from e2e.support.projects import Experiment, make_experiment
from starforge.contract.canonical import digest_bytes

pytestmark = pytest.mark.engine


def same_files(one: Path, other: Path) -> bool:
    """Whether the tracked and new files of a project and those of its clone have the same bytes."""
    left_out = {".git", ".starforge-clone.json"}
    found = [
        {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        for root in (one, other)
    ]
    first, second = (
        {path: content for path, content in files.items() if not left_out & set(path.parts)} for files in found
    )
    return first == second


def run_clone(probe: Experiment, job: str, folder: Path) -> dict[str, Any]:
    """Clone the job and submit it by the command that was printed; gives the answer."""
    printed = probe.console.sf("job", "clone", job, str(folder), cwd=probe.project).stdout
    words = shlex.split(printed)
    assert words[:4] == ["cd", str(folder), "&&", "sf"]
    answer: dict[str, Any] = json.loads(probe.console.sf(*words[4:], "--json", cwd=folder).stdout)
    return answer


def test_a_dirty_job_is_explained_run_again_and_cloned_to_the_same_spec(
    console: ConsoleProcess, image: str, machine: PrivateEngine, folder: Path
) -> None:
    probe = make_experiment(console, image, "cat extra.txt")
    (probe.folder / "extra.txt").write_text("not committed\n")
    job = probe.submit("--allow-dirty", "--set", "steps=7", "--note", "it's \N{BULLET} a note")
    detail = probe.wait_end(job)
    assert detail["job"]["state"] == "SUCCEEDED"
    ran = detail["attempts"][0]
    capsule = console.storage / "runs" / job / "capsules" / "1"
    assert ran["capsule_digest"] == digest_bytes((capsule / "SHA256SUMS").read_bytes())
    assert ran["runner_digest"] == digest_bytes((capsule / "runner.pex").read_bytes())
    assert ran["image_id"] == machine.engine.inspect_image(image)["Id"]
    shown = console.sf("job", "show", job, "--lineage", cwd=probe.project).stdout
    for digest in (ran["capsule_digest"], ran["runner_digest"], ran["image_id"], detail["spec_digest"]):
        assert digest in shown
    assert "+not committed\n" in console.sf("job", "show", job, "--diff", cwd=probe.project).stdout
    again = json.loads(console.sf("rerun", job, "--json", "--follow", cwd=probe.project).stdout)
    assert (again["outcome"]["state"], again["spec_digest"]) == ("SUCCEEDED", detail["spec_digest"])
    assert f"the spec of {job}, submitted again" in [event["note"] for event in probe.detail(again["job"])["events"]]
    cloned = run_clone(probe, job, folder / "cloned")
    assert (cloned["spec_digest"], cloned["uploaded"]) == (detail["spec_digest"], False)
    assert same_files(probe.project, folder / "cloned")
    assert probe.wait_end(cloned["job"])["lineage"] == detail["lineage"]

"""The main job, end to end: from `sf submit` to SUCCEEDED, and everything that comes back."""

import hashlib
import json
import re

import pytest

from e2e.support.console import ConsoleProcess, wait_for
from e2e.support.engines import PrivateEngine
from e2e.support.projects import git, make_experiment, write_script
from e2e.support.registry import stub_registry
from tools.host_image import Contents, find_or_build_tar

pytestmark = pytest.mark.engine

TRAIN = """
python3 - <<'PY'
import json, os, pathlib
from starforge import report
report.init(hparams={})
for step in range(1, 31):
    report.log({"loss": 1.0 / step}, step=step)
    print("step", step, flush=True)
folder = pathlib.Path(os.environ["FORGE_CKPT_DIR"], "step-30"); folder.mkdir()
(folder / "w.json").write_text("[1]")
report.commit_checkpoint(30, str(folder))
pathlib.Path(os.environ["FORGE_OUT_DIR"], "model.json").write_text(json.dumps({"w": 1}))
report.finish()
PY
"""
SURVIVOR = "setsid bash -c 'trap \"\" TERM; while :; do sleep 98765; done' >/dev/null 2>&1 &"


def test_a_fresh_experiment_trains_as_it_stands_and_everything_comes_back(console: ConsoleProcess, image: str) -> None:
    probe = make_experiment(console, image, TRAIN)
    followed = console.sf("submit", "probe", "--profile", "any:1", "--follow", cwd=probe.project)
    job = str(console.get("/api/v1/jobs", probe.token)["items"][0]["id"])
    detail = probe.wait_end(job)
    curve = console.get(f"/api/v1/jobs/{job}/metrics/loss?points=1000", probe.token)
    outputs = console.get(f"/api/v1/jobs/{job}/outputs", probe.token)
    assert "step 30" in followed.stdout
    assert probe.reasons(job) == ["admitted", "dequeued", "launched", "started", "exited_zero"]
    assert detail["log"]["received_bytes"] == detail["log"]["produced_bytes"] > 0
    assert (len(curve["values"]), curve["values"][0]) == (30, 1.0)
    assert [(one["step"], one["committed"]) for one in outputs["checkpoints"]] == [(30, True)]
    assert [one["path"] for one in outputs["artifacts"]] == ["model.json"]
    assert outputs["artifacts"][0]["sha256"].endswith(hashlib.sha256(b'{"w": 1}').hexdigest())


def test_what_sf_new_makes_runs_without_a_change(console: ConsoleProcess, image: str) -> None:
    console.sf("init", "fresh")
    project = console.projects / "fresh"
    console.sf("new", "first", "--image", image, cwd=project)
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "Add an experiment")
    done = console.sf("submit", "first", "--profile", "cpu", "--follow", cwd=project)
    assert "SUCCEEDED" in done.stdout + done.stderr


def test_a_job_that_ends_at_once_is_seen_to_have_run(console: ConsoleProcess, image: str) -> None:
    probe = make_experiment(console, image, "exit 0")
    job = probe.submit()
    assert probe.wait_end(job)["job"]["state"] == "SUCCEEDED"
    assert probe.reasons(job)[-2:] == ["started", "exited_zero"]


def test_a_script_that_fails_keeps_its_exit_code(console: ConsoleProcess, image: str) -> None:
    probe = make_experiment(console, image, "echo going down; exit 3")
    job = probe.submit()
    detail = probe.wait_end(job)
    assert detail["job"]["state"] == "FAILED"
    assert detail["attempts"][0]["exit_code"] == 3
    assert "going down" in probe.log(job)


def test_nothing_survives_the_stop_of_a_script_that_forks_away_and_ignores_term(
    console: ConsoleProcess, image: str, machine: PrivateEngine
) -> None:
    probe = make_experiment(console, image, f"trap '' TERM\n{SURVIVOR}\necho forked; while :; do sleep 98765; done")
    job = probe.submit()
    wait_for(lambda: "forked" in probe.log(job), "the script to fork")
    assert "98765" in _command_lines(machine)
    console.sf("job", "stop", job, "--grace", "1", cwd=probe.project)
    assert probe.wait_end(job)["job"]["state"] == "STOPPED"
    assert "98765" not in _command_lines(machine)


def test_a_queued_job_says_why_and_stops_at_once(console: ConsoleProcess, image: str) -> None:
    probe = make_experiment(console, image, "sleep 300")
    first = probe.submit(profile="any:2")
    probe.wait_state(first, "RUNNING")
    second = probe.submit(profile="any:1")
    wait_for(lambda: probe.detail(second)["job"]["note"], "the reason to be shown")
    assert "0 are free" in probe.detail(second)["job"]["note"] or "GPU" in probe.detail(second)["job"]["note"]
    console.sf("job", "stop", second, cwd=probe.project)
    assert probe.state(second) == "STOPPED"
    console.sf("job", "stop", first, "--grace", "0", cwd=probe.project)
    assert probe.wait_end(first)["job"]["state"] == "STOPPED"


def test_a_finished_job_can_be_deleted_with_everything_it_left(console: ConsoleProcess, image: str) -> None:
    probe = make_experiment(console, image, "echo done")
    job = probe.submit()
    probe.wait_end(job)
    wait_for(
        lambda: not console.sf("job", "delete", job, "--yes", cwd=probe.project, may_fail=True).returncode,
        "the deletion",
    )
    assert not (console.storage / "runs" / job).exists()
    assert [one["id"] for one in console.get("/api/v1/jobs", probe.token)["items"]] == []


def test_a_dirty_tree_is_refused_by_name_and_taken_when_allowed(console: ConsoleProcess, image: str) -> None:
    probe = make_experiment(console, image, "cat note.txt")
    (probe.folder / "note.txt").write_text("not committed\n")
    assert "note.txt" in probe.refused()
    job = probe.submit("--allow-dirty")
    assert probe.wait_end(job)["job"]["state"] == "SUCCEEDED"
    assert "not committed" in probe.log(job)


def test_a_wrong_token_is_refused(console: ConsoleProcess, image: str) -> None:
    probe = make_experiment(console, image, "exit 0")
    console.environment["SF_TOKEN"] = "sfp_" + "x" * 43
    said = probe.refused()
    del console.environment["SF_TOKEN"]
    assert "token" in said
    assert "x" * 43 not in said
    assert console.get("/api/v1/jobs", probe.token)["items"] == []


def test_an_experiment_without_train_sh_is_refused(console: ConsoleProcess, image: str) -> None:
    probe = make_experiment(console, image, "exit 0")
    (probe.folder / "train.sh").unlink()
    probe.commit()
    assert "train.sh" in probe.refused()


@pytest.mark.parametrize("repository", ["missing", "denied"])
def test_an_image_that_cannot_be_had_fails_with_the_registrys_words(
    console: ConsoleProcess, image: str, machine: PrivateEngine, repository: str
) -> None:
    probe = make_experiment(console, image, "exit 0")
    with stub_registry(machine.gateway, find_or_build_tar(Contents(python=False))) as registry:
        job = probe.submit("--image", registry.image(repository))
        detail = probe.wait_end(job)
    assert detail["job"]["state"] == "FAILED"
    assert probe.reasons(job)[-1] == "pull_denied"
    assert registry.image(repository) in detail["job"]["note"]


def test_an_image_is_pulled_with_its_progress_in_sight_and_the_job_runs(
    console: ConsoleProcess, image: str, machine: PrivateEngine
) -> None:
    probe = make_experiment(console, image, "echo pulled")
    with stub_registry(machine.gateway, find_or_build_tar()) as registry:
        job = probe.submit("--image", registry.image("slow"))
        wait_for(lambda: _pulled_bytes(probe.detail(job)["job"]["note"]), "the pull to show its bytes")
        assert probe.state(job) == "PENDING"
        registry.go_on.set()
        assert probe.wait_end(job)["job"]["state"] == "SUCCEEDED"


def test_what_a_job_writes_to_its_workspace_is_gone_with_the_attempt_and_the_next_is_fresh(
    console: ConsoleProcess, image: str
) -> None:
    probe = make_experiment(console, image, "test ! -e left.txt && touch left.txt")
    for _ in range(2):
        assert probe.wait_end(probe.submit())["job"]["state"] == "SUCCEEDED"


def test_no_secret_shows_in_what_the_engine_tells(console: ConsoleProcess, image: str, machine: PrivateEngine) -> None:
    probe = make_experiment(console, image, "ls /run/starforge; cat /proc/1/environ | tr '\\0' '\\n'; sleep 300")
    job = probe.submit()
    probe.wait_state(job, "RUNNING")
    wait_for(lambda: "FORGE_JOB" in probe.log(job), "the script to print")
    (container,) = machine.engine.list_containers(f"forge.job={job}")
    told = json.dumps(machine.engine.inspect(container["Id"])) + probe.log(job) + console.read_log()
    assert "sfa_" not in told
    console.sf("job", "stop", job, "--grace", "0", cwd=probe.project)
    probe.wait_end(job)


def test_two_submits_with_one_script_change_give_two_digests(console: ConsoleProcess, image: str) -> None:
    probe = make_experiment(console, image, "exit 0")
    first = probe.detail(probe.submit())["spec_digest"]
    write_script(probe, "true")
    assert probe.detail(probe.submit())["spec_digest"] != first


def _is_deleted(console: ConsoleProcess, job: str) -> bool:
    return console.sf("job", "delete", job, "--yes", may_fail=True).returncode == 0


def _pulled_bytes(note: str) -> list[str]:
    return re.findall(r"[0-9.]+ \w+ of [0-9.]+ \w+", note)


def _command_lines(machine: PrivateEngine) -> str:
    """The command lines of everything that lives in the machine, containers included."""
    return machine.run("sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '; true")

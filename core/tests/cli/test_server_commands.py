import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from core.tests.cli.conftest import Sf
from core.tests.client.server import TOKEN, ConsoleState, serve
from core.tests.workspace.trees import write_tree
from starforge.contract.api import RefusalView


def when_submitted(state: ConsoleState, act: Callable[[str], None]) -> threading.Thread:
    """Act on the first job in a thread, as soon as there is one."""

    def run() -> None:
        with state.changed:
            assert state.changed.wait_for(lambda: bool(state.jobs), timeout=30)
            (job,) = state.jobs
        act(job)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def begin(state: ConsoleState, job: str) -> None:
    state.start_attempt(job)
    state.append_log(job, b"step 1\n")


def play(state: ConsoleState, job: str, *, outcome: str = "SUCCEEDED") -> None:
    state.start_attempt(job)
    state.append_log(job, b"step 1\n")
    state.append_log(job, b"step 2\n")
    state.jobs[job].curves["loss"] = [1.0, 0.5, 0.25]
    state.move(job, outcome, "exited_zero" if outcome == "SUCCEEDED" else "exited_nonzero")
    state.append_log(job, b"", ended=True)


def test_signing_in_keeps_the_token_for_this_user_and_never_prints_it(
    sf: Sf, state: ConsoleState, tmp_path: Path
) -> None:
    with serve(state) as url:
        result = sf("login", "--server", url + "/", "--json", stdin=f"{TOKEN}\n")
        assert result.json["user"] == "ada"
        assert result.json["profiles"] == ["h200"]
        assert TOKEN not in result.out + result.err
        file = tmp_path / "config/credential.json"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        status = sf("status", "--json").json
        assert (status["server"], status["user"], status["jobs"]) == (url, "ada", {})
        assert sf("logout", "--json").json == {"server": url}
        assert sf("status").code == 1


def test_status_says_what_may_be_held_and_what_is(sf: Sf, state: ConsoleState) -> None:
    team: dict[str, object] = {"kind": "team", "name": "ml", "gpus": 8, "jobs": None, "series": ["h200", "l40s"]}
    own: dict[str, object] = {"kind": "user", "name": "ada", "gpus": None, "jobs": None, "series": None}
    later: dict[str, object] = {"gpu_hours": None, "gpu_seconds": 0, "runs": [], "other_runs": None}
    later |= {"storage_gib": None, "profiles": None, "stored_bytes": 0}
    quotas = [{**own, "held": {"gpus": 2, "jobs": 1}, **later}, {**team, "held": {"gpus": 6, "jobs": 3}, **later}]
    state.answers["GET /quotas"] = {"items": quotas}
    with serve(state) as url:
        sf("login", "--server", url, stdin=f"{TOKEN}\n")
        shown = sf("status").out
        assert "quota of team ml: 6 of 8 GPUs held, 3 jobs held, series h200, l40s allowed\n" in shown
        assert "user ada:" not in shown
        assert sf("status", "--json").json["quotas"] == quotas
        del state.answers["GET /quotas"]  # a console that does not know of it yet
        assert "quota" not in sf("status").out
        assert sf("status", "--json").json["quotas"] is None


def test_the_runs_that_add_up_to_a_quota_are_shown(sf: Sf, state: ConsoleState) -> None:
    runs = [
        {"job": "j-one", "user": "ada", "gpus": 2, "jobs": 1, "gpu_seconds": 5400, "unanswered": True}
        | {"stored_bytes": 3 << 30},
        {"job": "j-two", "user": "bob", "gpus": 0, "jobs": 0, "gpu_seconds": 1800, "unanswered": False}
        | {"stored_bytes": 1 << 29},
    ]
    rest = {"runs": 3, "gpus": 1, "jobs": 1, "gpu_seconds": 36, "stored_bytes": 0}
    team = {"kind": "team", "name": "ml", "gpus": 8, "jobs": None, "series": None, "gpu_hours": 12}
    team |= {"storage_gib": 3, "profiles": ["any", "cpu"]}
    used = {"held": {"gpus": 3, "jobs": 2}, "gpu_seconds": 7236, "stored_bytes": 7 << 29, "runs": runs}
    used |= {"other_runs": rest}
    state.answers["GET /quotas"] = {"items": [team | used]}
    with serve(state) as url:
        sf("login", "--server", url, stdin=f"{TOKEN}\n")
        shown = sf("quota").out
        assert sf("quota", "--json").json == {"items": [team | used]}
        del state.answers["GET /quotas"]  # a console that does not know of it yet
        assert sf("quota").code != 0
    first, _, *rows = shown.splitlines()
    assert first == (
        "team ml: 3 of 8 GPUs held, 2 jobs held, 2.01 of 12 GPU-hours of the last 24 hours used, "
        "3.5 GiB of 3 GiB stored, profiles any, cpu allowed"
    )
    assert [row.split() for row in rows] == [
        ["j-one", "ada", "2", "1", "1.50", "3.0", "GiB", "no"],
        ["j-two", "bob", "0", "0", "0.50", "512.0", "MiB"],
        ["3", "more", "1", "1", "0.01", "0", "B"],
        ["together", "3", "2", "2.01", "3.5", "GiB"],
    ]


def test_a_token_that_the_server_refuses_is_not_kept(sf: Sf, state: ConsoleState, tmp_path: Path) -> None:
    with serve(state) as url:
        result = sf("login", "--server", url, stdin=f"sfp_{'w' * 43}\n")
    assert (result.code, [seen.path for seen in state.seen]) == (1, ["/meta", "/whoami"])
    assert "www" not in result.err
    assert "starforge-console token create --user NAME" in result.err
    assert "sf login" not in result.err
    assert not (tmp_path / "config/credential.json").exists()


@pytest.mark.parametrize("stdin", ["", "\n", "two words\n", "tökén\n", "sfp_short\n", "http://x/signin/abc\n"])
def test_what_is_no_token_is_not_sent_and_the_way_to_one_is_named(sf: Sf, state: ConsoleState, stdin: str) -> None:
    with serve(state) as url:
        result = sf("login", "--server", url, stdin=stdin)
    assert result.code == 2
    assert "starforge-console token create --user NAME" in result.err
    assert "sf login" not in result.err
    assert not stdin.strip() or stdin.strip() not in result.err
    assert state.seen == []


@pytest.mark.usefixtures("server", "project")
def test_a_submission_carries_the_packed_project_and_the_spec(sf: Sf, state: ConsoleState) -> None:
    words = ["--set", "steps=7", "--image", "train:2", "--retries", "2", "--max-runtime", "60", "--priority", "high"]
    result = sf("submit", "first", "--profile", "h200:16", *words, "--note", "a try", "--json")
    assert result.code == 0, result.err
    (job,) = state.jobs.values()
    spec = job.request.spec
    assert result.json["job"] == job.view.id
    assert result.json["uploaded"] is True
    assert spec.spec.workspace.digest in state.blobs
    assert (spec.spec.framework.image, spec.metadata.note) == ("train:2", "a try")
    assert spec.spec.hyperparameters["steps"] == 7
    assert (spec.spec.lifecycle.retries, spec.spec.lifecycle.max_runtime_s) == (2, 60)
    assert [(pool.series, pool.nodes, pool.gpus_per_node) for pool in spec.spec.resources.pools] == [("h200", 2, 8)]
    assert spec.spec.provenance.commit
    assert sf("submit", "first", "--profile", "cpu", "--json").json["uploaded"] is False


@pytest.mark.usefixtures("server", "project")
def test_two_submissions_have_two_keys_and_a_lost_answer_has_one(sf: Sf, state: ConsoleState) -> None:
    sf("submit", "first", "--profile", "cpu")
    state.failures = [("/jobs", 0, {})]
    assert sf("submit", "first", "--profile", "cpu").code == 0
    keys = [seen.headers["idempotency-key"] for seen in state.seen if (seen.method, seen.path) == ("POST", "/jobs")]
    assert len(keys) == 3
    assert keys[1] == keys[2] != keys[0]
    assert len(state.jobs) == 2


@pytest.mark.usefixtures("server", "project")
def test_piped_the_answer_is_the_jobs_id_alone(sf: Sf, state: ConsoleState) -> None:
    assert sf("submit", "first", "--profile", "cpu").out.split() == list(state.jobs)


@pytest.mark.usefixtures("server")
def test_a_dirty_tree_is_refused_and_sent_as_it_is_when_that_is_allowed(
    sf: Sf, state: ConsoleState, project: Path
) -> None:
    write_tree(project, {"common/new.py": "x"})
    result = sf("submit", "first", "--profile", "cpu")
    assert (result.code, state.jobs, state.blobs) == (2, {}, {})
    assert "common/new.py" in result.err
    assert sf("submit", "first", "--profile", "cpu", "--allow-dirty").code == 0
    (job,) = state.jobs.values()
    assert (job.request.allow_dirty, job.request.spec.spec.provenance.dirty_files) == (True, ("common/new.py",))


@pytest.mark.usefixtures("server")
def test_an_sf_that_the_console_no_longer_serves_is_told_how_to_upgrade(
    sf: Sf, state: ConsoleState, server: str
) -> None:
    state.min_client = "99.1"
    for result in (sf("login", "--server", server, "--json", stdin=f"{TOKEN}\n"), sf("status", "--json")):
        assert result.code == 1
        assert result.json["error"]["code"] == "client_too_old"
        assert "install starforge-core 99.1 or newer" in result.err


def test_no_token_goes_to_a_console_that_no_longer_serves_this_sf(sf: Sf, state: ConsoleState) -> None:
    state.min_client = "99.1"
    with serve(state) as url:
        assert sf("login", "--server", url, stdin=f"{TOKEN}\n").code == 1
    assert [(seen.path, "authorization" in seen.headers) for seen in state.seen] == [("/meta", False)]


@pytest.mark.usefixtures("server")
def test_a_dry_run_says_everything_and_keeps_nothing(sf: Sf, state: ConsoleState, project: Path) -> None:
    write_tree(project, {"common/new.py": "x"})
    state.refusals = (RefusalView(code="dirty", what="the tree is dirty", gate="provenance"),)
    result = sf("submit", "first", "--profile", "cpu", "--dry-run", "--json")
    assert result.code == 1
    assert result.json["admission"]["refusals"][0]["code"] == "dirty"
    assert result.json["spec"]["metadata"]["name"] == "first"
    assert "common/new.py" in {file["path"] for file in result.json["workspace"]["files"]}
    assert (state.jobs, state.blobs) == ({}, {})
    assert {seen.method for seen in state.seen if seen.path != "/admission"} == {"GET"}


@pytest.mark.usefixtures("server", "project")
def test_a_dry_run_notes_whether_the_workspace_would_be_uploaded(sf: Sf, state: ConsoleState) -> None:
    before = sf("submit", "first", "--profile", "cpu", "--dry-run")
    assert (before.code, state.blobs) == (0, {})
    assert re.search(r"workspace: would be uploaded: \d+ files, [\d.]+ KiB", before.out)
    assert sf("submit", "first", "--profile", "cpu", "--dry-run", "--json").json["would_upload"] is True
    assert sf("submit", "first", "--profile", "cpu").code == 0
    assert "would be uploaded" not in sf("submit", "first", "--profile", "cpu", "--dry-run").out
    assert sf("submit", "first", "--profile", "cpu", "--dry-run", "--json").json["would_upload"] is False


@pytest.mark.usefixtures("project")
def test_a_dry_run_is_of_use_without_a_server(sf: Sf) -> None:
    result = sf("submit", "first", "--profile", "cpu", "--dry-run", "--json")
    assert (result.code, result.json["admission"], result.json["would_upload"]) == (0, None, None)
    assert "no gate was asked" in result.err


@pytest.mark.usefixtures("server", "project")
def test_every_refusal_is_shown_with_what_to_do(sf: Sf, state: ConsoleState) -> None:
    refusal = RefusalView(code="image_unknown", what="image x is not allowed", next_step="ask for y", gate="image")
    state.refusals = (refusal, RefusalView(code="quota", what="too many GPUs", gate="quota"))
    result = sf("submit", "first", "--profile", "cpu", "--json")
    assert result.code == 1
    assert "image x is not allowed. ask for y" in result.err
    assert [item["code"] for item in result.json["error"]["refusals"]] == ["image_unknown", "quota"]


@pytest.mark.usefixtures("server")
def test_faults_of_the_experiment_stop_a_submission_before_anything_is_sent(
    sf: Sf, state: ConsoleState, project: Path
) -> None:
    state.seen.clear()
    write_tree(project, {"experiments/first/config.yaml": "imag: x\nnote: 7\n"})
    result = sf("submit", "first", "--profile", "cpu", "--allow-dirty")
    assert result.code == 2
    assert "config.yaml:1:1" in result.err
    assert "config.yaml:2:7" in result.err
    assert state.seen == []


@pytest.mark.parametrize(("outcome", "code"), [("SUCCEEDED", 0), ("FAILED", 1), ("STOPPED", 1)])
@pytest.mark.usefixtures("server", "project")
def test_following_shows_the_log_on_stdout_and_ends_with_the_jobs_outcome(
    sf: Sf, state: ConsoleState, outcome: str, code: int
) -> None:
    player = when_submitted(state, lambda job: play(state, job, outcome=outcome))
    result = sf("submit", "first", "--profile", "cpu", "--follow")
    player.join()
    assert (result.code, result.out) == (code, "step 1\nstep 2\n")
    assert [word in result.err for word in ("QUEUED", "RUNNING", outcome)] == [True] * 3


@pytest.mark.usefixtures("server", "project")
def test_following_with_json_prints_one_document_at_the_end(sf: Sf, state: ConsoleState) -> None:
    player = when_submitted(state, lambda job: play(state, job))
    answer = sf("submit", "first", "--profile", "cpu", "--follow", "--json").json
    player.join()
    assert answer["outcome"]["state"] == "SUCCEEDED"
    assert answer["job"] in state.jobs


def start_sf(project: Path, *words: str) -> subprocess.Popen[str]:
    # A shell's background job, which these tests may be, hands down an interrupt that is ignored.
    heed = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    argv = [sys.executable, "-c", f"{heed}from starforge.cli.main import main; main(sys.argv[1:])", *words]
    return subprocess.Popen(argv, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.usefixtures("server")
def test_an_interrupt_leaves_the_job_running_and_says_so(state: ConsoleState, project: Path) -> None:
    process = start_sf(project, "submit", "first", "--profile", "cpu", "--follow")
    try:
        when_submitted(state, lambda job: begin(state, job)).join()
        assert process.stdout is not None
        assert process.stdout.readline() == "step 1\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    (job,) = state.jobs
    assert process.returncode == 130
    assert f"{job} goes on" in err
    assert f"sf job stop {job}" in err
    assert {seen.method for seen in state.seen if seen.path.startswith(f"/jobs/{job}")} == {"GET"}


def read_lines(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline() for _ in range(count)]


def test_logs_in_another_process_survive_a_restart_of_the_console(sf: Sf, state: ConsoleState, project: Path) -> None:
    with ExitStack() as first_life:
        url = first_life.enter_context(serve(state))
        sf("login", "--server", url, stdin=TOKEN + "\n")
        job = sf("submit", "first", "--profile", "cpu").out.strip()
        state.start_attempt(job)
        state.append_log(job, b"before\n")
        process = start_sf(project, "job", "logs", "-f", job)
        try:
            assert read_lines(process, 1) == ["before\n"]
            first_life.close()
            state.append_log(job, b"meanwhile\n")
            with serve(state, int(url.rpartition(":")[2])):
                assert read_lines(process, 1) == ["meanwhile\n"]
                state.append_log(job, b"after\n")
                state.move(job, "SUCCEEDED", "exited_zero")
                state.append_log(job, b"", ended=True)
                out, err = process.communicate(timeout=30)
        finally:
            process.kill()
            process.wait()
    assert (process.returncode, out) == (0, "after\n")
    assert err.count("trying again") == 1


@pytest.fixture
def ended_job(sf: Sf, server: str, state: ConsoleState, project: Path) -> str:
    assert server.startswith("http")
    assert project.is_dir()
    job = sf("submit", "first", "--profile", "cpu").out.strip()
    play(state, job)
    return job


def test_a_job_that_goes_on_by_itself_says_when(sf: Sf, state: ConsoleState, ended_job: str) -> None:
    state.move(ended_job, "STOPPED", "window_closed", retry_at=1_783_404_000.0)
    assert "STOPPED (window_closed) (goes on 2026-07-0" in sf("job", "show", ended_job).out
    state.move(ended_job, "FAILED", "node_lost", retry_at=1_783_404_000.0)
    assert "FAILED (node_lost) (to be retried)" in sf("job", "show", ended_job).out


def test_jobs_are_listed_and_shown(sf: Sf, ended_job: str) -> None:
    (item,) = sf("job", "ls", "--json").json["items"]
    assert (item["id"], item["state"]) == (ended_job, "SUCCEEDED")
    assert ended_job in sf("job", "ls").out
    shown = sf("job", "show", ended_job).out
    assert "model.json" in shown
    assert "loss (3 points)" in shown
    assert re.search(
        r"admitted    [-0-9: ]+\n  record      sha256:[0-9a-f]{12}\n  spec        sha256:[0-9a-f]{12}\n", shown
    )
    assert "  - account   passed\n" in shown
    answer = sf("job", "show", ended_job, "--json").json
    assert (answer["metrics"], answer["outputs"]["artifacts"][0]["path"]) == ({"loss": 3}, "model.json")
    assert answer["spec"]["apiVersion"] == "forge/v2"


def test_the_line_that_a_run_was_submitted_with_is_shown(
    sf: Sf, server: str, state: ConsoleState, project: Path
) -> None:
    assert server.startswith("http")
    assert project.is_dir()
    job = sf("submit", "first", "--profile", "cpu", "--note", "a higher rate").out.strip()
    play(state, job)
    assert "\n  about       a higher rate\n" in sf("job", "show", job).out
    assert "  about " not in sf("job", "show", sf("submit", "first", "--profile", "cpu").out.strip()).out


def test_the_metric_that_runs_are_compared_by_is_drawn_and_any_other_on_demand(
    sf: Sf, state: ConsoleState, ended_job: str
) -> None:
    state.jobs[ended_job].curves = {"loss": [3.0, 2.0], "score": [0.5], "train_loss": [2.5]}
    assert "loss (2 points)" in sf("job", "show", ended_job).out
    state.primary = "score"
    assert "score is 0.5 at step 1, reported once\n" in sf("job", "show", ended_job).out
    drawn = sf("job", "show", ended_job, "--metric", "loss").out
    assert drawn.startswith("loss (2 points)")
    assert sf("job", "show", ended_job, "--metric", "loss", "--json").json["values"] == [3.0, 2.0]
    unknown = sf("job", "show", ended_job, "--metric", "los")
    assert (unknown.code, unknown.out) == (1, "")
    assert "did you mean 'loss'?" in unknown.err


def test_a_checkpoint_is_shown_with_its_place_and_how_to_start_from_it(
    sf: Sf, state: ConsoleState, ended_job: str
) -> None:
    kept = {"attempt": 1, "step": 7, "path": "ckpt/step-7", "committed": True, "storage_path": "/storage/ckpt/step-7"}
    state.answers[f"GET /jobs/{ended_job}/outputs"] = {"artifacts": [], "checkpoints": [kept]}
    shown = sf("job", "show", ended_job).out
    assert f"committed; to start from it: --init-from run/{ended_job}/checkpoint@step=7\n" in shown
    assert "  /storage/ckpt/step-7\n" in shown
    assert "artifact    none: what the job trained is its newest checkpoint" in shown


def test_outputs_from_before_and_after_a_lost_attempt_are_told_apart(
    sf: Sf, state: ConsoleState, ended_job: str
) -> None:
    artifacts = [{"path": "a", "bytes": 1}, {"path": "a", "bytes": 2, "folder": "out-2"}]
    state.answers[f"GET /jobs/{ended_job}/outputs"] = {"artifacts": artifacts, "checkpoints": []}
    shown = sf("job", "show", ended_job).out
    assert "  artifact    a (1 B)\n  artifact    out-2/a (2 B)\n" in shown
    assert "out-2 is apart since the attempt before it was lost with its machine\n" in shown


HOSTILE = "\x1b]0;owned\x07\x1b[2K\r\u202egpj"


def test_what_a_job_made_of_its_notes_and_paths_does_nothing_to_a_terminal(
    sf: Sf, state: ConsoleState, ended_job: str
) -> None:
    state.move(ended_job, "FAILED", "exited_nonzero", note=f"one\n{HOSTILE}")
    artifact = {"path": f"a\nFORGED {HOSTILE}", "bytes": 1, "sha256": None}
    state.answers[f"GET /jobs/{ended_job}/outputs"] = {"artifacts": [artifact], "checkpoints": []}
    shown = [sf("job", "show", ended_job), sf("job", "ls"), sf("job", "logs", "-f", ended_job)]
    for result in shown:
        assert "owned" in result.out + result.err
        assert not set(result.out + result.err) & set("\x1b\x07\r\u202e"), result
    assert "a\u240aFORGED" in shown[0].out
    assert sf("job", "show", ended_job, "--json").json["outputs"]["artifacts"][0]["path"] == artifact["path"]


def test_the_words_of_a_refusal_do_nothing_to_a_terminal(sf: Sf, server: str) -> None:
    assert server
    result = sf("job", "show", f"j{HOSTILE}")
    assert result.code == 1
    assert not set(result.err) & set("\x1b\x07\r\u202e")


def test_a_log_is_printed_whole_or_from_an_offset(sf: Sf, state: ConsoleState, ended_job: str) -> None:
    state.log_piece = 4
    assert sf("job", "logs", ended_job).out == "step 1\nstep 2\n"
    assert sf("job", "logs", ended_job, "--offset", "7").out == "step 2\n"
    answer = sf("job", "logs", ended_job, "--json").json
    assert (answer["text"], answer["received_to"], answer["ended"]) == ("step 1\nstep 2\n", 14, True)


def test_escape_sequences_of_a_job_do_not_reach_the_reader(sf: Sf, state: ConsoleState, ended_job: str) -> None:
    state.append_log(ended_job, b"\x1b]0;owned\x07\x1b[2J\x1b[31mred\xff\n")
    assert sf("job", "logs", ended_job, "--offset", "14").out == "red\ufffd\n"


def test_raw_bytes_come_as_they_are(project: Path, state: ConsoleState, ended_job: str) -> None:
    state.append_log(ended_job, b"\x1b[2J\xff\x00")
    argv = [sys.executable, "-m", "starforge.cli.main", "job", "logs", "--raw", ended_job, "--offset", "14"]
    done = subprocess.run(argv, cwd=project, capture_output=True, check=True, env={**os.environ})
    assert done.stdout == b"\x1b[2J\xff\x00"


@pytest.mark.usefixtures("server", "project")
def test_a_job_that_runs_is_stopped_and_the_way_to_watch_its_end_is_named(sf: Sf, state: ConsoleState) -> None:
    job = sf("submit", "first", "--profile", "cpu").out.strip()
    assert sf("job", "stop", job, "--grace", "5", "--note", "enough", "--json").json["job"]["desired"] == "stop"
    assert json.loads(state.seen[-2].body) == {"grace_s": 5.0, "note": "enough"}
    assert sf("job", "stop", job).out == f"stopping {job}, which is QUEUED; follow with: sf job logs -f {job}\n"


def test_a_job_that_has_ended_is_not_asked_to_stop(sf: Sf, state: ConsoleState, ended_job: str) -> None:
    result = sf("job", "stop", ended_job)
    assert (result.code, result.err) == (0, "")
    assert f"{ended_job} ended already" in result.out
    assert "SUCCEEDED (exited_zero)" in result.out
    assert sf("job", "stop", ended_job, "--json").json["job"]["state"] == "SUCCEEDED"
    assert [seen for seen in state.seen if seen.path.endswith("/stop")] == []


@pytest.mark.parametrize("more", [[], ["--json"]], ids=str)
def test_where_nobody_can_be_asked_deleting_wants_yes(
    sf: Sf, state: ConsoleState, ended_job: str, more: list[str]
) -> None:
    result = sf("job", "delete", ended_job, *more, stdin="y\n")
    assert (result.code, ended_job in state.jobs) == (2, True)
    assert f"sf job delete {ended_job} --yes" in result.err
    assert "interrupted" not in result.err
    assert not more or result.json["error"]["code"] == "input_invalid"


def test_a_job_is_deleted(sf: Sf, state: ConsoleState, ended_job: str) -> None:
    assert ended_job in state.jobs
    assert sf("job", "delete", ended_job, "--yes", "--json").json == {"job": ended_job, "deleted": True}
    result = sf("job", "show", ended_job)
    assert (result.code, ended_job in result.err) == (1, True)


@pytest.mark.usefixtures("project")
def test_without_a_session_the_way_in_is_named_before_anything_is_packed(sf: Sf) -> None:
    result = sf("submit", "first", "--profile", "cpu")
    assert result.code == 1
    assert "sf login --server URL" in result.err


@pytest.mark.usefixtures("server", "project")
def test_a_profile_that_the_last_sign_in_did_not_know_is_asked_for(sf: Sf, state: ConsoleState) -> None:
    state.profiles.append({**state.profiles[0], "name": "gb200", "series": "gb200"})
    result = sf("submit", "first", "--profile", "gb200:1", "--dry-run", "--json")
    assert result.json["spec"]["spec"]["resources"]["pools"][0]["series"] == "gb200"


@pytest.mark.usefixtures("server", "project")
def test_a_profile_that_nobody_knows_is_named_with_the_nearest(sf: Sf) -> None:
    result = sf("submit", "first", "--profile", "h20", "--dry-run")
    assert result.code == 2
    assert "there is no profile 'h20'" in result.err
    assert "h200" in result.err


@pytest.mark.usefixtures("server", "project")
def test_a_job_is_paused_goes_on_and_is_retried(sf: Sf, state: ConsoleState) -> None:
    job = sf("submit", "first", "--profile", "cpu").out.strip()
    paused = sf("job", "pause", job, "--grace", "5", "--note", "until noon")
    assert paused.out == f"pausing {job}, which is QUEUED; follow with: sf job logs -f {job}\n"
    assert json.loads(state.seen[-1].body) == {"grace_s": 5.0, "note": "until noon"}
    assert sf("job", "resume", job).out == f"{job} is QUEUED; follow with: sf job logs -f {job}\n"
    assert sf("job", "retry", job, "--json").json["job"]["reason"] == "retried_by_user"


@pytest.mark.usefixtures("server", "project")
@pytest.mark.parametrize("more", [[], ["--json"]], ids=str)
def test_where_nobody_can_be_asked_a_pause_that_loses_work_wants_yes(
    sf: Sf, state: ConsoleState, more: list[str]
) -> None:
    job = sf("submit", "first", "--profile", "cpu").out.strip()
    state.at_risk.add(job)
    refused = sf("job", "pause", job, *more, stdin="y\n")
    assert refused.code == 1
    assert "12 min would be lost" in refused.err
    assert state.jobs[job].view.desired == "run"
    assert not more or refused.json["error"]["code"] == "progress_at_risk"
    assert sf("job", "pause", job, *more, "--yes").code == 0
    assert state.jobs[job].view.desired == "pause"


@pytest.mark.usefixtures("server")
def test_maintenance_is_begun_looked_at_and_ended(sf: Sf, state: ConsoleState) -> None:
    none = {"since": None, "by": "", "reason": "", "running": 0, "paused": 0, "queued": 2}
    begun = {**none, "since": 1_767_225_600.0, "by": "root", "reason": "new disks", "running": 3, "paused": 1}
    state.answers["POST /admin/maintenance/drain"] = begun
    state.answers["POST /admin/maintenance/resume"] = state.answers["GET /maintenance"] = none
    told = sf("admin", "maintenance", "drain", "--reason", "new disks").out
    assert told.startswith("in maintenance by root for ")
    assert told.endswith(" (new disks); 3 jobs still running, 1 paused, 2 queued\n")
    assert json.loads(state.seen[-1].body) == {"reason": "new disks"}
    assert sf("admin", "maintenance", "resume").out == "no maintenance; 0 jobs still running, 0 paused, 2 queued\n"
    assert sf("admin", "maintenance", "status", "--json").json == none

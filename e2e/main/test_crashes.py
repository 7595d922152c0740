"""Whatever dies in the middle: nothing is lost, nothing runs twice, no GPU stays held."""

from collections.abc import Callable

import pytest

from e2e.support.console import ConsoleProcess, wait_for
from e2e.support.engines import PrivateEngine
from e2e.support.projects import Experiment, make_experiment
from e2e.support.proxy import EngineProxy

pytestmark = pytest.mark.engine

COUNT_STARTS = 'echo x >> "$FORGE_OUT_DIR/starts"; '
Starts = Callable[..., ConsoleProcess]


def starts_of(probe: Experiment, job: str) -> int:
    file = probe.console.storage / "runs" / job / "out" / "starts"
    return len(file.read_text().splitlines()) if file.exists() else 0


def held_gpus(machine: PrivateEngine, job: str) -> list[str]:
    return [one["State"] for one in machine.engine.list_containers(f"forge.job={job}")]


@pytest.mark.parametrize("route", ["containers/create", "/start"], ids=["before the launch", "during the launch"])
def test_a_console_killed_around_a_launch_loses_and_doubles_nothing(
    behind_proxy: Starts, proxy: EngineProxy, image: str, machine: PrivateEngine, route: str
) -> None:
    console = behind_proxy()
    probe = make_experiment(console, image, COUNT_STARTS + "echo ran")
    reached, release = proxy.hold(f"POST /v1.41/{route}" if route.startswith("containers") else route)
    job = probe.submit(profile="any:1")
    assert reached.wait(30)
    console.kill()
    release.set()  # what was sent still arrives: the engine may act on it after its sender died
    console.start()
    detail = probe.wait_end(job)
    assert detail["job"]["state"] == "SUCCEEDED"
    assert starts_of(probe, job) == 1
    wait_for(lambda: not held_gpus(machine, job), "every container of the job to be gone")


def test_a_console_killed_while_a_job_runs_finds_it_again(
    console: ConsoleProcess, image: str, machine: PrivateEngine
) -> None:
    probe = make_experiment(console, image, COUNT_STARTS + "for i in 1 2 3 4 5 6; do echo line $i; sleep 0.5; done")
    job = probe.submit(profile="any:1")
    probe.wait_state(job, "RUNNING")
    console.kill()
    console.start()
    detail = probe.wait_end(job)
    assert detail["job"]["state"] == "SUCCEEDED"
    assert starts_of(probe, job) == 1
    assert [line for line in probe.log(job).splitlines() if line.startswith("line")] == [
        f"line {i}" for i in range(1, 7)
    ]
    wait_for(lambda: not held_gpus(machine, job), "every container of the job to be gone")


def test_a_job_that_ends_while_the_console_is_away_ends_as_it_did(console: ConsoleProcess, image: str) -> None:
    probe = make_experiment(console, image, COUNT_STARTS + "sleep 2; exit 4")
    job = probe.submit()
    probe.wait_state(job, "RUNNING")
    console.kill()
    wait_for((console.storage / "runs" / job / "attempts" / "1" / "exit.json").exists, "the job to end")
    console.start()
    detail = probe.wait_end(job)
    assert (detail["job"]["state"], detail["attempts"][0]["exit_code"]) == ("FAILED", 4)


def test_a_console_killed_before_the_cleanup_cleans_up_after_its_restart(
    behind_proxy: Starts, proxy: EngineProxy, image: str, machine: PrivateEngine
) -> None:
    console = behind_proxy()
    probe = make_experiment(console, image, COUNT_STARTS + "echo ran")
    reached, release = proxy.hold("DELETE ")
    job = probe.submit(profile="any:1")
    assert reached.wait(60)
    console.kill()
    release.set()
    console.start()
    assert probe.wait_end(job)["job"]["state"] == "SUCCEEDED"
    assert starts_of(probe, job) == 1
    wait_for(lambda: not held_gpus(machine, job), "every container of the job to be gone")


def test_a_stop_survives_a_kill_of_the_console(console: ConsoleProcess, image: str) -> None:
    probe = make_experiment(console, image, "trap '' TERM; while :; do sleep 1; done")
    job = probe.submit()
    probe.wait_state(job, "RUNNING")
    console.sf("job", "stop", job, "--grace", "2", cwd=probe.project)
    console.kill()
    console.start()
    assert probe.wait_end(job)["job"]["state"] == "STOPPED"


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_an_engine_restart_under_a_job_that_traps_term_is_never_success(
    console: ConsoleProcess, image: str, machine: PrivateEngine, how: str
) -> None:
    script = COUNT_STARTS + "trap 'echo trapped; exit 0' TERM; while :; do sleep 0.2; done"
    probe = make_experiment(console, image, script)
    job = probe.submit(profile="any:1")
    probe.wait_state(job, "RUNNING")
    wait_for(lambda: starts_of(probe, job) == 1, "the script to run")
    machine.kill() if how == "kill" else machine.stop()
    machine.start()
    wait_for(lambda: "interrupted" in probe.reasons(job), "the interruption to be seen")
    assert "exited_zero" not in probe.reasons(job)
    wait_for(lambda: starts_of(probe, job) == 2, "the job to run again", 90)
    console.sf("job", "stop", job, "--grace", "0", cwd=probe.project)
    detail = probe.wait_end(job)
    assert detail["job"]["state"] == "STOPPED"
    assert [one["costs_retry"] for one in detail["attempts"]] == [False, False]


def test_ingest_that_is_never_reached_changes_nothing_but_the_time(behind_proxy: Starts, image: str) -> None:
    script = """python3 - <<'PY'
from starforge import report
for i in range(1, 21):
    report.log({'loss': 1 / i}, step=i)
    print(i)
PY
echo result > "$FORGE_OUT_DIR/r.txt"
"""
    seen: list[tuple[str, list[float], list[tuple[str, str]]]] = []
    for settings in ({}, {"FORGE_INGEST_URL": "http://127.0.0.1:9"}):
        running = behind_proxy(**settings)
        probe = make_experiment(running, image, script, name=f"probe{len(seen)}")
        job = probe.submit()
        detail = probe.wait_end(job, 90)
        assert detail["job"]["state"] == "SUCCEEDED"
        curve = running.get(f"/api/v1/jobs/{job}/metrics/loss?points=1000", probe.token)
        outputs = running.get(f"/api/v1/jobs/{job}/outputs", probe.token)
        seen.append((probe.log(job), curve["values"], [(one["path"], one["sha256"]) for one in outputs["artifacts"]]))
        running.close()
    assert seen[0] == seen[1]

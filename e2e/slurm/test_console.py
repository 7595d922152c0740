"""Jobs of real people on a real Slurm: the commands, a console and a cluster of four nodes."""

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from e2e.scheduling.training import TRAIN
from e2e.support.console import ConsoleProcess, wait_for
from e2e.support.projects import Experiment, make_experiment
from e2e.support.slurm_lab import SlurmLab

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(300)]

LIMIT_S = 90.0
CURVE = """
python3 - <<'EOF'
from starforge import report
for step in range(20):
    report.log({"loss": 1.0 / (step + 1)}, step=step)
report.finish()
EOF
echo "on $SLURMD_NODENAME with ${CUDA_VISIBLE_DEVICES:-none}"
"""
MEET = """
exec python3 - <<'EOF'
import os, socket
rank, count = int(os.environ["FORGE_NODE_RANK"]), int(os.environ["FORGE_NODE_COUNT"])
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with socket.create_server(place) as server:
        told = [server.accept()[0].makefile().readline().strip() for _ in range(count - 1)]
    print("met", sorted(told), flush=True)
else:
    while True:
        try:
            with socket.create_connection(place) as connection:
                connection.sendall(f"{rank} on {os.environ['SLURMD_NODENAME']}\\n".encode())
            break
        except ConnectionRefusedError:
            continue
EOF
"""


def wait_end(probe: Experiment, job: str) -> Any:  # noqa: ANN401 - a JSON answer
    """The job's detail once it has ended."""
    return probe.wait_end(job, LIMIT_S)


def out_of(console: ConsoleProcess, job: str) -> Path:
    return console.storage / "runs" / job / "out"


def test_a_job_runs_on_the_cluster_and_its_log_and_curve_come_back(console: ConsoleProcess) -> None:
    probe = make_experiment(console, "none:1", CURVE)
    job = probe.submit(profile="h200:1")
    detail = wait_end(probe, job)
    assert detail["job"]["state"] == "SUCCEEDED", probe.log(job)
    assert probe.log(job).startswith("on s")
    shown = json.loads(console.sf("job", "metrics", job, "--key", "loss", "--json", cwd=probe.project).stdout)
    (curve,) = shown["curves"]
    assert (curve["total_points"], curve["values"][0], curve["steps"][-1]) == (20, 1.0, 19)
    assert detail["log"]["produced_bytes"] == detail["log"]["received_bytes"] > 0
    sent = console.sf("job", "show", job, "--native").stdout
    assert f'"name": "starforge-{detail["attempts"][0]["id"]}"' in sent
    assert "#!/bin/bash" in sent


def test_the_ranks_of_a_job_of_two_nodes_meet(console: ConsoleProcess) -> None:
    probe = make_experiment(console, "none:1", MEET)
    job = probe.submit(profile="h200:16")
    assert wait_end(probe, job)["job"]["state"] == "SUCCEEDED", probe.log(job)
    assert "met ['1 on s" in probe.log(job)


def test_a_job_of_two_pools_is_one_job_of_two_parts(console: ConsoleProcess) -> None:
    probe = make_experiment(console, "none:1", MEET)
    first = probe.submit(profile="h200:1")
    spec = probe.detail(first)["spec"]
    pools = [
        {"name": "main", "series": "h200", "nodes": 1, "gpus_per_node": 4},
        {"name": "side", "series": None, "nodes": 2, "gpus_per_node": 0},
    ]
    spec["spec"]["resources"]["pools"] = pools
    job = submit_spec(probe, spec)
    detail = wait_end(probe, job)
    assert detail["job"]["state"] == "SUCCEEDED", probe.log(job)
    assert "met ['1 on s" in probe.log(job)
    assert "'2 on s" in probe.log(job)


def submit_spec(probe: Experiment, spec: dict[str, Any]) -> str:
    """Submit a spec as a program does; gives the job's id."""
    request = urllib.request.Request(  # noqa: S310 - our own loopback address
        f"{probe.console.url}/api/v1/jobs",
        data=json.dumps({"spec": spec}).encode(),
        headers={
            "Authorization": f"Bearer {probe.token}",
            "Content-Type": "application/json",
            "Idempotency-Key": "two-pools",
        },
    )
    with urllib.request.urlopen(request, timeout=40) as answer:  # noqa: S310 - the same
        return str(json.load(answer)["job"])


def test_a_stopped_job_ends_as_its_own_answer_to_term(console: ConsoleProcess) -> None:
    script = 'trap "echo saved; exit 0" TERM\necho ready\nwhile :; do sleep 0.1; done'
    probe = make_experiment(console, "none:1", script)
    job = probe.submit()
    wait_for(lambda: "ready" in probe.log(job), "the job to be ready", LIMIT_S)
    console.sf("job", "stop", job)
    assert wait_end(probe, job)["job"]["state"] == "STOPPED"
    assert "saved" in probe.log(job)


def test_a_paused_training_goes_on_from_its_checkpoint(console: ConsoleProcess) -> None:
    probe = make_experiment(console, "none:1", TRAIN)
    job = probe.submit(profile="h200:8")

    def has_checkpoint() -> bool:
        found = console.get(f"/api/v1/jobs/{job}/outputs", probe.token)["checkpoints"]
        return any(one["committed"] for one in found)

    wait_for(has_checkpoint, "a checkpoint", LIMIT_S)
    console.sf("job", "pause", job)
    probe.wait_state(job, "PAUSED", limit_s=LIMIT_S)
    console.sf("job", "resume", job)
    begun = out_of(console, job) / "begun"
    wait_for(lambda: len(begun.read_text().split()) == 2, "the second attempt", LIMIT_S)
    first, second = map(int, begun.read_text().split())
    assert (first, second > 0) == (0, True)
    (out_of(console, job) / "go").touch()
    detail = wait_end(probe, job)
    assert (detail["job"]["state"], detail["job"]["attempt"]) == ("SUCCEEDED", 2)


def test_a_job_that_fails_says_its_code(console: ConsoleProcess) -> None:
    probe = make_experiment(console, "none:1", "echo no; exit 7")
    detail = wait_end(probe, probe.submit())
    assert (detail["job"]["state"], detail["attempts"][-1]["exit_code"]) == ("FAILED", 7)


def test_the_check_tells_what_the_cluster_offers_and_what_is_wrong_with_the_settings(
    console: ConsoleProcess, cluster: SlurmLab
) -> None:
    told = json.loads(console.admin("check", "slurm", "--json").stdout)
    assert (told["version"], told["nodes"], told["accepting"]) == ("v0.0.38", 4, 4)
    assert (told["gpus"], told["warnings"]) == ({"h200": 32}, [])
    cluster.drain(cluster.nodes[0])
    assert f"warning: node {cluster.nodes[0]} takes no jobs" in console.admin("check", "slurm").stderr
    cluster.resume(cluster.nodes[0])

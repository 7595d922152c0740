"""Jobs of real people on a made-up cluster with KubeRay: the commands, a console, the cluster's operator and kubelet.

Each test runs on the made-up API server and, where it lies beside the project, on the real one.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.kuberay.kube_console import LIMIT_S, KubeConsole, kube_console
from e2e.scheduling.training import TRAIN
from e2e.support.console import wait_for
from e2e.support.engines import PrivateEngine
from e2e.support.kube.kinds import PODS, RAYCLUSTERS, RAYJOBS, SECRETS
from e2e.support.kube.real import RealApi
from e2e.support.ready import ready_engine

pytestmark = pytest.mark.timeout(300)

CURVE = """
python3 - <<'EOF'
from starforge import report
for step in range(20):
    report.log({"loss": 1.0 / (step + 1)}, step=step)
report.finish()
EOF
echo "as $(id -u) on rank $FORGE_NODE_RANK of $FORGE_NODE_COUNT"
"""


@pytest.fixture(scope="module")
def machine() -> Iterator[PrivateEngine]:
    with ready_engine() as machine:
        yield machine


@pytest.fixture
def site(machine: PrivateEngine, tmp_path: Path, real: RealApi | None) -> Iterator[KubeConsole]:
    with kube_console(machine, tmp_path, real) as site:
        yield site


def test_a_job_runs_in_the_cluster_and_its_log_and_curve_come_back(site: KubeConsole) -> None:
    probe = site.make(CURVE)
    job = probe.submit(profile="h200:1")
    detail = probe.wait_end(job, LIMIT_S)
    assert detail["job"]["state"] == "SUCCEEDED", probe.log(job)
    assert "on rank 0 of 1" in probe.log(job)
    shown = json.loads(site.console.sf("job", "metrics", job, "--key", "loss", "--json", cwd=probe.project).stdout)
    (curve,) = shown["curves"]
    assert (curve["total_points"], curve["values"][0], curve["steps"][-1]) == (20, 1.0, 19)
    assert detail["log"]["produced_bytes"] == detail["log"]["received_bytes"] > 0
    sent = site.console.sf("job", "show", job, "--native").stdout
    assert "kind: RayJob" in sent
    assert f"name: starforge-{detail['attempts'][0]['id']}" in sent
    assert "#!/bin/bash" in sent


def test_a_stopped_job_ends_as_its_own_answer_to_term_and_leaves_nothing(site: KubeConsole) -> None:
    probe = site.make('trap "echo saved; exit 0" TERM\necho ready\nwhile :; do sleep 0.1; done')
    job = probe.submit()
    wait_for(lambda: "ready" in probe.log(job), "the job to be ready", LIMIT_S)
    site.console.sf("job", "stop", job)
    assert probe.wait_end(job, LIMIT_S)["job"]["state"] == "STOPPED"
    assert "saved" in probe.log(job)
    kinds = (RAYJOBS, RAYCLUSTERS, PODS, SECRETS)
    wait_for(lambda: not any(site.lab.inside.list(kind) for kind in kinds) or None, "nothing to be left", LIMIT_S)


def test_a_paused_training_goes_on_from_its_checkpoint(site: KubeConsole) -> None:
    probe = site.make(TRAIN)
    job = probe.submit(profile="h200:1")

    def has_checkpoint() -> bool:
        found = site.console.get(f"/api/v1/jobs/{job}/outputs", probe.token)["checkpoints"]
        return any(one["committed"] for one in found)

    wait_for(has_checkpoint, "a checkpoint", LIMIT_S)
    site.console.sf("job", "pause", job)
    probe.wait_state(job, "PAUSED", limit_s=LIMIT_S)
    site.console.sf("job", "resume", job)
    begun = site.console.storage / "runs" / job / "out" / "begun"
    wait_for(lambda: len(begun.read_text().split()) == 2, "the second attempt", LIMIT_S)
    first, second = map(int, begun.read_text().split())
    assert (first, second > 0) == (0, True)
    (begun.parent / "go").touch()
    detail = probe.wait_end(job, LIMIT_S)
    assert (detail["job"]["state"], detail["job"]["attempt"]) == ("SUCCEEDED", 2)


def test_a_job_that_fails_says_its_code(site: KubeConsole) -> None:
    probe = site.make("echo no; exit 7")
    detail = probe.wait_end(probe.submit(), LIMIT_S)
    assert (detail["job"]["state"], detail["attempts"][-1]["exit_code"]) == ("FAILED", 7)


def test_an_image_that_is_denied_fails_in_the_kubelets_words(site: KubeConsole) -> None:
    site.lab.kubelet.denied[site.image] = "pull access denied, repository does not exist"
    probe = site.make("exit 0")
    detail = probe.wait_end(probe.submit(), LIMIT_S)
    assert detail["job"]["state"] == "FAILED"
    assert "pull access denied" in json.dumps(detail)


def test_what_the_cluster_would_refuse_is_refused_at_the_submission(site: KubeConsole) -> None:
    site.lab.api.server.faults.refuse(422, "PATCH", "dryRun=All")
    assert "fleet kuberay would refuse this" in site.make("exit 0").refused()


def test_a_cluster_that_cannot_be_asked_keeps_no_job_from_being_admitted(site: KubeConsole) -> None:
    probe = site.make("exit 0")
    site.lab.api.server.go_away()
    job = probe.submit()
    assert probe.state(job) in {"QUEUED", "SUBMITTED"}
    site.lab.api.server.come_back()
    assert probe.wait_end(job, LIMIT_S)["job"]["state"] == "SUCCEEDED"


def test_the_check_tells_what_the_cluster_offers_and_what_is_wrong(site: KubeConsole) -> None:
    told = read_check(site)
    assert (told["nodes"], told["accepting"], told["gpus"], told["warnings"]) == (1, 1, {"h200": 8}, [])
    site.lab.add_node("odd", gpus=2, product="NVIDIA-Gizmo-9")
    said = site.console.admin("check", "kuberay").stderr
    assert "warning: " in said
    assert "Gizmo" in said


def read_check(site: KubeConsole) -> Any:  # noqa: ANN401 - a JSON answer
    return json.loads(site.console.admin("check", "kuberay", "--json").stdout)

"""What is submitted: bodies of both families, and a script that bash takes for every runtime."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from core.tests.containers.builders import make_request
from starforge.contract.launch import LaunchRequest, Mount, PoolRequest, Secret
from starforge.errors import LaunchRefused
from starforge_console.executors.slurm.decode.family import Family
from starforge_console.executors.slurm.decode.plain import Plain
from starforge_console.executors.slurm.decode.structured import Structured
from starforge_console.executors.slurm.script import build_script, plan_script, write_secrets
from starforge_console.executors.slurm.settings import ClusterSettings, Runtime
from starforge_console.executors.slurm.submission import ClusterFacts, Submission, build_submission, find_owner

CLUSTER = ClusterFacts(gres={"h200-sxm": "gpu:h200"}, max_time_s=None)
ONE_NODE = (PoolRequest(name="main", nodes=1, gpus_per_node=2, series="h200-sxm", cpus=3.5, memory_bytes=10**9),)
TWO_POOLS = (
    PoolRequest(name="actor", nodes=1, gpus_per_node=2, series="h200-sxm", cpus=8, memory_bytes=10**9),
    PoolRequest(name="rollout", nodes=3, gpus_per_node=1, cpus=4, memory_bytes=None),
)


def request_of(tmp_path: Path, **changes: Any) -> LaunchRequest:
    given: dict[str, Any] = {"pools": ONE_NODE, "env": {"A": "b c"}, "secrets": {"TOKEN": Secret("s3cret")}, **changes}
    return make_request(tmp_path, **given)


def submit(request: LaunchRequest, tmp_path: Path, cluster: ClusterFacts = CLUSTER, **settings: Any) -> Submission:
    whole = ClusterSettings(
        fleet="cluster",
        install="lab",
        url="http://127.0.0.1:1",
        user="ada",
        state_dir=tmp_path / "state",
        storage_root=tmp_path,
        **settings,
    )
    return build_submission(request, whole, cluster)


def write(submission: Submission, family: Family) -> Any:
    return family.write_submission(submission.components, submission.script)


def test_a_job_of_one_node_in_plain_values(tmp_path: Path) -> None:
    request = request_of(tmp_path, max_runtime_s=600, grace_s=30)
    submission = submit(request, tmp_path, partition="main", account="a", qos="q", constraint="ib")
    environment = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": request.workdir,
        "LANG": "C.UTF-8",
        "FORGE_CAPSULE_DIGEST": request.capsule_digest,
        "FORGE_INGEST_URL": request.ingest_url,
        "FORGE_ATTEMPT": request.attempt,
        "A": "b c",
    }
    assert write(submission, Plain()) == {
        "job": {
            "name": f"starforge-{request.attempt}",
            "comment": f"starforge install=lab job={request.job} attempt={request.attempt}",
            "current_working_directory": request.workdir,
            "standard_output": f"{request.workdir}/.slurm/log",
            "open_mode": "append",
            "environment": environment,
            "nodes": 1,
            "tasks": 1,
            "tasks_per_node": 1,
            "cpus_per_task": 4,
            "memory_per_node": 954,
            "gres": "gpu:h200:2",
            "time_limit": 13,
            "signal": "URG@50",
            "partition": "main",
            "account": "a",
            "qos": "q",
            "constraints": "ib",
        },
        "script": submission.script,
    }


def test_a_job_of_one_node_in_structured_values(tmp_path: Path) -> None:
    job = write(submit(request_of(tmp_path, max_runtime_s=600, grace_s=30), tmp_path), Structured())["job"]
    assert job["script"].startswith("#!/bin/bash\n")
    assert "A=b c" in job["environment"]
    assert job["nodes"] == "1"
    assert job["requeue"] is False
    assert job["tres_per_node"] == "gres/gpu:h200:2"
    assert job["memory_per_node"] == {"set": True, "infinite": False, "number": 954}
    assert job["time_limit"] == {"set": True, "infinite": False, "number": 13}
    assert (job["kill_warning_signal"], job["kill_warning_delay"]["number"]) == ("URG", 50)
    assert not {"gres", "signal", "memory_mb", "time_limit_min"} & set(job)


def test_pools_become_components_of_one_job(tmp_path: Path) -> None:
    submission = submit(request_of(tmp_path, pools=TWO_POOLS), tmp_path)
    plain, structured = write(submission, Plain()), write(submission, Structured())
    assert [(job["nodes"], job["gres"]) for job in plain["jobs"]] == [(1, "gpu:h200:2"), (3, "gpu:1")]
    assert plain["script"] == submission.script
    assert "script" in structured["jobs"][0]
    assert "script" not in structured["jobs"][1]
    assert "memory_per_node" not in plain["jobs"][1]
    assert "start 0 --het-group=0 --nodes=1 " in submission.script
    assert "start 1 --het-group=1 --nodes=3 " in submission.script


@pytest.mark.parametrize(
    ("asked_s", "most_s", "minutes"),
    [(None, None, None), (None, 7200.0, 120), (600.0, 7200.0, 13), (7000.0, 7200.0, 120)],
)
def test_the_limit_lies_behind_the_jobs_own_and_never_beyond_the_partitions(
    tmp_path: Path, asked_s: float | None, most_s: float | None, minutes: int | None
) -> None:
    request = request_of(tmp_path, max_runtime_s=asked_s, grace_s=30)
    job = write(submit(request, tmp_path, ClusterFacts(gres=CLUSTER.gres, max_time_s=most_s)), Plain())["job"]
    assert job["time_limit"] == ("UNLIMITED" if minutes is None else minutes)


def test_a_series_that_no_node_has_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(LaunchRefused, match="nothing in the cluster is known to be h200-sxm"):
        submit(request_of(tmp_path), tmp_path, ClusterFacts(gres={}, max_time_s=None))


def test_no_secret_is_in_what_is_submitted_or_shown(tmp_path: Path) -> None:
    submission = submit(request_of(tmp_path), tmp_path)
    encoded = write_secrets({"TOKEN": "s3cret"}).split()[1]
    for text in (submission.describe(), str(write(submission, Structured())), repr(submission)):
        assert "s3cret" not in text
        assert encoded not in text


@pytest.mark.parametrize("runtime", Runtime)
@pytest.mark.parametrize("pools", [ONE_NODE, TWO_POOLS], ids=["one", "pools"])
@pytest.mark.parametrize("ray", [False, True])
def test_bash_takes_the_script_of_every_runtime(
    tmp_path: Path,
    runtime: Runtime,
    pools: tuple[PoolRequest, ...],
    ray: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    request = request_of(
        tmp_path,
        pools=pools,
        spans_ray=ray,
        command=("-c", 'echo "it\'s" $HOME'),
        mounts=(Mount("/data/a b", "/in", read_only=True),),
    )
    script = build_script(plan_script(request, runtime, [2] * len(pools)))
    checked = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert checked.stderr == ""
    node = subprocess.run(
        ["bash", "-c", "eval \"$(sed -n '/^node=/,/^start()/p' | sed '$d')\"; printf %s \"$node\" | bash -n"],
        input=script,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (node.returncode, node.stderr) == (0, "")
    assert "@" not in script.replace('"$@"', "").replace("[@]", "")


@pytest.mark.parametrize(
    ("runtime", "words"),
    [
        (Runtime.APPTAINER, "apptainer exec --nv --no-home --bind=/data:/in:ro"),
        (Runtime.DOCKER, "--mount=type=bind,source=/data,target=/in,readonly"),
        (Runtime.ENROOT, "--container-mounts=/data:/in:ro,/dev/shm:/dev/shm"),
    ],
)
def test_a_container_gets_its_mounts(tmp_path: Path, runtime: Runtime, words: str) -> None:
    request = request_of(tmp_path, mounts=(Mount("/data", "/in", read_only=True),))
    assert words in build_script(plan_script(request, runtime, [1]))


def test_a_container_of_an_engine_is_removed_whatever_ended_its_client(tmp_path: Path) -> None:
    request = request_of(tmp_path)
    script = build_script(plan_script(request, Runtime.DOCKER, [1]))
    assert f'docker rm --force "starforge-{request.attempt}-$FORGE_NODE_RANK"' in script
    assert "docker rm" not in build_script(plan_script(request, Runtime.NONE, [1]))


def test_a_comment_says_whose_job_it_is_and_a_strangers_says_nothing(tmp_path: Path) -> None:
    request = request_of(tmp_path)
    comment = submit(request, tmp_path).components[0]["comment"]
    owner = find_owner(comment)
    assert owner is not None
    assert (owner.install, owner.attempt) == ("lab", request.attempt)
    for other in ("", "starforge", "starforge install=lab", "starforge install=lab attempt=x", "my job"):
        assert find_owner(other) is None


def test_secrets_are_lines_that_a_node_reads_without_python() -> None:
    text = write_secrets({"B": "two\nlines", "A": "é"})
    script = 'while read -r name value; do [ "$name" != . ] || break; echo "$name=$(echo "$value" | base64 -d)"; done'
    read = subprocess.run(["bash", "-c", script], input=text, capture_output=True, text=True, check=True)
    assert read.stdout == "A=é\nB=two\nlines\n"

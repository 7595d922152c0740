import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from starforge.containers.facts import HostFacts
from starforge.containers.settings import GpuRuntime, HostSettings
from starforge.containers.spec import (
    Allotment,
    Share,
    build_create_body,
    decide_share,
    explain_cpus,
    explain_memory,
    require_one_node,
)
from starforge.contract.ids import AttemptId, Digest, JobId
from starforge.contract.launch import LaunchRequest, Mount, Network, PoolRequest, RegistryLogin, Secret
from starforge.errors import LaunchRefused

FACTS = HostFacts(
    engine_id="E",
    root_dir="/var/lib/docker",
    cpus=8.0,
    memory_bytes=64 * 1024**3,
    architecture="amd64",
    boot="boot-1",
    limits={"nofile": 20000, "memlock": -1},
)
SETTINGS = HostSettings(
    install="lab", node="n1", state_dir=Path("/s"), secrets_root=Path("/m"), gpu_runtime=GpuRuntime.NVIDIA
)
ALLOTMENT = Allotment(("GPU-b", "GPU-a"), Share(1.5, 8 * 1024**3))


def make(**changes: object) -> LaunchRequest:
    request = LaunchRequest(
        attempt=AttemptId("jabcdefghi-2-0a1b2c"),
        job=JobId("jabcdefghi"),
        number=2,
        install="lab",
        fleet="here",
        image="repo/train:1",
        command=(".starforge/capsule/bootstrap.sh",),
        workdir="/share/runs/a",
        user="1000:1001",
        env={
            "HOME": "/share/runs/a/home",
            "FORGE_OUT_DIR": "/share/runs/out",
            "CUDA_VISIBLE_DEVICES": "7",
            "NVIDIA_VISIBLE_DEVICES": "all",
            "FORGE_ATTEMPT": "another",
        },
        secrets={"HF_TOKEN": Secret("hf_very_secret")},
        mounts=(Mount("/share/runs/a", "/share/runs/a", read_only=False), Mount("/share/d", "/data", read_only=True)),
        pools=(PoolRequest(name="main", nodes=1, gpus_per_node=2),),
        labels={"team": "a,b=c", "forge.gpu.0": "GPU-other", "forge.install": "another"},
        network=Network.BRIDGE,
        grace_s=30,
        max_runtime_s=None,
        shm_bytes=None,
        capsule_digest=Digest("sha256:" + "1" * 64),
        ingest_url="http://host.docker.internal:7081",
        registry_login=RegistryLogin(username="u", password=Secret("registry_password")),
    )
    return replace(request, **changes)  # type: ignore[arg-type]  # fields by name


ALONE = {"BindOptions": {"NonRecursive": True}}
HOST_CONFIG = {
    "NetworkMode": "bridge",
    "Init": True,
    "Privileged": False,
    "Mounts": [
        {"Type": "bind", "Source": "/share/runs/a", "Target": "/share/runs/a", "ReadOnly": False},
        {"Type": "bind", "Source": "/share/d", "Target": "/data", "ReadOnly": True, **ALONE},
        {
            "Type": "bind",
            "Source": "/m/jabcdefghi-2-0a1b2c",
            "Target": "/run/starforge",
            "ReadOnly": True,
            **ALONE,
        },
    ],
    "Ulimits": [
        {"Name": "nofile", "Soft": 20000, "Hard": 20000},
        {"Name": "memlock", "Soft": -1, "Hard": -1},
    ],
    "ShmSize": 4294967296,
    "NanoCpus": 1500000000,
    "Memory": 8589934592,
    "MemorySwap": 8589934592,
    "PidsLimit": 32768,
    "LogConfig": {"Type": "json-file", "Config": {"max-size": "10m", "max-file": "2"}},
    "RestartPolicy": {"Name": "no"},
    "ExtraHosts": ["host.docker.internal:host-gateway"],
    "DeviceRequests": [{"Driver": "nvidia", "DeviceIDs": ["GPU-b", "GPU-a"], "Capabilities": [["gpu"]]}],
}


def test_the_create_body_is_exactly_this() -> None:
    assert build_create_body(make(), ALLOTMENT, FACTS, SETTINGS, "/m/jabcdefghi-2-0a1b2c") == {
        "Image": "repo/train:1",
        "Entrypoint": ["bash"],
        "Cmd": [".starforge/capsule/bootstrap.sh"],
        "WorkingDir": "/share/runs/a",
        "User": "1000:1001",
        "Env": [
            "HOME=/share/runs/a/home",
            "FORGE_OUT_DIR=/share/runs/out",
            "NVIDIA_VISIBLE_DEVICES=GPU-b,GPU-a",
            "FORGE_ATTEMPT=jabcdefghi-2-0a1b2c",
            "FORGE_NODE_RANK=0",
            "FORGE_CAPSULE_DIGEST=sha256:" + "1" * 64,
            "FORGE_INGEST_URL=http://host.docker.internal:7081",
        ],
        "Labels": {
            "team": "a,b=c",
            "forge.install": "lab",
            "forge.fleet": "here",
            "forge.node": "n1",
            "forge.job": "jabcdefghi",
            "forge.attempt": "jabcdefghi-2-0a1b2c",
            "forge.cpus": "1.5",
            "forge.memory": "8589934592",
            "forge.boot": "boot-1",
            "forge.port": "",
            "forge.gpus": "2",
            "forge.gpu.0": "GPU-b",
            "forge.gpu.1": "GPU-a",
        },
        "Healthcheck": {"Test": ["NONE"]},
        "StopSignal": "SIGTERM",
        "StopTimeout": 50,
        "HostConfig": HOST_CONFIG,
    }


def test_no_secret_is_in_the_create_body() -> None:
    body = json.dumps(build_create_body(make(), ALLOTMENT, FACTS, SETTINGS, "/m/a"))
    assert "hf_very_secret" not in body
    assert "registry_password" not in body


def env_of(body: dict[str, object]) -> dict[str, str]:
    entries = body["Env"]
    assert isinstance(entries, list)
    return dict(entry.split("=", 1) for entry in entries)


@pytest.mark.parametrize("runtime", list(GpuRuntime))
def test_a_job_without_gpus_gets_no_device_request_and_sees_none(runtime: GpuRuntime) -> None:
    body = build_create_body(
        make(), Allotment((), Share(1, 1024**3)), FACTS, replace(SETTINGS, gpu_runtime=runtime), "/m/a"
    )
    assert "DeviceRequests" not in body["HostConfig"]  # type: ignore[operator]  # a dict
    assert env_of(body)["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_cdi_asks_for_devices_by_name_and_keeps_the_vendors_hook_out() -> None:
    body = build_create_body(make(), ALLOTMENT, FACTS, replace(SETTINGS, gpu_runtime=GpuRuntime.CDI), "/m/a")
    requests = body["HostConfig"]["DeviceRequests"]  # type: ignore[index]  # a dict
    assert requests == [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=GPU-b", "nvidia.com/gpu=GPU-a"]}]
    assert env_of(body)["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_without_a_gpu_runtime_gpus_are_labels_and_variables_alone() -> None:
    body = build_create_body(make(), ALLOTMENT, FACTS, replace(SETTINGS, gpu_runtime=GpuRuntime.NONE), "/m/a")
    assert "DeviceRequests" not in body["HostConfig"]  # type: ignore[operator]  # a dict
    assert env_of(body)["NVIDIA_VISIBLE_DEVICES"] == "GPU-b,GPU-a"
    assert env_of(body)["CUDA_VISIBLE_DEVICES"] == "7"


def test_on_the_hosts_network_an_attempt_is_told_its_ports() -> None:
    allotment = Allotment((), Share(1, 1024**3), port=24064)
    body = build_create_body(make(network=Network.HOST), allotment, FACTS, SETTINGS, "/m/a")
    assert env_of(body)["FORGE_PORT_BASE"] == "24064"
    assert body["Labels"]["forge.port"] == "24064"  # type: ignore[index]  # a dict
    assert "ExtraHosts" not in body["HostConfig"]  # type: ignore[operator]  # a dict


def test_the_images_own_user_is_kept_where_the_request_names_none() -> None:
    assert "User" not in build_create_body(make(user=None), ALLOTMENT, FACTS, SETTINGS, "/m/a")


def test_cpus_never_exceed_the_machines_so_that_the_engine_takes_them() -> None:
    body = build_create_body(make(), Allotment((), Share(64, 1024**3)), FACTS, SETTINGS, "/m/a")
    assert body["HostConfig"]["NanoCpus"] == 8_000_000_000  # type: ignore[index]  # a dict


def test_the_default_share_follows_the_gpus() -> None:
    pool = PoolRequest(name="main", nodes=1, gpus_per_node=2)
    assert decide_share(pool, 64, 800, 8) == Share(14.4, 180)


def test_without_gpus_the_default_is_two_cpus_and_four_gib_or_what_there_is() -> None:
    pool = PoolRequest(name="main", nodes=1, gpus_per_node=0)
    assert decide_share(pool, 64, 64 * 1024**3, 8) == Share(2.0, 4 * 1024**3)
    assert decide_share(pool, 1, 1000, 0) == Share(0.9, 900)


def test_a_default_share_says_that_it_is_one_and_which_key_changes_it() -> None:
    pool = PoolRequest(name="main", nodes=1, gpus_per_node=0)
    assert explain_cpus(pool) == " (the default share of a job without GPUs; resources.cpus in config.yaml changes it)"
    assert "resources.memory_gib" in explain_memory(pool)
    assert "with 2 GPUs" in explain_cpus(replace(pool, gpus_per_node=2))
    assert explain_cpus(replace(pool, cpus=1.5)) == explain_memory(replace(pool, memory_bytes=1)) == ""


def test_what_a_pool_says_of_its_share_stands() -> None:
    pool = PoolRequest(name="main", nodes=1, gpus_per_node=2, cpus=3, memory_bytes=7)
    assert decide_share(pool, 64, 800, 8) == Share(3, 7)


def test_a_job_of_several_nodes_is_refused_by_name() -> None:
    with pytest.raises(LaunchRefused, match="2 nodes in 1 pools"):
        require_one_node(make(pools=(PoolRequest(name="main", nodes=2, gpus_per_node=1),)))


def test_what_is_mounted_below_a_folder_that_is_only_read_is_mounted_to_be_read_by_itself() -> None:
    mounts = (Mount("/srv/d", "/data", read_only=True), Mount("/srv/d/own", "/data/own", read_only=False))
    facts = replace(FACTS, mounted=("/", "/srv", "/srv/d", "/srv/d/nfs", "/srv/d/nfs/deep", "/srv/d/own", "/srv/dd"))
    config = cast("dict[str, Any]", build_create_body(make(mounts=mounts), ALLOTMENT, facts, SETTINGS, "/m/a"))
    found = {one["Target"]: (one["Source"], one["ReadOnly"]) for one in config["HostConfig"]["Mounts"]}
    assert len(found) == len(config["HostConfig"]["Mounts"])
    assert found == {
        "/data": ("/srv/d", True),
        "/data/nfs": ("/srv/d/nfs", True),
        "/data/nfs/deep": ("/srv/d/nfs/deep", True),
        "/data/own": ("/srv/d/own", False),
        "/run/starforge": ("/m/a", True),
    }

"""One spec, and the whole of what a backend and a runner get of it."""

import asyncio
import base64
import copy
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest

from server.tests.assembly.support import ATTEMPT, COMMIT, INGEST_URL, OWNER, SPEC, Yard, in_flight, open_yard
from starforge.contract.canonical import digest_bytes
from starforge.contract.launch import LaunchRequest, Mount, Network, PoolRequest, Secret
from starforge.errors import LaunchRefused
from starforge_console.ledger.fleets import Fleet


def prepare(folder: Path, spec: dict[str, Any] | None = None) -> tuple[Yard, LaunchRequest]:
    async def go() -> tuple[Yard, LaunchRequest]:
        async with open_yard(folder, spec) as yard:
            return yard, await yard.assembler.prepare(in_flight())

    return asyncio.run(go())


def test_the_launch_request_is_exactly_this(tmp_path: Path) -> None:
    yard, request = prepare(tmp_path)
    run = f"{tmp_path}/storage/runs/j234567abc"
    root = f"{run}/attempts/3"
    digest = digest_bytes((yard.layout.capsule / "SHA256SUMS").read_bytes())
    assert request == LaunchRequest(
        attempt=ATTEMPT,
        job=in_flight().id,
        number=3,
        install="install-1",
        fleet="lab",
        image="registry.test/train:1",
        command=(".starforge/capsule/bootstrap.sh",),
        workdir=root,
        user=f"{OWNER[0]}:{OWNER[1]}",
        env=build_env(run, digest),
        secrets={"ingest-token": Secret(yard.assembler.token(ATTEMPT))},
        mounts=(
            Mount(root, root, read_only=False),
            Mount(f"{run}/capsules/3", f"{root}/.starforge/capsule", read_only=True),
            Mount(f"{run}/checkpoints/3/ckpt", f"{root}/ckpt", read_only=False),
            Mount(f"{run}/out", f"{run}/out", read_only=False),
            Mount(f"{tmp_path}/storage/blobs/sha256/22/{'2' * 64}", "/opt/starforge/workspace.tar", read_only=True),
            Mount(model_of(tmp_path), model_of(tmp_path), read_only=True),
        ),
        pools=(PoolRequest(name="main", nodes=1, gpus_per_node=2, series="h200", cpus=8.0, memory_bytes=1 << 34),),
        labels={},
        network=Network.BRIDGE,
        grace_s=45.0,
        max_runtime_s=3600.0,
        shm_bytes=None,
        capsule_digest=digest,
        ingest_url=INGEST_URL,
    )


def model_of(folder: Path) -> str:
    return f"{folder}/storage/cache/hf/models/qwen/qwen3-0.6b/{COMMIT}"


def build_env(run: str, digest: str) -> dict[str, str]:
    root = f"{run}/attempts/3"
    return {
        "HOME": f"{root}/home",
        "XDG_CACHE_HOME": f"{root}/home/.cache",
        "TORCHINDUCTOR_CACHE_DIR": f"{root}/home/.cache/torchinductor",
        "TRITON_CACHE_DIR": f"{root}/home/.cache/triton",
        "USER": "forge",
        "LOGNAME": "forge",
        "HF_HOME": f"{root}/home/.cache/huggingface",
        "PYTHONUNBUFFERED": "1",
        "HF_HUB_OFFLINE": "1",
        "FORGE_JOB": "j234567abc",
        "FORGE_ATTEMPT": ATTEMPT,
        "FORGE_ATTEMPT_NUMBER": "3",
        "FORGE_PROJECT": "demo",
        "FORGE_EXPERIMENT": "iris",
        "FORGE_FLEET": "lab",
        "FORGE_RECIPE": "custom/custom",
        "FORGE_GPUS": "2",
        "FORGE_OUT_DIR": f"{run}/out",
        "FORGE_CKPT_DIR": f"{root}/ckpt",
        "FORGE_CAPSULE_DIGEST": digest,
    }


def test_the_capsule_is_exactly_this(tmp_path: Path) -> None:
    yard, _ = prepare(tmp_path)
    capsule = json.loads((yard.layout.capsule / "capsule.json").read_text())
    spec = capsule.pop("spec")
    assert spec["spec"]["hyperparameters"] == {"learning_rate": 1e-05}
    assert spec["spec"]["workspace"]["digest"] == "sha256:" + "2" * 64
    assert capsule == {
        "version": "1.0",
        "job": "j234567abc",
        "attempt": ATTEMPT,
        "number": 3,
        "node_count": 1,
        "plan": {
            "argv": ["bash", "train.sh"],
            "env": {"FORGE_MODEL": model_of(tmp_path)},
            "files": {},
            "metric_sources": [{"kind": "report", "path": None}],
            "checkpoint": {"kind": "manifest", "pattern": "", "complete": []},
            "complete": {"kind": "finish", "total_steps": None, "path": None},
            "resume": [],
            "cwd": "experiments/iris",
            "links": {},
            "python_path": [],
            "resume_mirror": None,
            "ports": {"MASTER_PORT": 0, "PET_MASTER_PORT": 1, "DLTS_MASTER_PORT": 2},
        },
        "requirements": {"python": ">=3.8", "modules": [], "gpus": None},
        "workspace": {"path": "/opt/starforge/workspace.tar", "digest": "sha256:" + "2" * 64},
        "ingest": {"url": INGEST_URL, "ca_pem": None},
        "limits": {"grace_s": 45.0, "max_runtime_s": 3600.0},
        "resume_from": [],
        "usage_period_s": None,
        "platform_env": {},
        "inputs": {},
    }


def test_the_sums_cover_every_other_file_of_the_capsule(tmp_path: Path) -> None:
    yard, _ = prepare(tmp_path)
    folder = yard.layout.capsule
    lines = [line.split("  ") for line in (folder / "SHA256SUMS").read_text().splitlines()]
    sums = {name: digest for digest, name in lines}
    assert set(sums) | {"SHA256SUMS"} == {path.name for path in folder.iterdir()}
    assert sums == {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in sums}
    assert {oct(path.stat().st_mode & 0o777) for path in folder.iterdir()} == {"0o444"}


def test_each_folder_has_the_rights_of_who_writes_it(tmp_path: Path) -> None:
    yard, _ = prepare(tmp_path)
    root = yard.layout.root
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in root.iterdir()}
    assert modes == {
        ".starforge": "0o755",
        "ckpt": "0o755",
        "home": "0o750",
        "node-0": "0o750",
        "spool": "0o750",
        "work": "0o750",
    }
    assert oct(yard.layout.capsule.stat().st_mode & 0o777) == "0o755"
    assert oct(root.stat().st_mode & 0o777) == "0o750"
    assert oct(yard.storage.outputs(in_flight().id, 1).stat().st_mode & 0o777) == "0o750"
    assert oct(yard.layout.checkpoints.stat().st_mode & 0o777) == "0o750"
    assert oct(yard.layout.kept.stat().st_mode & 0o777) == "0o755"
    assert {path.stat().st_uid for path in yard.layout.writable()} == {OWNER[0]}


def test_the_token_is_derived_from_key_and_attempt_and_shows_nowhere(tmp_path: Path) -> None:
    yard, request = prepare(tmp_path)
    mac = hmac.new(b"k" * 32, b"ingest-token:" + ATTEMPT.encode(), hashlib.sha256).digest()
    token = "sfa_" + base64.urlsafe_b64encode(mac).decode().rstrip("=")
    assert request.secrets["ingest-token"].reveal() == token
    assert token not in repr(request)
    files = [path for path in yard.storage.run(in_flight().id).rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if token.encode() in path.read_bytes()]


def test_another_attempt_or_another_key_has_another_token(tmp_path: Path) -> None:
    async def go() -> set[str]:
        async with open_yard(tmp_path) as yard:
            tokens = {yard.assembler.token(in_flight().attempt.id)}
            tokens.add(yard.assembler.token(type(ATTEMPT)("j234567abc-4-abcdef")))
            yard.change(token_key=b"x" * 32)
            return tokens | {yard.assembler.token(ATTEMPT)}

    assert len(asyncio.run(go())) == 3


def test_a_fleet_with_the_images_own_user_lets_anybody_write(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_yard(tmp_path) as yard:
            yard.change(Fleet(name="lab", kind="local", network=Network.BRIDGE, user="image"))
            request = await yard.assembler.prepare(in_flight())
            assert request.user is None
            assert {oct(path.stat().st_mode & 0o777) for path in yard.layout.writable()} == {"0o777"}

    asyncio.run(go())


def test_a_capsule_carries_the_private_ca_by_which_ingest_is_trusted(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_yard(tmp_path) as yard:
            yard.change(ingest_url="https://ingest.test", ingest_ca="a certificate")
            request = await yard.assembler.prepare(in_flight())
            told = json.loads((yard.layout.capsule / "capsule.json").read_text())["ingest"]
            assert told == {"url": "https://ingest.test", "ca_pem": "a certificate"}
            assert request.ingest_url == "https://ingest.test"

    asyncio.run(go())


def test_a_fleet_without_network_has_no_ingest(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_yard(tmp_path) as yard:
            yard.change(Fleet(name="lab", kind="local", network=Network.NONE, user=f"{OWNER[0]}:{OWNER[1]}"))
            request = await yard.assembler.prepare(in_flight())
            assert (request.network, request.user) == (Network.NONE, f"{OWNER[0]}:{OWNER[1]}")
            assert json.loads((yard.layout.capsule / "capsule.json").read_text())["ingest"] is None

    asyncio.run(go())


def test_a_method_that_is_not_published_any_more_is_refused(tmp_path: Path) -> None:
    spec = copy.deepcopy(SPEC)
    spec["spec"]["recipe"]["name"] = "custom/gone"
    with pytest.raises(LaunchRefused, match="custom/gone is not published here any more"):
        prepare(tmp_path, spec)

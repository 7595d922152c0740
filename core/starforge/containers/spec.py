"""The container of an attempt as the engine's create call takes it: pure, so that a test compares it whole."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from starforge.containers import labels
from starforge.containers.facts import HostFacts
from starforge.containers.settings import GpuRuntime, HostSettings
from starforge.contract.capsule import (
    ENV_ATTEMPT,
    ENV_CAPSULE_DIGEST,
    ENV_INGEST_URL,
    ENV_NODE_RANK,
    ENV_PORT_BASE,
    SECRETS_DIR,
)
from starforge.contract.executor import PlacementAsk
from starforge.contract.launch import LaunchRequest, Mount, Network, PoolRequest
from starforge.errors import LaunchRefused
from starforge.said.sentence import say

KILL_AFTER_GRACE_S: Final = 20
PORTS_PER_ATTEMPT: Final = 64
OWN_NAME: Final = "host.docker.internal"
"""What containers call the machine that they run on."""

_PIDS: Final = 32768
_MEMORY_SHARE: Final = 0.9
_CPUS_WITHOUT_GPU: Final = 2.0
_MEMORY_WITHOUT_GPU: Final = 4 * 1024**3
_NANO: Final = 1_000_000_000
_LOG: Final = {"Type": "json-file", "Config": {"max-size": "10m", "max-file": "2"}}
_VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
_CUDA_VISIBLE: Final = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class Share:
    """What an attempt holds of its machine besides GPUs."""

    cpus: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Allotment:
    """What was chosen for an attempt on this machine. `port` is the first of its block on the host's network."""

    gpus: tuple[str, ...]
    share: Share
    port: int | None = None


def require_one_node(request: PlacementAsk) -> PoolRequest:
    """The one pool of a request that one machine can take, or LaunchRefused."""
    nodes = sum(pool.nodes for pool in request.pools)
    if len(request.pools) == 1 and nodes == 1:
        return request.pools[0]
    raise LaunchRefused(
        f"{request.attempt} asks for {nodes} nodes in {len(request.pools)} pools",
        why="a job of this kind of fleet runs on one node, in one pool",
        next_step="ask for one node, or choose a fleet of another kind",
    )


def decide_share(pool: PoolRequest, cpus: float, memory_bytes: int, gpus: int) -> Share:
    """CPUs and memory for `pool` on a machine of that size with `gpus` GPUs in all.

    What the pool does not say is its share of the GPUs by nine tenths of the machine; without GPUs 2 CPUs and 4 GiB,
    or nine tenths of a machine that is smaller.
    """
    part = _MEMORY_SHARE * (pool.gpus_per_node / gpus if pool.gpus_per_node and gpus else 1.0)
    default_cpus, default_memory = round(cpus * part, 2), int(memory_bytes * part)
    if not pool.gpus_per_node:
        default_cpus = min(_CPUS_WITHOUT_GPU, default_cpus)
        default_memory = min(_MEMORY_WITHOUT_GPU, default_memory)
    return Share(
        cpus=max(0.01, default_cpus) if pool.cpus is None else pool.cpus,
        memory_bytes=default_memory if pool.memory_bytes is None else pool.memory_bytes,
    )


def explain_cpus(pool: PoolRequest) -> str:
    """What to add to a number of CPUs that the job did not ask for itself: where it comes from, and what changes it."""
    return "" if pool.cpus is not None else _explain_default(pool, "resources.cpus")


def explain_memory(pool: PoolRequest) -> str:
    """The same of an amount of memory."""
    return "" if pool.memory_bytes is not None else _explain_default(pool, "resources.memory_gib")


def build_create_body(
    request: LaunchRequest, allotment: Allotment, facts: HostFacts, settings: HostSettings, secrets_dir: str
) -> dict[str, object]:
    """The create call's body. Nothing in it is secret: secrets are files below `secrets_dir`."""
    body: dict[str, object] = {
        "Image": request.image,
        "Entrypoint": ["bash"],
        "Cmd": list(request.command),
        "WorkingDir": request.workdir,
        "Env": _build_env(request, allotment, settings.gpu_runtime),
        "Labels": _build_labels(request, allotment, facts, settings),
        "Healthcheck": {"Test": ["NONE"]},
        "StopSignal": "SIGTERM",
        "StopTimeout": round(request.grace_s) + KILL_AFTER_GRACE_S,
        "HostConfig": _build_host_config(request, allotment, facts, settings, secrets_dir),
    }
    if request.user is not None:
        body["User"] = request.user
    return body


def _explain_default(pool: PoolRequest, key: str) -> str:
    if pool.gpus_per_node:
        return say("share.with_gpus", n=pool.gpus_per_node, key=key)
    return say("share.without_gpus", key=key)


def _build_env(request: LaunchRequest, allotment: Allotment, runtime: GpuRuntime) -> list[str]:
    env = dict(request.env)
    if runtime is not GpuRuntime.NONE:
        # The container sees its own GPUs alone, counted from 0; a UUID in this variable breaks some programs.
        env.pop(_CUDA_VISIBLE, None)
    env |= {
        ENV_ATTEMPT: request.attempt,
        ENV_NODE_RANK: "0",
        ENV_CAPSULE_DIGEST: request.capsule_digest,
        ENV_INGEST_URL: request.ingest_url,
        _VISIBLE: _name_visible(allotment.gpus, runtime),
    }
    if allotment.port is not None:
        env[ENV_PORT_BASE] = str(allotment.port)
    return [f"{name}={value}" for name, value in env.items()]


def _name_visible(gpus: tuple[str, ...], runtime: GpuRuntime) -> str:
    # With CDI the engine injects the devices itself, and the vendor's hook must add none.
    return ",".join(gpus) if gpus and runtime is not GpuRuntime.CDI else "void"


def _build_labels(
    request: LaunchRequest, allotment: Allotment, facts: HostFacts, settings: HostSettings
) -> Mapping[str, str]:
    own = {
        labels.INSTALL: request.install,
        labels.FLEET: request.fleet,
        labels.NODE: settings.node,
        labels.JOB: request.job,
        labels.ATTEMPT: request.attempt,
        labels.CPUS: f"{allotment.share.cpus:g}",
        labels.MEMORY: str(allotment.share.memory_bytes),
        labels.BOOT: facts.boot,
    }
    own[labels.PORT] = "" if allotment.port is None else str(allotment.port)
    own[labels.GPUS] = str(len(allotment.gpus))
    own |= {f"{labels.GPU_PREFIX}{index}": gpu for index, gpu in enumerate(allotment.gpus)}
    # A request's own labels may not speak of allocations.
    given = {
        name: value
        for name, value in request.labels.items()
        if name not in labels.OWN and not name.startswith(labels.GPU_PREFIX)
    }
    return given | own


def _build_host_config(
    request: LaunchRequest, allotment: Allotment, facts: HostFacts, settings: HostSettings, secrets_dir: str
) -> dict[str, object]:
    memory = allotment.share.memory_bytes
    config: dict[str, object] = {
        "NetworkMode": request.network.value,
        "Init": True,
        "Privileged": False,
        "Mounts": [_build_mount(mount) for mount in _list_mounts(request, facts, secrets_dir)],
        "Ulimits": [{"Name": name, "Soft": limit, "Hard": limit} for name, limit in facts.limits.items()],
        "ShmSize": memory // 2 if request.shm_bytes is None else request.shm_bytes,
        "NanoCpus": round(min(allotment.share.cpus, facts.cpus) * _NANO),
        "Memory": memory,
        "MemorySwap": memory,
        "PidsLimit": _PIDS,
        "LogConfig": _LOG,
        "RestartPolicy": {"Name": "no"},
    }
    if request.network is Network.BRIDGE:
        config["ExtraHosts"] = [f"{OWN_NAME}:host-gateway"]
    devices = _build_device_requests(allotment.gpus, settings.gpu_runtime)
    if devices:
        config["DeviceRequests"] = devices
    return config


def _list_mounts(request: LaunchRequest, facts: HostFacts, secrets_dir: str) -> list[Mount]:
    """Those of the request, and by themselves those that lie below what is only read.

    Engines make what they mount read-only, and leave what is mounted below it as it is: jobs could write there.
    """
    given = [*request.mounts, Mount(secrets_dir, SECRETS_DIR, read_only=True)]
    below = [
        Mount(place, f"{mount.target.rstrip('/')}/{place.removeprefix(f'{mount.source}/')}", read_only=True)
        for mount in given
        for place in facts.mounted
        if mount.read_only and place.startswith(f"{mount.source}/")
    ]
    # What the request itself says of a place counts, and of several roots around it any.
    return list({mount.target: mount for mount in (*below, *given)}.values())


def _build_mount(mount: Mount) -> dict[str, object]:
    built = {"Type": "bind", "Source": mount.source, "Target": mount.target, "ReadOnly": mount.read_only}
    return {**built, "BindOptions": {"NonRecursive": True}} if mount.read_only else built


def _build_device_requests(gpus: tuple[str, ...], runtime: GpuRuntime) -> list[dict[str, object]]:
    # An empty list of ids would start a container without any GPU and without any error.
    if not gpus:
        return []
    match runtime:
        case GpuRuntime.NVIDIA:
            return [{"Driver": "nvidia", "DeviceIDs": list(gpus), "Capabilities": [["gpu"]]}]
        case GpuRuntime.CDI:
            return [{"Driver": "cdi", "DeviceIDs": [f"nvidia.com/gpu={gpu}" for gpu in gpus]}]
        case GpuRuntime.NONE:
            return []

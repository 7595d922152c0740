"""Checks of the engine, of how GPUs reach containers, of the GPUs themselves and of the disk for images."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starforge.containers.engine import Document, Engine
from starforge.containers.gpus import WITHOUT_GPUS, NotKnown
from starforge.containers.settings import GpuRuntime
from starforge.errors import StarForgeError
from starforge_forgelet.findings import Finding, failed, passed, unchecked, warned
from starforge_forgelet.node import build_gpus
from starforge_forgelet.settings import NodeSettings
from starforge_forgelet.state import NodeIdentity

_HOOK: Final = "nvidia-container-runtime-hook"
_CDI_KIND: Final = "nvidia.com/gpu"
_CDI_DIRS: Final = ("/etc/cdi", "/var/run/cdi")
_LITTLE_BYTES: Final = 20 << 30
_GIB: Final = 1 << 30
_NO_ENGINE: Final = "the engine does not answer"


@dataclass(frozen=True, slots=True)
class Described:
    """What came of asking the engine; `told` is its description of itself, None when it did not answer."""

    finding: Finding
    told: Document | None


def check_engine(engine: Engine) -> Described:
    """Whether the engine answers, and whether it keeps containers when it restarts itself."""
    try:
        told = engine.info()
    except StarForgeError as error:
        advice = error.next_step or "start Docker, or name its socket in FORGE_DOCKER_SOCKET"
        return Described(failed("engine", f"{engine.socket_path}: {error.what}: {error.why}", advice), None)
    name = f"Docker {told.get('ServerVersion', 'of unknown version')}"
    if told.get("LiveRestoreEnabled"):
        return Described(passed("engine", name), told)
    advice = 'set "live-restore": true in /etc/docker/daemon.json, then: systemctl reload docker'
    return Described(warned("engine", f"{name} ends every job when it is restarted itself", advice), told)


def check_gpu_runtime(settings: NodeSettings, told: Document | None) -> Finding:
    """Whether the engine can attach GPUs in the way that FORGE_GPU_RUNTIME names."""
    name, runtime = "gpu_runtime", settings.gpu_runtime
    if runtime is GpuRuntime.NONE:
        return passed(name, "FORGE_GPU_RUNTIME=none: GPUs of this machine are in name alone")
    if told is None:
        return unchecked(name, _NO_ENGINE, "mend the engine first")
    if runtime is GpuRuntime.NVIDIA:
        if "nvidia" in told.get("Runtimes", {}) or shutil.which(_HOOK):
            return passed(name, "the engine has NVIDIA's runtime")
        return failed(
            name,
            "FORGE_GPU_RUNTIME is nvidia, and the engine has no such runtime",
            "install nvidia-container-toolkit, run 'nvidia-ctk runtime configure --runtime=docker' and restart Docker",
        )
    folders = [Path(folder) for folder in told.get("CDISpecDirs") or _CDI_DIRS]
    if any(_names_gpus(path) for folder in folders for path in _list_files(folder)):
        return passed(name, f"a CDI specification of {_CDI_KIND} is there")
    return failed(
        name,
        f"FORGE_GPU_RUNTIME is cdi, and {', '.join(map(str, folders))} name no {_CDI_KIND}",
        "run 'nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml'; Docker before 28 needs its cdi feature too",
    )


def check_gpus(settings: NodeSettings, identity: NodeIdentity | None) -> Finding:
    """Which GPUs there are."""
    survey = build_gpus(settings, identity.node if identity else "doctor").survey()
    if isinstance(survey, NotKnown):
        return failed("gpus", f"not known: {survey.reason}", f"mend the driver; {WITHOUT_GPUS}")
    names = sorted({gpu.name for gpu in survey.gpus})
    message = f"{len(survey.gpus)} GPUs{': ' if names else ''}{', '.join(names)}"
    if survey.complaints:
        return warned("gpus", f"{message}; {'; '.join(survey.complaints)}", "see 'forgelet gpus'")
    return passed("gpus", message)


def check_disk(told: Document | None) -> Finding:
    """Room where the engine keeps images."""
    root = None if told is None else told.get("DockerRootDir")
    if not root:
        return unchecked("disk", _NO_ENGINE, "mend the engine first")
    try:
        usage = shutil.disk_usage(str(root))
    except OSError as error:
        return unchecked("disk", f"{root}: {error.strerror}", "run this on the engine's own machine, as root")
    message = f"{usage.free // _GIB} of {usage.total // _GIB} GiB are free in {root}"
    if usage.free < _LITTLE_BYTES:
        return warned(
            "disk", message, "images of training jobs take tens of GiB: 'docker image prune', or a larger disk"
        )
    return passed("disk", message)


def _list_files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix in {".yaml", ".yml", ".json"})
    except OSError:
        return []


def _names_gpus(path: Path) -> bool:
    try:
        return _CDI_KIND in path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False

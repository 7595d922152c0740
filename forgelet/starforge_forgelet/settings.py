"""What a node is told by its environment: read once, checked, passed in. The console's choices come with joining."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starforge.containers.settings import GpuRuntime, find_secrets_root
from starforge.contract.launch import Secret
from starforge.errors import ProjectError

MOST_GPUS: Final = 64
"""More than any machine has: a typing error rather than a ceiling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """Settings of one machine.

    Attributes:
        state_dir: FORGE_NODE_STATE_DIR: identity and credential; 0700, on a local disk.
        storage_root: FORGE_STORAGE_ROOT: the shared folder, at the console's path; None takes what the console says.
        gpu_runtime: FORGE_GPU_RUNTIME: how GPUs reach a container; never guessed.
        gpu_count: FORGE_LOCAL_GPU_COUNT: offer at most so many; 0 offers all that are found.
        gpu_name: FORGE_LOCAL_GPU_NAME: the name of made-up GPUs.
        docker_socket: FORGE_DOCKER_SOCKET: the socket of this machine's engine.
        secrets_dir: FORGE_SECRETS_DIR: secrets of running jobs; a tmpfs.
        legacy_token: FORGE_NODE_TOKEN: lets in a console that names this machine in its own settings.

    """

    state_dir: Path
    storage_root: Path | None
    gpu_runtime: GpuRuntime
    gpu_count: int
    gpu_name: str
    docker_socket: Path
    secrets_dir: Path
    legacy_token: Secret | None


def load_settings(environment: Mapping[str, str] | None = None) -> NodeSettings:
    """The settings in `environment`, this process's when there is none given.

    Raises:
        ProjectError: with every fault at once, each with the name of its variable.

    """
    reader = _Reader(os.environ if environment is None else environment)
    token = reader.text("FORGE_NODE_TOKEN", "")
    settings = NodeSettings(
        state_dir=reader.path("FORGE_NODE_STATE_DIR", Path.home() / ".starforge-forgelet"),
        storage_root=reader.optional_path("FORGE_STORAGE_ROOT"),
        gpu_runtime=reader.runtime("FORGE_GPU_RUNTIME"),
        gpu_count=reader.count("FORGE_LOCAL_GPU_COUNT", MOST_GPUS),
        gpu_name=reader.text("FORGE_LOCAL_GPU_NAME", ""),
        docker_socket=reader.path("FORGE_DOCKER_SOCKET", Path("/var/run/docker.sock")),
        secrets_dir=reader.path("FORGE_SECRETS_DIR", find_secrets_root()),
        legacy_token=Secret(token) if token else None,
    )
    if reader.faults:
        raise ProjectError(
            f"{len(reader.faults)} settings cannot be used" if len(reader.faults) > 1 else "a setting cannot be used",
            why="; ".join(reader.faults),
            next_step="correct what is listed and start again",
        )
    return settings


def require_storage_root(settings: NodeSettings, told: str) -> None:
    """Raises ProjectError when the setting names another folder than the console has `told`."""
    own = settings.storage_root
    if own is not None and str(own) != told:
        raise ProjectError(
            f"FORGE_STORAGE_ROOT is {own} here and {told} on the console",
            why="the share must be mounted at the same path on the console and on every machine",
            next_step="mount it there, or correct the setting, then join again",
        )


class _Reader:
    """Reads one environment and collects what is wrong with it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self.faults: list[str] = []

    def text(self, name: str, default: str) -> str:
        return self._environment.get(name, "").strip() or default

    def optional_path(self, name: str) -> Path | None:
        given = self.text(name, "")
        if not given:
            return None
        path = Path(given).expanduser()
        if not path.is_absolute():
            self.faults.append(f"{name} is {given!r} and must be an absolute path")
        return path

    def path(self, name: str, default: Path) -> Path:
        return self.optional_path(name) or default

    def count(self, name: str, most: int) -> int:
        given = self.text(name, "0")
        if given.isascii() and given.isdigit() and int(given) <= most:
            return int(given)
        self.faults.append(f"{name} is {given!r} and must be a whole number from 0 to {most}")
        return 0

    def runtime(self, name: str) -> GpuRuntime:
        given = self.text(name, GpuRuntime.NVIDIA.value)
        known = {runtime.value: runtime for runtime in GpuRuntime}
        if given not in known:
            self.faults.append(f"{name} is {given!r} and must be one of {', '.join(known)}")
        return known.get(given, GpuRuntime.NVIDIA)

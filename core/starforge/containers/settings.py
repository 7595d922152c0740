"""What one host's containers need to be told: given by whoever builds a ContainerHost, read nowhere else."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class GpuRuntime(StrEnum):
    """How GPUs reach a container. Never guessed: the wrong one is an error at the start."""

    NVIDIA = "nvidia"
    CDI = "cdi"
    NONE = "none"
    """Labels and variables alone: machines without GPUs, and tests."""


@dataclass(frozen=True, slots=True)
class StorageMark:
    """What `.starforge-storage` in the storage root must hold; anything else means that the share is not mounted."""

    root: Path
    content: str


def find_secrets_root() -> Path:
    """`/run/starforge` for root, else `starforge` in `$XDG_RUNTIME_DIR` or `/run/user/<uid>`."""
    if os.geteuid() == 0:
        return Path("/run/starforge")
    return Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}") / "starforge"


def _find_none() -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSettings:
    """Settings of one host.

    Attributes:
        install: The install whose containers these are; others' are foreign.
        node: This machine's name in its fleet.
        state_dir: Fences and what became of failed launches; must survive a reboot.
        secrets_root: On tmpfs and seen by the engine under the same path.
        storage: The share to check before each launch; None where there is none to check.
        gpu_runtime: How GPUs reach a container.
        lock_dir: Where every process that launches on this engine finds the same lock.
        pull_stall_s: A pull without progress for so long is given up.
        lock_timeout_s: How long a launch waits for others on this engine.
        port_base: First port of the blocks that jobs on the host's network get.
        engine_pid_file: Names the engine's process where its socket was opened by another one.
        boot_id_file: Names the machine's boot; what was allocated before another one is void.
        find_hindrance: Why nothing may start at this moment, or an empty string; asked right before a container is
            created and again before it is started, so that a process that was frozen in between starts nothing late.

    """

    install: str
    node: str
    state_dir: Path
    secrets_root: Path
    gpu_runtime: GpuRuntime
    storage: StorageMark | None = None
    lock_dir: Path = Path("/run/lock")
    pull_stall_s: float = 600.0
    lock_timeout_s: float = 60.0
    port_base: int = 24000
    engine_pid_file: Path = Path("/run/docker.pid")
    boot_id_file: Path = Path("/proc/sys/kernel/random/boot_id")
    find_hindrance: Callable[[], str] = _find_none

"""Facts of the machine and of its engine that launches are built from."""

import os
import platform
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from starforge.containers.engine import Engine
from starforge.mounts import list_mounted

_CAP_SYS_RESOURCE: Final = 1 << 24
UNLIMITED: Final = -1
WANTED_LIMITS: Final = {"nofile": 1048576, "memlock": UNLIMITED}
_LIMIT_TITLES: Final = {"nofile": "Max open files", "memlock": "Max locked memory"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """One machine as its engine describes it.

    `limits` are the hard resource limits a container is given (-1: unlimited); a name that is missing is not set, so
    that the container inherits the engine's.
    """

    engine_id: str
    root_dir: str
    cpus: float
    memory_bytes: int
    architecture: str
    boot: str
    limits: dict[str, int]
    listening: frozenset[int] = frozenset()
    """Ports that somebody listens on, where the request needs some of the machine's own."""
    mounted: tuple[str, ...] = ()
    """Where something is mounted, as the engine sees it."""


class KnownFacts:
    """The facts of one engine, asked anew when its process has changed."""

    def __init__(self, engine: Engine, pid_file: Path, boot_id_file: Path) -> None:
        self._engine = engine
        self._pid_file = pid_file
        self._boot_id_file = boot_id_file
        self._known: tuple[int | None, HostFacts] | None = None
        self._unsettable: set[str] = set()
        self._start_times: dict[tuple[int, int], float] = {}

    def load(self) -> HostFacts:
        """What is known of the machine. Raises BackendUnreachable or EngineError."""
        process = find_engine_process(self._engine, self._pid_file)
        known = self._known
        if known is None or process is None or known[0] != process:
            known = self._known = (process, load_facts(self._engine, process, self._boot_id_file))
        facts = known[1]
        settable = {name: limit for name, limit in facts.limits.items() if name not in self._unsettable}
        return replace(facts, limits=settable, mounted=_find_mounted(process))

    def find_start_time(self) -> float | None:
        """When the engine was started, where this system tells; the same number as long as it is the same engine."""
        process = find_engine_process(self._engine, self._pid_file)
        ticks = None if process is None else find_start_ticks(process)
        if process is None or ticks is None:
            return None
        return self._start_times.setdefault((process, ticks), convert_ticks(ticks))

    def forget_limit(self, name: str) -> bool:
        """Never set this limit again: the engine may not. False when it was not set anyway."""
        if name not in WANTED_LIMITS or name in self._unsettable:
            return False
        self._unsettable.add(name)
        return True


def load_facts(engine: Engine, process: int | None, boot_id_file: Path) -> HostFacts:
    """Ask the engine, whose own process is `process`, and the kernel. Raises BackendUnreachable or EngineError."""
    described = engine.info()
    return HostFacts(
        engine_id=str(described["ID"]),
        root_dir=str(described["DockerRootDir"]),
        cpus=float(described["NCPU"]),
        memory_bytes=int(described["MemTotal"]),
        architecture=_name_architecture(str(described.get("Architecture") or platform.machine())),
        boot=boot_id_file.read_text().strip(),
        limits=dict(WANTED_LIMITS) if process is None else clip_limits(Path(f"/proc/{process}")),
    )


def find_engine_process(engine: Engine, pid_file: Path) -> int | None:
    """The engine's process, or None where this system does not tell.

    Under systemd the socket may have been opened by process 1 for the engine; then its pid file is asked.
    """
    listener = engine.find_listener()
    if listener is not None and _is_engine(listener):
        return listener
    try:
        named = int(pid_file.read_text())
    except (OSError, ValueError):
        return None
    return named if _is_engine(named) else None


def find_start_ticks(process: int) -> int | None:
    """When `process` was started, in the kernel's ticks since the machine's boot."""
    try:
        after_name = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(after_name[19])


def convert_ticks(ticks: int) -> float:
    """A time in ticks since the boot as Unix seconds, by the clock as it stands now."""
    return time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))


def clip_limits(process: Path) -> dict[str, int]:
    """What a container may be given: all that is wanted where the engine may raise limits, else its own hard ones."""
    try:
        status = (process / "status").read_text()
        limits = (process / "limits").read_text()
    except OSError:
        return dict(WANTED_LIMITS)
    effective = next((line for line in status.splitlines() if line.startswith("CapEff:")), "CapEff: 0")
    if int(effective.split()[1], 16) & _CAP_SYS_RESOURCE:
        return dict(WANTED_LIMITS)
    return {name: _clip(wanted, _read_hard(limits, _LIMIT_TITLES[name])) for name, wanted in WANTED_LIMITS.items()}


def _find_mounted(process: int | None) -> tuple[str, ...]:
    """What the engine's process sees mounted; where that is not told, what this one sees."""
    for whose in ("self",) if process is None else (str(process), "self"):
        try:
            return list_mounted(Path("/proc", whose, "mounts").read_bytes())
        except OSError:
            continue
    return ()


def _read_hard(limits: str, title: str) -> int:
    line = next((line for line in limits.splitlines() if line.startswith(title)), "")
    words = line.removeprefix(title).split()
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else UNLIMITED


def _clip(wanted: int, hard: int) -> int:
    if hard == UNLIMITED:
        return wanted
    return hard if wanted == UNLIMITED else min(wanted, hard)


def _is_engine(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/comm").read_text().strip() == "dockerd"
    except OSError:
        return False


def _name_architecture(machine: str) -> str:
    """Images name architectures in another way than the kernel does."""
    return {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}.get(machine, machine)

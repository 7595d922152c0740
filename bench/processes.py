"""What a process has used, as the kernel counts it."""

from pathlib import Path


def read_cpu_s(pid: int) -> float:
    """Seconds of CPU that the process's present threads have run, to the nanosecond."""
    return sum(_read_run_ns(task) for task in Path(f"/proc/{pid}/task").iterdir()) / 1e9


def read_memory_bytes(pid: int) -> int:
    """What of the process lies in memory now."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "VmRSS":
            return int(value.split()[0]) << 10
    raise ProcessLookupError(f"process {pid} has no memory: it has ended")


def _read_run_ns(task: Path) -> int:
    try:
        return int((task / "schedstat").read_text().split()[0])
    except FileNotFoundError:  # a thread that ended just now
        return 0

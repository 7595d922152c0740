"""Counters of the container's memory and processor, read from the cgroup, version 2 or 1; what is missing is None."""

from __future__ import annotations

from typing import Dict, Optional

_V2 = "/sys/fs/cgroup"
_V1 = "/sys/fs/cgroup/memory"
_V1_CPU = "/sys/fs/cgroup/cpuacct"


def find_memory_counters(v2: str = _V2, v1: str = _V1) -> Dict[str, Optional[int]]:
    """Give oom, oom_kill, peak_bytes, current_bytes and limit_bytes of this container's own cgroup."""
    events = _find_table(f"{v2}/memory.events")
    if events or _find_number(f"{v2}/memory.current") is not None:
        return {
            "oom": events.get("oom"),
            "oom_kill": events.get("oom_kill"),
            "peak_bytes": _find_number(f"{v2}/memory.peak"),
            "current_bytes": _find_number(f"{v2}/memory.current"),
            "limit_bytes": _find_number(f"{v2}/memory.max"),
        }
    control = _find_table(f"{v1}/memory.oom_control")
    return {
        "oom": None,  # version 1 counts failed charges, which are no sign of an end
        "oom_kill": control.get("oom_kill"),
        "peak_bytes": _find_number(f"{v1}/memory.max_usage_in_bytes"),
        "current_bytes": _find_number(f"{v1}/memory.usage_in_bytes"),
        "limit_bytes": _find_number(f"{v1}/memory.limit_in_bytes"),
    }


def find_cpu_s(v2: str = _V2, v1: str = _V1_CPU) -> Optional[float]:
    """Give the seconds of processor time that this container has used."""
    used = _find_table(f"{v2}/cpu.stat").get("usage_usec")
    if used is not None:
        return used / 1e6
    used = _find_number(f"{v1}/cpuacct.usage")
    return None if used is None else used / 1e9


def _find_text(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except (OSError, ValueError):
        return ""


def _find_number(path: str) -> Optional[int]:
    text = _find_text(path).strip()
    return int(text) if text.isdigit() else None  # memory.max says "max" where there is no limit


def _find_table(path: str) -> Dict[str, int]:
    rows = (line.split() for line in _find_text(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}  # noqa: PLR2004 - name, number

"""How busy the container is: GPUs, processor, memory, disk and network, sampled beside the training process.

Each sample is an event of its node, and on the leader a point of the curves below `system/`. What cannot be read is
left out: it is never 0.
"""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Dict, List, Optional, Tuple

from starforge.contract.capsule import SYSTEM_METRICS
from starforge.runner.gpus import Nvml
from starforge.runner.memory import find_cpu_s, find_memory_counters
from starforge.runner.spool import Spool
from starforge.runner.steps import Steps

_FIRST_S = 1.0
_SHORTEST_S = 1.0
_NETWORK = "/proc/net/dev"
_RECEIVED, _SENT = 0, 8  # columns behind the interface's name
_COLUMNS = 16


class Sampler:
    """Samples every `period_s` seconds until `end`; `out` is the folder whose disk is looked at."""

    def __init__(self, spool: Spool, out: str, period_s: float, *, is_leader: bool) -> None:
        self._spool = spool
        self._out = out
        self._period_s = max(period_s, _SHORTEST_S)
        self._is_leader = is_leader
        self._is_ending = threading.Event()

    def start(self, steps: Steps) -> None:
        """Begin, in a thread that nobody waits for: a driver that lost its GPU, or a dead share, may never answer."""
        threading.Thread(target=lambda: steps.attend("sampling usage", self._run, None), daemon=True).start()

    def end(self) -> None:
        """Sample no more."""
        self._is_ending.set()

    def _run(self) -> None:
        nvml, counters = Nvml(), Counters()
        counters.find_rates()
        wait_s = min(_FIRST_S, self._period_s)
        while not self._is_ending.wait(wait_s):
            wait_s = self._period_s
            memory, gpus = find_memory_counters(), nvml.sample()
            values = build_values(memory, gpus, {**counters.find_rates(), **find_disk(self._out)})
            if self._is_ending.is_set():
                return
            self._spool.event("usage", memory=memory, gpus=gpus)
            if self._is_leader and values:
                self._spool.metrics(_build_line(values, time.time()))


class Counters:
    """Counters that only grow, told as how much they grew a second."""

    def __init__(self, network: str = _NETWORK) -> None:
        self._network = network
        self._before: Dict[str, Tuple[float, float]] = {}

    def find_rates(self) -> Dict[str, float]:
        """Give each rate since the last call; none of what is not there, or is counted anew."""
        now, rates = time.monotonic(), {}
        for name, total in self._find_totals().items():
            before, self._before[name] = self._before.get(name), (now, total)
            if before is not None and now > before[0] and total >= before[1]:
                rates[name] = (total - before[1]) / (now - before[0])
        return rates

    def _find_totals(self) -> Dict[str, float]:
        totals: Dict[str, float] = {}
        cpu_s = find_cpu_s()
        if cpu_s is not None:
            totals["cpu_percent"] = cpu_s * 100
        traffic = find_traffic(self._network)
        if traffic is not None:
            totals["network_received_bytes_per_s"], totals["network_sent_bytes_per_s"] = traffic
        return totals


def find_traffic(path: str = _NETWORK) -> Optional[Tuple[int, int]]:
    """Give (received, sent) bytes of all interfaces but the loopback; None where there is no other."""
    try:
        with open(path, encoding="ascii") as file:
            lines = [line.partition(":") for line in file.read().splitlines()]
    except (OSError, ValueError):
        return None
    rows = [counts.split() for name, colon, counts in lines if colon and name.strip() != "lo"]
    rows = [row for row in rows if len(row) >= _COLUMNS and all(count.isdigit() for count in row)]
    return (sum(int(row[_RECEIVED]) for row in rows), sum(int(row[_SENT]) for row in rows)) if rows else None


def find_disk(path: str) -> Dict[str, float]:
    """Give the bytes that are free for the job where `path` lies; nothing where that cannot be told."""
    try:
        found = os.statvfs(path)
    except OSError:
        return {}
    return {"disk_free_bytes": float(found.f_bavail * found.f_frsize)}


def build_values(
    memory: Dict[str, Optional[int]], gpus: List[Dict[str, Optional[float]]], others: Dict[str, float]
) -> Dict[str, float]:
    """Build the values of one sample by the names of their curves."""
    values = {f"{SYSTEM_METRICS}{name}": value for name, value in others.items()}
    if memory.get("current_bytes") is not None:
        values[f"{SYSTEM_METRICS}memory_used_bytes"] = float(memory["current_bytes"] or 0)
    for index, gpu in enumerate(gpus):
        values.update((f"{SYSTEM_METRICS}gpu{index}/{name}", value) for name, value in gpu.items() if value is not None)
    return values


def _build_line(values: Dict[str, float], now: float) -> bytes:
    # The step is the second: it grows over all attempts, whatever steps the training counts.
    line = {"time": now, "step": int(now), "values": {name: round(value, 3) for name, value in values.items()}}
    return json.dumps(line, separators=(",", ":")).encode("ascii") + b"\n"

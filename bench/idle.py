"""What a console costs before anybody asks it for anything."""

import statistics
import time
from typing import Final

from bench.figures import Figure, Orientation, timed
from bench.ground import Ground
from bench.processes import read_cpu_s, read_memory_bytes
from e2e.support.console import ConsoleProcess

_STARTS: Final = 3
_IDLE_S: Final = 10.0


def console_idle(ground: Ground) -> list[Figure]:
    """Start until it answers, memory and CPU of one that has nothing to do."""
    with ground.console() as console:
        starts = [_restart(console) for _ in range(_STARTS)]
        pid = _pid_of(console)
        before = read_cpu_s(pid)
        time.sleep(_IDLE_S)
        share = (read_cpu_s(pid) - before) / _IDLE_S
        return [
            Orientation("console_start", statistics.median(starts), "s", aim="<=1.5", detail=f"n={_STARTS}"),
            Orientation("console_idle_mb", read_memory_bytes(pid) / 1e6, "MB", aim="<=120"),
            Orientation("idle_cpu", share * 100, "%", aim="<=0.5", detail=f"of one core, over {_IDLE_S:g} s"),
        ]


def _restart(console: ConsoleProcess) -> float:
    console.stop()
    return timed(console.start)()


def _pid_of(console: ConsoleProcess) -> int:
    if console.process is None:
        raise ProcessLookupError("the console does not run")
    return console.process.pid

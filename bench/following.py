"""How long a line of a job's log is on its way until whoever follows the job reads it."""

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from bench.figures import Figure, Orientation
from bench.ground import Ground
from e2e.support.projects import Experiment, make_experiment

_LINES: Final = 60
_FIRST: Final = 10
_AT_MOST_MS: Final = 100.0
_SCRIPT: Final = f"sleep 3; for ((i = 0; i < {_LINES}; i++)); do echo $EPOCHREALTIME; sleep 0.1; done"


def log_lag(ground: Ground) -> list[Figure]:
    """From the job's write to the line in the output of `sf job logs -f`, by the one clock of this machine."""
    with ground.console() as console:
        experiment = make_experiment(console, ground.image, _SCRIPT, "first")
        waits_ms = _follow(experiment, experiment.submit())
    middle, late = statistics.median(waits_ms), statistics.quantiles(waits_ms, n=10)[-1]
    detail = f"{len(waits_ms)} lines, one each 100 ms"
    return [
        Orientation("log_lag", middle, "ms", aim=f"<={_AT_MOST_MS:g}", detail=f"median, {detail}"),
        Orientation("log_lag_p90", late, "ms", aim=f"<={_AT_MOST_MS:g}", detail=detail),
    ]


def _follow(experiment: Experiment, job: str) -> list[float]:
    """How long each line was on its way, in milliseconds; the first ones are still being caught up with."""
    argv = [str(Path(sys.executable).with_name("sf")), "job", "logs", "-f", job]
    waits_ms: list[float] = []
    with subprocess.Popen(
        argv,
        cwd=experiment.project,
        env=experiment.console.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        if process.stdout is None:
            raise RuntimeError("the follower has no pipe")
        for line in process.stdout:
            seen_at = time.time()
            if line.strip().replace(b".", b"").isdigit():
                waits_ms.append((seen_at - float(line)) * 1e3)
    if len(waits_ms) != _LINES:
        raise RuntimeError(f"{len(waits_ms)} of {_LINES} lines came")
    return waits_ms[_FIRST:]

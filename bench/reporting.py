"""What `report.log` costs a training, over writing the same bytes to a file without a buffer."""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench.figures import Figure, Ratio, Skipped, compare
from bench.ground import Ground, Unmeasurable
from bench.peers import open_peer

_AT_MOST: Final = 5.0
_WANDB_AT_LEAST: Final = 10.0
_PEER_ROUNDS: Final = 3
_PROGRAM: Final = """
import json, os, sys, time
from starforge import reporting as report
CALLS, ROUNDS = 4000, 15
values = {f"metric_{n}": 0.1234567 * n for n in range(1, 11)}
report.log(values, step=0)
line = open(os.environ["FORGE_REPORT_FILE"], "rb").readline()
plain = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def ours():
    for step in range(CALLS):
        report.log(values, step=step)

def theirs():
    for _ in range(CALLS):
        os.write(plain, line)

def cost(work):
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) / CALLS

pairs = []
for number in range(ROUNDS):
    if number % 2:
        other = cost(theirs)
        pairs.append((cost(ours), other))
    else:
        mine = cost(ours)
        pairs.append((mine, cost(theirs)))
print(json.dumps(pairs))
"""

_OURS: Final = "from starforge import reporting\nlog = reporting.log\nfinish = lambda: None\n"
_WANDB: Final = """
import sys, wandb
settings = wandb.Settings(silent=True, disable_git=True, disable_code=True, x_disable_stats=True)
run = wandb.init(mode="offline", project="bench", dir=sys.argv[1], settings=settings)
log, finish = run.log, run.finish
"""
_CALLS: Final = """
import time
values = {f"metric_{n}": 0.1234567 * n for n in range(1, 11)}
for step in range(100):
    log(values, step=step)
began = time.perf_counter()
for step in range(100, 2100):
    log(values, step=step)
took = time.perf_counter() - began
finish()
print(took / 2000)
"""


def report_call(ground: Ground) -> list[Figure]:
    """One call with 10 keys over `os.write` of the line that it writes."""
    folder = ground.folder()
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(folder / "plain")],
        env=_build_environment(folder),
        check=True,
        capture_output=True,
    )
    pairs: list[tuple[float, float]] = json.loads(done.stdout)
    mine, other = (statistics.median(costs) * 1e6 for costs in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    figures: list[Figure] = [Ratio("report_call", ratio, _AT_MOST, detail=f"{mine:.1f} over {other:.1f} us")]
    try:
        return [*figures, _compare_wandb(ground)]
    except Unmeasurable as error:
        return [*figures, Skipped("report_call_over_wandb", str(error))]


def _compare_wandb(ground: Ground) -> Figure:
    """The cost of the call in the training's own process, its work in the background left out for both."""
    peer = open_peer("wandb", ground.folder())
    pairs = compare(
        lambda: _cost_of_call(peer.python, _WANDB, peer.environment, str(peer.home)),
        lambda: _cost_of_call(Path(sys.executable), _OURS, _build_environment(ground.folder())),
        _PEER_ROUNDS,
    )
    detail = f"offline, {pairs.describe('us', 1e6)}"
    return Ratio("report_call_over_wandb", pairs.ratio, _WANDB_AT_LEAST, at_least=True, detail=detail)


def _build_environment(folder: Path) -> dict[str, str]:
    file = folder / "report.jsonl"
    file.touch()
    return {"PATH": os.environ["PATH"], "FORGE_REPORT_FILE": str(file)}


def _cost_of_call(python: Path, program: str, environment: Mapping[str, str], *arguments: str) -> float:
    command = [str(python), "-c", program + _CALLS, *arguments]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])

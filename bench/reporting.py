"""What `report.log` costs a training, over writing the same bytes to a file without a buffer."""

import json
import os
import shutil
import statistics
import subprocess
import sys
from typing import Final

from bench.figures import Figure, Ratio, Skipped
from bench.ground import Ground

_AT_MOST: Final = 5.0
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


def report_call(ground: Ground) -> list[Figure]:
    """One call with 10 keys over `os.write` of the line that it writes."""
    folder = ground.folder()
    file = folder / "report.jsonl"
    file.touch()
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(folder / "plain")],
        env={"PATH": os.environ["PATH"], "FORGE_REPORT_FILE": str(file)},
        check=True,
        capture_output=True,
    )
    pairs: list[tuple[float, float]] = json.loads(done.stdout)
    mine, other = (statistics.median(costs) * 1e6 for costs in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    figures: list[Figure] = [Ratio("report_call", ratio, _AT_MOST, detail=f"{mine:.1f} over {other:.1f} us")]
    missing = "installed, but not compared yet" if shutil.which("wandb") else "wandb is not installed"
    return [*figures, Skipped("report_call_over_wandb", missing)]

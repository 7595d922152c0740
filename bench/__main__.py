"""`make bench` and `make bench B=name`: every figure on a line of its own, those that decide first.

A figure that misses its target does not fail the command: a busy machine is no fault. A bench that breaks does.
"""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from bench import (
    commands,
    following,
    idle,
    ingesting,
    nodes,
    packing,
    pages,
    queueing,
    readers,
    reporting,
    scheduling,
    serving,
    submitting,
)
from bench.figures import Figure, Skipped
from bench.ground import Ground, Unmeasurable
from starforge_console.settings.console import LogFormat
from starforge_console.telemetry.log import set_up_log

Bench = Callable[[Ground], list[Figure]]

BENCHES: Final[Mapping[str, Bench]] = {
    "submit_to_start_local": submitting.submit_to_start_local,
    "submit_to_start_node": submitting.submit_to_start_node,
    "submit_cli": submitting.submit_cli,
    "observe": nodes.observe,
    "node_daemon": nodes.node_daemon,
    "console_idle": idle.console_idle,
    "cli_help": commands.cli_help,
    "cli_job_ls": commands.cli_job_ls,
    "runner_start": commands.runner_start,
    "report_call": reporting.report_call,
    "pack": packing.pack,
    "schedule_pass": queueing.schedule_pass,
    "schedule_pass_rules": queueing.schedule_pass_rules,
    "schedule_pass_history": queueing.schedule_pass_history,
    "placements": scheduling.placements,
    "api": serving.api,
    "submit_rate": serving.submit_rate,
    "ingest": ingesting.ingest,
    "curve_read": ingesting.curve_read,
    "log_lag": following.log_lag,
    "followers": readers.followers,
    "page_job": pages.page_job,
}

FIGURES: Final[Mapping[str, str]] = {
    "console_start": "console_idle",
    "console_idle_mb": "console_idle",
    "idle_cpu": "console_idle",
    "forgelet_idle_mb": "node_daemon",
    "exit_seen": "node_daemon",
    "api_read": "api",
    "api_insert": "api",
    "ingest_points": "ingest",
    "log_ingest": "ingest",
    "pack_unchanged": "pack",
}
"""Figures that have not the name of their bench: that one is measured for them."""


def main(asked: Sequence[str]) -> int:
    """Run the benches, or those of the figures, that are asked for (none: all); gives the exit code."""
    names = list(dict.fromkeys(FIGURES.get(name, name) for name in asked))
    unknown = [name for name in names if name not in BENCHES]
    if unknown:
        known = " ".join((*BENCHES, *FIGURES))
        print(f"bench: there is no {', '.join(unknown)}; there are: {known}", file=sys.stderr)
        return 2
    began = time.monotonic()
    set_up_log(LogFormat.JSON, "error")  # the console's own log is no part of the output
    figures: list[Figure] = []
    broken: list[str] = []
    with Ground() as ground:
        for name in names or BENCHES:
            print(f"measuring {name}", file=sys.stderr, flush=True)
            figures += _run(name, ground, broken)
    for figure in sorted(figures, key=lambda one: not one.decides):
        print(f"bench {figure.render()}")
    for line in broken:
        print(f"bench {line}")
    load = f"load {os.getloadavg()[1]:.1f} on {os.cpu_count()} cores"
    print(f"bench: {len(figures)} figures in {time.monotonic() - began:.0f} s, {len(broken)} broken, {load}")
    return 1 if broken else 0


def _run(name: str, ground: Ground, broken: list[str]) -> list[Figure]:
    try:
        return BENCHES[name](ground)
    except Unmeasurable as error:
        return [Skipped(name, str(error))]
    except Exception as error:  # noqa: BLE001 - the outermost frame of a bench: the others still run
        broken.append(f"{name} broken: {type(error).__name__}: {error}")
        return []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

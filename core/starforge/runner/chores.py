"""What is looked at beside the training process, in threads of their own: reports, metric files, checkpoints."""

from __future__ import annotations

import os
import time
from typing import Callable, List, Optional

from starforge.runner.checkpoints import FolderWatch
from starforge.runner.launch import Started
from starforge.runner.plainfiles import show_path
from starforge.runner.sources import ReportSource, Source, build_sources
from starforge.runner.spool import Spool
from starforge.runner.steps import Repeater, Steps

REPORT_PERIOD_S = 0.1
SOURCE_PERIOD_S = 1.0
CHECKPOINT_PERIOD_S = 2.0
_END_S = 60.0
_END_WHILE_STOPPING_S = 10.0  # a stopped attempt is killed 20 s after its grace


class Chores:
    """Runs until `end`. A leader watches checkpoints."""

    def __init__(self, sources: List[Source], report: Source, folders: Optional[FolderWatch], spool: Spool) -> None:
        self._spool = spool
        self._folders = folders
        steps = Steps(spool)
        self._steps = steps
        self._repeaters = [
            Repeater("reading reports", _build_poll(report), REPORT_PERIOD_S, steps),
            Repeater("looking for checkpoints", self._commit, CHECKPOINT_PERIOD_S, steps),
        ]
        self._repeaters += [
            Repeater(f"reading metric source {number}", _build_poll(source), SOURCE_PERIOD_S, steps)
            for number, source in enumerate(sources)
        ]

    def end(self, *, is_hurried: bool) -> None:
        """Look a last time, now that nobody writes any more, and stop; within a bounded time."""
        deadline = time.monotonic() + (_END_WHILE_STOPPING_S if is_hurried else _END_S)
        whole = [repeater.end(deadline - time.monotonic()) for repeater in self._repeaters]
        if not all(whole):
            text = "the last look at reports, metrics and checkpoints was cut off: the storage is slow or too full"
            self._steps.note("storage_slow", text)

    def _commit(self, is_final: bool) -> None:  # noqa: FBT001 - what a Repeater tells
        if self._folders is None:
            return
        for mark in self._folders.commit_complete(is_final=is_final):
            path = os.path.relpath(mark.path, self._folders.root)
            self._spool.event("checkpoint", step=mark.step, path=show_path(path), committed=True)


def start_chores(started: Started, work: str, ckpt: Optional[str], report: ReportSource) -> Chores:
    """Start the chores of what was started; without `ckpt` nobody looks for checkpoints."""
    folders = FolderWatch(started.plan.checkpoint, ckpt, started.mirrored) if ckpt is not None else None
    sources = build_sources(started.plan.metric_sources, work, report.spool, report.progress)
    return Chores(sources, report, folders, report.spool)


def _build_poll(source: Source) -> Callable[[bool], None]:
    return lambda _: source.poll()

"""What is looked at beside the training process, in a thread of its own: checkpoints, metric files, memory and GPUs."""

from __future__ import annotations

import os
import threading
import time
from typing import Callable, List, Optional, Set

from starforge.contract import capsule as contract
from starforge.runner.checkpoints import FolderWatch
from starforge.runner.gpus import Nvml
from starforge.runner.memory import find_memory_counters
from starforge.runner.progress import Progress
from starforge.runner.sources import Source, build_sources
from starforge.runner.spool import Spool

SOURCE_PERIOD_S = 1.0
CHECKPOINT_PERIOD_S = 2.0
FIRST_USAGE_S = 1.0
USAGE_PERIOD_S = 15.0
_END_S = 10.0  # a stopped attempt is killed 20 s after its grace


class Chores:
    """Runs until `end`. A leader watches checkpoints; every node samples its own memory and GPUs."""

    def __init__(self, plan: contract.Plan, work: str, ckpt: Optional[str], spool: Spool, progress: Progress) -> None:
        self._spool = spool
        self._ckpt = ckpt
        self._sources: List[Source] = build_sources(plan.metric_sources, work, spool, progress)
        self._folders = FolderWatch(plan.checkpoint, ckpt) if ckpt is not None else None
        self._failures: Set[str] = set()
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chores", daemon=True)
        self._thread.start()
        # A thread of its own that nobody waits for: a driver that lost its GPU may never answer.
        threading.Thread(target=self._sample, name="usage", daemon=True).start()

    def end(self) -> None:
        """Stop the thread and look a last time, now that nobody writes any more."""
        self._is_ending.set()
        self._thread.join(_END_S)
        if self._thread.is_alive():
            self._spool.event(
                "note", code="storage_slow", message="the last look at checkpoints was cut off by storage"
            )
            return
        self._attend(self._poll_sources)
        self._attend(lambda: self._commit(is_final=True))

    def _run(self) -> None:
        next_commit = 0.0
        while not self._is_ending.wait(SOURCE_PERIOD_S):
            now = time.monotonic()
            self._attend(self._poll_sources)
            if now >= next_commit:
                next_commit = now + CHECKPOINT_PERIOD_S
                self._attend(lambda: self._commit(is_final=False))

    def _sample(self) -> None:
        nvml = Nvml()
        wait_s = FIRST_USAGE_S
        while not self._is_ending.wait(wait_s):
            wait_s = USAGE_PERIOD_S
            memory, gpus = find_memory_counters(), nvml.sample()
            if not self._is_ending.is_set():
                self._spool.event("usage", memory=memory, gpus=gpus)

    def _attend(self, chore: Callable[[], None]) -> None:
        """Do one thing. What fails is noted once: no chore ends a job or changes how it ended."""
        try:
            chore()
        except Exception as error:  # noqa: BLE001 - the outermost frame of a thread beside the job
            text = f"{type(error).__name__}: {error}"
            if text not in self._failures:
                self._failures.add(text)
                self._spool.event("note", code="chore_failed", message=text)

    def _poll_sources(self) -> None:
        for source in self._sources:
            source.poll()

    def _commit(self, *, is_final: bool) -> None:
        for mark in self._folders.commit_complete(is_final=is_final) if self._folders is not None else []:
            self._spool.event("checkpoint", step=mark.step, path=os.path.relpath(mark.path, self._ckpt), committed=True)

"""A console with ended jobs whose folders, logs and checkpoints are really there."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import update

from server.tests.ledger.builders import apply, take
from server.tests.web.support import ConsoleUnderTest, build_console, close_console, submit
from starforge.contract.ids import AttemptId, JobId
from starforge.contract.states import Reason
from starforge_console.assembly.layout import AttemptLayout, StorageLayout
from starforge_console.ledger.endings import note_cleaned, note_finalised
from starforge_console.ledger.series import Segment, keep_segment, list_segments
from starforge_console.ledger.tables import jobs
from starforge_console.ledger.views import list_events
from starforge_console.retention.collector import Collector

DAY_S = 86_400.0


@dataclass
class Yard:
    console: ConsoleUnderTest
    headers: dict[str, str]

    @property
    def collector(self) -> Collector:
        return self.console.services.retention

    @property
    def storage(self) -> StorageLayout:
        return StorageLayout(self.console.services.settings.storage_root)

    @property
    def logs_dir(self) -> Path:
        return self.console.root / "state" / "logs"

    def layout(self, attempt: AttemptId) -> AttemptLayout:
        return self.storage.attempt(attempt)

    def out(self, job: JobId) -> Path:
        return self.storage.outputs(job, 1)

    def later(self, days: float) -> None:
        self.console.clock.ahead_s += days * DAY_S

    def start(self) -> tuple[JobId, AttemptId]:
        """A job that runs, with everything that an attempt writes."""
        job = submit(self.console, self.headers)
        now = self.console.clock.now()
        ledger = self.console.ledger
        attempt = ledger.write_now(lambda c: take(c, job, now=now)).attempt.id
        ledger.write_now(lambda c: apply(c, job, Reason.LAUNCHED, Reason.STARTED, now=now))
        layout = self.layout(attempt)
        for folder in (*layout.writable(), *layout.own(), *layout.places()):
            folder.mkdir(parents=True, exist_ok=True)
        (layout.root / "work" / "train.py").write_text("print()")
        (layout.root / "home" / "cache").write_text("cached")
        (layout.root / "spool" / "log.bin").write_bytes(b"hello\n")
        self.out(job).mkdir()
        (self.out(job) / "model.bin").write_bytes(b"weights")
        self._write_log(attempt)
        return job, attempt

    def finish(self, job: JobId, attempt: AttemptId, reason: Reason = Reason.EXITED_ZERO) -> None:
        """Let it end, be read to its end and be cleaned up."""
        now, ledger = self.console.clock.now(), self.console.ledger
        ledger.write_now(lambda c: apply(c, job, reason, now=now))
        ledger.write_now(lambda c: note_finalised(c, attempt, now, {"artifacts": [], "checkpoints": []}, 6))
        ledger.write_now(lambda c: note_cleaned(c, attempt, now))

    def end(self, steps: Sequence[int] = ()) -> tuple[JobId, AttemptId]:
        """A job that has succeeded, with committed checkpoints of these steps."""
        job, attempt = self.start()
        for step in steps:
            self.commit(attempt, step)
        self.finish(job, attempt)
        return job, attempt

    def commit(self, attempt: AttemptId, step: int) -> Path:
        folder = self.layout(attempt).checkpoints / f"step-{step}"
        folder.mkdir()
        (folder / "model.bin").write_bytes(b"w" * step)
        files = {"model.bin": {"bytes": step}}
        document = {"version": "1.0", "step": step, "committed_at": float(step), "files": files}
        (folder / "starforge-checkpoint.json").write_text(json.dumps(document))
        return folder

    def checkpoints(self, attempt: AttemptId) -> list[str]:
        return sorted(path.name for path in self.layout(attempt).checkpoints.iterdir())

    def start_from(self, parent: JobId) -> JobId:
        """A job that is said to start from a checkpoint of another."""
        child = submit(self.console, self.headers)
        self.console.ledger.write_now(
            lambda c: c.execute(update(jobs).where(jobs.c.id == child).values(starts_from=parent))
        )
        return child

    def notes(self, job: JobId) -> list[str]:
        events = self.console.ledger.read_now(lambda c: list_events(c, job))
        return [event.note for event in events if event.kind == "timeline"]

    def segments(self, attempt: AttemptId) -> int:
        return len(self.console.services.series.read_now(lambda c: list_segments(c, attempt, "log", 0, 10)))

    def _write_log(self, attempt: AttemptId) -> None:
        (self.logs_dir / attempt).mkdir(parents=True)
        file = f"{attempt}/log-000000000000000"
        (self.logs_dir / file).write_bytes(b"hello\n")
        segment = Segment(from_byte=0, to_byte=6, file=file, position=0, crc=909783072)
        self.console.services.series.write_now(lambda c: keep_segment(c, attempt, "log", segment, 0))


@contextmanager
def open_yard(root: Path) -> Iterator[Yard]:
    console = build_console(root)
    try:
        yield Yard(console, console.add_user("ada", "admin"))
    finally:
        close_console(console)

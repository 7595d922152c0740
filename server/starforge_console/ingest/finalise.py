"""Finalises an ended attempt: reads its spool to the end, so that log, curves and outputs are whole without ingest."""

import asyncio
from pathlib import Path
from typing import Any, Final

import msgspec

from starforge.contract.capsule import EXIT_FILE, STREAM_LOG, CapsuleError, ExitRecord
from starforge.contract.ids import AttemptId
from starforge_console.assembly.layout import AttemptLayout, StorageLayout
from starforge_console.clock import Clock
from starforge_console.ingest.catch_up import CaughtUp, catch_up
from starforge_console.ingest.outputs import list_artifacts, list_checkpoints
from starforge_console.ingest.receive import Receiver
from starforge_console.ingest.spool import StrangeFile, open_file
from starforge_console.ingest.streams import STREAMS
from starforge_console.ledger.database import Database
from starforge_console.ledger.endings import EndedAttempt
from starforge_console.ledger.reports import ReportingAttempt, list_outputs, tell_once

EXIT_RECORD_BYTES: Final = 64 << 10


class Finaliser:
    """Reads what runners left on the storage. Every call may be repeated."""

    def __init__(self, receiver: Receiver, ledger: Database, storage: StorageLayout, clock: Clock) -> None:
        self._receiver = receiver
        self._ledger = ledger
        self._storage = storage
        self._clock = clock

    async def exit_record(self, attempt: AttemptId) -> ExitRecord | None:
        """The record of the attempt's end; None when there is none, or none that can be read. Raises Unavailable."""
        return await asyncio.to_thread(_find_exit_record, self._storage.attempt(attempt).root, attempt)

    async def finalise(self, attempt: EndedAttempt) -> tuple[dict[str, Any], int | None]:
        """Receive the rest of the spool, end the streams, and say what the attempt left.

        Returns:
            The outputs, as `artifacts` and `checkpoints`, and how many bytes of log were produced (None: not known).

        Raises:
            Busy, Unavailable: the storage or the console's disk refused; call again.

        """
        reporting = ReportingAttempt(id=attempt.id, job=attempt.job, number=attempt.number)
        layout = self._storage.attempt(attempt.id)
        record = await self.exit_record(attempt.id)
        read = {stream: await self._catch_up(reporting, stream, layout.root) for stream in STREAMS}
        await self._receiver.end(reporting)
        outputs = await self._build_outputs(reporting, layout, has_record=record is not None)
        is_there = await asyncio.to_thread(layout.root.is_dir)
        return outputs, _count_produced(read[STREAM_LOG], record, is_there=is_there)

    async def _catch_up(self, attempt: ReportingAttempt, stream: str, root: Path) -> CaughtUp:
        try:
            return await catch_up(self._receiver, attempt, stream, root)
        except StrangeFile as error:
            await self._tell(attempt, f"strange_{stream}", str(error))
            return CaughtUp((await self._receiver.find_mark(attempt, stream)).received_to, None)

    async def _build_outputs(
        self, attempt: ReportingAttempt, layout: AttemptLayout, *, has_record: bool
    ) -> dict[str, Any]:
        told = await self._ledger.read(lambda c: list_outputs(c, attempt.id))
        artifacts = {
            output.path: {"path": output.path, "bytes": output.bytes, "sha256": output.sha256}
            for output in told
            if output.kind == "artifact"
        }
        checkpoints: list[dict[str, Any]] = []
        try:
            checkpoints = await asyncio.to_thread(list_checkpoints, layout.root)
            if not has_record:  # the runner did not get to telling what is there
                for found in await asyncio.to_thread(list_artifacts, layout.out):
                    artifacts.setdefault(found["path"], found)
        except StrangeFile as error:
            await self._tell(attempt, "strange_outputs", str(error))
        return {"artifacts": [artifacts[path] for path in sorted(artifacts)], "checkpoints": checkpoints}

    async def _tell(self, attempt: ReportingAttempt, code: str, text: str) -> None:
        now = self._clock.now()
        await self._ledger.write(lambda c: tell_once(c, attempt, (code, text), now))


def _find_exit_record(root: Path, attempt: AttemptId) -> ExitRecord | None:
    try:
        with open_file(root, EXIT_FILE) as file:
            record = (
                None if file is None else ExitRecord.from_json(msgspec.json.decode(file.read(0, EXIT_RECORD_BYTES)))
            )
    except (StrangeFile, CapsuleError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return record if record is not None and record.attempt == attempt else None


def _count_produced(log: CaughtUp, record: ExitRecord | None, *, is_there: bool) -> int | None:
    """The most that any witness speaks of: the exit record, the file, and what was received."""
    if record is None and not is_there:
        return None
    told = 0 if record is None else record.offsets.get(STREAM_LOG, 0)
    return max(told, log.size_bytes or 0, log.received_to)

"""Finalises an ended attempt: reads its spool to the end, so that log, curves and outputs are whole without ingest."""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from starforge.contract.capsule import (
    EXIT_FILE,
    SPOOL_DIRECTORY,
    SPOOL_FILES,
    STREAM_LOG,
    CapsuleError,
    ExitRecord,
    node_directory,
)
from starforge.contract.ids import AttemptId
from starforge.errors import Busy
from starforge_console.assembly.layout import AttemptLayout, StorageLayout
from starforge_console.clock import Clock
from starforge_console.domain.outputs import decide_outputs
from starforge_console.ingest.bounds import LogRoom
from starforge_console.ingest.catch_up import CaughtUp, Reach, Stop, catch_up
from starforge_console.ingest.engine_words import SEAM_BYTES, EngineWords, Speaks, WordsLost, find_news, find_own_words
from starforge_console.ingest.logs import Logs
from starforge_console.ingest.masking import Mask
from starforge_console.ingest.outputs import list_artifacts, list_checkpoints, measure_files
from starforge_console.ingest.receive import Receiver
from starforge_console.ingest.spool import StrangeFile, open_file
from starforge_console.ingest.streams import Stores, list_streams
from starforge_console.ledger.endings import EndedAttempt, list_lost_attempts
from starforge_console.ledger.reports import ReportingAttempt, list_outputs, tell_once
from starforge_console.ledger.stored import Store, note_stored

EXIT_RECORD_BYTES: Final = 64 << 10


class StillReading(Busy):
    """A large spool was read in part: the rest comes with the next calls."""

    def __init__(self, attempt: AttemptId, stream: str, received_to: int) -> None:
        what = f"{stream} of attempt {attempt} is read to byte {received_to}, and goes on"
        super().__init__(what, retry_after_s=0.1)


class Finaliser:
    """Reads what runners left on the storage. Every call may be repeated."""

    def __init__(
        self, receiver: Receiver, stores: Stores, storage: StorageLayout, clock: Clock, fleets: Mapping[str, Speaks]
    ) -> None:
        """`fleets`: the backends by fleet, for what their engines kept."""
        self._receiver = receiver
        self._logs = Logs(stores)
        self._words = EngineWords(fleets, stores.masker, clock)
        self._ledger = stores.ledger
        self._bounds = stores.bounds
        self._masker = stores.masker
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
            StillReading: a part was read, and others shall have their turn; call again, it goes on from there.
            Busy, Unavailable: the storage, the console's disk or the attempt's backend refused; call again.

        """
        reporting = ReportingAttempt(id=attempt.id, job=attempt.job, number=attempt.number, nodes=attempt.nodes)
        layout = self._storage.attempt(attempt.id)
        record = await self.exit_record(attempt.id)
        streams = list_streams(attempt.nodes)
        read = {stream: await self._catch_up(reporting, stream, layout.root, record) for stream in streams}
        if record is None:
            read[STREAM_LOG] = await self._add_engine_words(attempt, reporting, read[STREAM_LOG])
        await self._receiver.end(reporting)
        outputs = await self._build_outputs(reporting, layout, has_record=record is not None)
        is_there = await asyncio.to_thread(layout.root.is_dir)
        if is_there:  # of a folder that is not there nobody knows what it held
            await self._measure(reporting, layout)
        return outputs, self._count_produced(read[STREAM_LOG], record, is_there=is_there)

    async def _catch_up(
        self, attempt: ReportingAttempt, stream: str, root: Path, record: ExitRecord | None
    ) -> CaughtUp:
        declared = None if record is None else record.offsets.get(stream)
        bound = self._bounds.of(stream)
        end = bound if declared is None else min(bound, declared + self._bounds.slack_bytes)
        try:
            if stream == STREAM_LOG:
                await self._pass_middle(attempt, root, end)
            caught_up = await catch_up(
                self._receiver, attempt, stream, root, Reach(end, self._bounds.round_bytes, is_final=True)
            )
        except StrangeFile as error:
            await self._tell(attempt, f"strange_{stream}", str(error))
            return CaughtUp((await self._receiver.find_mark(attempt, stream)).received_to, None, Stop.NO_MORE)
        if caught_up.stop is Stop.ROUND:
            raise StillReading(attempt.id, stream, caught_up.received_to)
        if caught_up.stop is not Stop.NO_MORE:
            await self._tell(attempt, *_describe_rest(stream, caught_up, declared, bound))
        return caught_up

    async def _pass_middle(self, attempt: ReportingAttempt, root: Path, end: int) -> None:
        """Go straight to what is kept of the end of a log, where more of it lies there than is kept."""
        room = LogRoom(self._bounds.log_max_bytes)
        mark = await self._receiver.find_mark(attempt, STREAM_LOG)
        with contextlib.ExitStack() as stack:
            opening = open_file(root, SPOOL_DIRECTORY, SPOOL_FILES[STREAM_LOG])
            file = await asyncio.to_thread(stack.enter_context, opening)
            written = 0 if file is None else await asyncio.to_thread(file.written_to, mark.received_to, end)
        if mark.ended or written - mark.received_to <= room.max_bytes:
            return
        if mark.received_to < room.head_bytes:
            reach = Reach(room.head_bytes, self._bounds.round_bytes, is_final=True)
            head = await catch_up(self._receiver, attempt, STREAM_LOG, root, reach)
            if head.stop is Stop.ROUND:
                raise StillReading(attempt.id, STREAM_LOG, head.received_to)
            mark = await self._receiver.find_mark(attempt, STREAM_LOG)
        await self._receiver.pass_over(attempt, mark.received_to, written - room.tail_bytes)

    async def _add_engine_words(self, attempt: EndedAttempt, reporting: ReportingAttempt, log: CaughtUp) -> CaughtUp:
        """Continue the log with what only the engine heard. A repeat finds nothing new and adds nothing."""
        mark = await self._receiver.find_mark(reporting, STREAM_LOG)
        if mark.ended:
            return log
        try:
            words = await self._words.read(attempt)
        except WordsLost as lost:
            await self._tell(reporting, "no_engine_words", str(lost))
            return log
        end = await self._logs.read_log(attempt.id, max(0, mark.received_to - SEAM_BYTES), SEAM_BYTES)
        news = find_news(end.content, words)
        if not news:
            return log
        received = await self._receiver.take(reporting, STREAM_LOG, mark.received_to, news)
        said = find_own_words(news)
        if said is not None:
            await self._tell(reporting, "unrecorded", f"the engine heard: {said}")
        return replace(log, received_to=received.received_to)

    def _count_produced(self, log: CaughtUp, record: ExitRecord | None, *, is_there: bool) -> int | None:
        """The most that any witness speaks of: the exit record, the file, and what was received.

        A file that was made longer without being written is no witness of more than was.
        """
        if record is None and not is_there and log.received_to == 0:
            return None
        declared = None if record is None else record.offsets.get(STREAM_LOG)
        size_bytes = log.received_to if log.stop is Stop.HOLE else log.size_bytes or 0
        if declared is not None:
            size_bytes = min(size_bytes, declared + self._bounds.slack_bytes)
        return max(declared or 0, size_bytes, log.received_to)

    async def _build_outputs(
        self, attempt: ReportingAttempt, layout: AttemptLayout, *, has_record: bool
    ) -> dict[str, Any]:
        told, lost = await self._ledger.read(
            lambda c: (list_outputs(c, attempt.id), list_lost_attempts(c, attempt.job))
        )
        out = self._storage.outputs(attempt.job, decide_outputs(attempt.number, lost))
        mask = await self._masker.of(attempt.id)
        artifacts = {
            output.path: {"path": output.path, "bytes": output.bytes, "sha256": output.sha256}
            for output in told
            if output.kind == "artifact"
        }
        checkpoints: list[dict[str, Any]] = []
        try:
            checkpoints = await asyncio.to_thread(list_checkpoints, layout.kept)
            if not has_record:  # the runner did not get to telling what is there
                for found in await asyncio.to_thread(list_artifacts, out):
                    artifacts.setdefault(mask.clean(found["path"]), found)
        except StrangeFile as error:
            await self._tell(attempt, "strange_outputs", str(error))
        return {
            "artifacts": [_clean(mask, artifacts[path]) for path in sorted(artifacts)],
            "checkpoints": [_clean(mask, checkpoint) for checkpoint in checkpoints],
        }

    async def _measure(self, attempt: ReportingAttempt, layout: AttemptLayout) -> None:
        """Keep how much the attempt holds on the storage, for quotas."""
        lost = await self._ledger.read(lambda c: list_lost_attempts(c, attempt.job))
        first = decide_outputs(attempt.number, lost)
        out = self._storage.outputs(attempt.job, first)
        spools = [SPOOL_DIRECTORY, *map(node_directory, range(attempt.nodes))]
        found = {
            (Store.ARTIFACTS, first): await asyncio.to_thread(measure_files, out),
            (Store.CHECKPOINTS, attempt.number): await asyncio.to_thread(measure_files, layout.kept),
            (Store.LOG, attempt.number): await asyncio.to_thread(
                lambda: sum(measure_files(layout.root, name) for name in spools)
            ),
        }
        await self._ledger.write(lambda c: note_stored(c, attempt.job, found))

    async def _tell(self, attempt: ReportingAttempt, code: str, text: str) -> None:
        now, text = self._clock.now(), (await self._masker.of(attempt.id)).clean(text)
        await self._ledger.write(lambda c: tell_once(c, attempt, (code, text), now))


def _clean(mask: Mask, output: dict[str, Any]) -> dict[str, Any]:
    return output | {"path": mask.clean(output["path"])}


def _find_exit_record(root: Path, attempt: AttemptId) -> ExitRecord | None:
    try:
        with open_file(root, EXIT_FILE) as file:
            record = (
                None if file is None else ExitRecord.from_json(msgspec.json.decode(file.read(0, EXIT_RECORD_BYTES)))
            )
    except (StrangeFile, CapsuleError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return record if record is not None and record.attempt == attempt else None


def _describe_rest(stream: str, read: CaughtUp, declared: int | None, bound: int) -> tuple[str, str]:
    """Why a part of the spool file is not read, as (code, text)."""
    file = f"the spool file of {stream} is {read.size_bytes} bytes long"
    if read.stop is Stop.HOLE:
        return f"hole_{stream}", f"{file}, but was not written beyond byte {read.received_to}: the rest is not read"
    if read.received_to < bound:
        return f"undeclared_{stream}", f"{file}, and the runner wrote {declared}: the rest is not read"
    return f"long_{stream}", f"{file}: beyond byte {bound} it is not read"

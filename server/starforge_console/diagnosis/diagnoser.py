"""Diagnoses attempts that ended: reads their log, applies the rules outside of any transaction, keeps the answer."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Protocol

from starforge.contract.capsule import ExitRecord
from starforge.contract.ids import AttemptId
from starforge.contract.states import Reason
from starforge.diagnosis.answer import RULES_VERSION, Diagnosis, Ending, KnownExit
from starforge.diagnosis.diagnose import diagnose_window
from starforge.said.sentence import Said
from starforge_console.clock import Clock
from starforge_console.diagnosis.logs import PartReader, load_window
from starforge_console.domain.masking import Words, mask_text
from starforge_console.ledger.database import Database
from starforge_console.ledger.diagnoses import (
    AttemptEnding,
    KeptDiagnosis,
    find_diagnosis,
    find_ending,
    keep_diagnosis,
    note_diagnosis,
)
from starforge_console.ledger.endings import EndedAttempt

_ENDINGS: Final[Mapping[Reason, Ending]] = MappingProxyType(
    {
        Reason.STOP_CONFIRMED: Ending.STOPPED,
        Reason.PAUSE_CONFIRMED: Ending.STOPPED,
        Reason.WINDOW_CLOSED: Ending.STOPPED,
        Reason.DRAINED: Ending.STOPPED,
        Reason.MAX_RUNTIME: Ending.TIME_LIMIT,
        Reason.OUT_OF_MEMORY: Ending.OUT_OF_MEMORY,
        Reason.GPU_LOST: Ending.GPU_LOST,
        Reason.INTERRUPTED: Ending.INTERRUPTED,
        Reason.PREEMPTED: Ending.INTERRUPTED,
        Reason.NODE_LOST: Ending.INTERRUPTED,
        Reason.NODE_FAULT: Ending.INTERRUPTED,
        Reason.NO_CAPACITY: Ending.INTERRUPTED,
    }
)
_NO_WORDS: Final = Words(())
_TOLD_BY_LOG: Final = frozenset({Reason.EXITED_NONZERO, Reason.OUT_OF_MEMORY, Reason.START_FAILED, Reason.VANISHED})


class Records(Protocol):
    """Reads what runners left on the storage."""

    async def exit_record(self, attempt: AttemptId) -> ExitRecord | None:
        """The record of the attempt's end, if there is a readable one."""

    async def finalise(self, attempt: EndedAttempt) -> tuple[dict[str, Any], int | None]:
        """Read the spool to its end; gives the outputs and how many log bytes were produced. Repeatable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnoser:
    """Finds out why attempts failed. Every call may be repeated."""

    ledger: Database
    logs: PartReader
    clock: Clock

    async def diagnose(self, attempt: AttemptId) -> KeptDiagnosis | None:
        """Find out why the attempt failed, and keep that; None when it has not ended, or is not there."""
        ending = await self.ledger.read(lambda c: find_ending(c, attempt))
        if ending is None or ending.reason is None:
            return None
        window = await load_window(self.logs, attempt)
        found = mask_diagnosis(await asyncio.to_thread(diagnose_window, window, build_known_exit(ending)))
        kept = KeptDiagnosis(rules_version=RULES_VERSION, at=self.clock.now(), answer=found.to_json())
        await self.ledger.write(lambda c: keep_diagnosis(c, attempt, kept))
        if found.is_diagnosed and ending.reason in _TOLD_BY_LOG:
            cause = Said(found.summary, f"diagnosis.{found.kind}", found.facts)
            await self.ledger.write(lambda c: note_diagnosis(c, ending, cause))
        return kept

    async def find(self, attempt: AttemptId, *, has_log: bool = True) -> KeptDiagnosis | None:
        """What is kept, made anew where older rules made it; `has_log` False: its log was removed, and it stays."""
        kept = await self.ledger.read(lambda c: find_diagnosis(c, attempt))
        if kept is not None and (kept.rules_version == RULES_VERSION or not has_log):
            return kept
        return await self.diagnose(attempt)


class DiagnosedRecords:
    """Records of attempts, which are diagnosed once everything of them has been read."""

    def __init__(self, records: Records, diagnoser: Diagnoser) -> None:
        self._records = records
        self._diagnoser = diagnoser

    async def exit_record(self, attempt: AttemptId) -> ExitRecord | None:
        """As the records say."""
        return await self._records.exit_record(attempt)

    async def finalise(self, attempt: EndedAttempt) -> tuple[dict[str, Any], int | None]:
        """Read the spool to its end, then find out why the attempt failed. Raises as the records."""
        left = await self._records.finalise(attempt)
        await self._diagnoser.diagnose(attempt.id)
        return left


def mask_diagnosis(found: Diagnosis) -> Diagnosis:
    """What is told of a line of the log, without what has the shape of a token: it goes further than the log does."""

    def mask(text: str) -> str:
        return mask_text(text, _NO_WORDS)

    return replace(
        found,
        summary=mask(found.summary),
        advice=mask(found.advice),
        spot=None if found.spot is None else replace(found.spot, text=mask(found.spot.text)),
        facts=MappingProxyType({name: mask(text) for name, text in found.facts.items()}),
    )


def build_known_exit(ending: AttemptEnding) -> KnownExit:
    """What the ledger knows of the end, as the rules read it."""
    reason = Reason(ending.reason) if ending.reason is not None else None
    kills = ending.evidence.get("record_oom_kills")
    return KnownExit(
        code=ending.exit_code,
        kernel_killed=None if not isinstance(kills, int) else kills > 0,
        ending=None if reason is None else _ENDINGS.get(reason),
    )

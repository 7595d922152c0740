"""The runner's record of an attempt's end, as it lies on the storage."""

import asyncio
import json
from pathlib import Path
from typing import Final

import structlog

from starforge.contract.capsule import CapsuleError, ExitRecord
from starforge.contract.ids import AttemptId

LARGEST_BYTES: Final = 1 << 20

_log = structlog.get_logger("ingest")


async def find_exit_record(path: Path, attempt: AttemptId) -> ExitRecord | None:
    """The record at `path`, if there is one that can be read and that speaks of `attempt`.

    The job's own user can write this file: whatever cannot be understood counts as no record, and is logged.
    """
    return await asyncio.to_thread(_find, path, attempt)


def _find(path: Path, attempt: AttemptId) -> ExitRecord | None:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        _log.warning("an exit record cannot be read", attempt=attempt, error=error.strerror)
        return None
    try:
        record = ExitRecord.from_json(json.loads(content))
    except (CapsuleError, ValueError, RecursionError) as error:
        _log.warning("an exit record cannot be understood", attempt=attempt, error=str(error)[:200])
        return None
    if record.attempt != attempt:
        _log.warning("an exit record speaks of another attempt", attempt=attempt, named=record.attempt[:80])
        return None
    return record

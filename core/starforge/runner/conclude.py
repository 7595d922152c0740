"""The end of an attempt: artifacts, the exit record, acknowledgements."""

from __future__ import annotations

import json
import os
import stat
import time
from dataclasses import replace
from typing import Dict, List, Optional, Tuple

from starforge.contract import capsule as contract
from starforge.runner.checkpoints import find_committed
from starforge.runner.endings import Ending
from starforge.runner.memory import find_memory_counters
from starforge.runner.places import Places
from starforge.runner.spool import Spool
from starforge.runner.verify import hash_file
from starforge.runner.wishes import Wishes

ACKNOWLEDGE_S = 10.0
_HASHING_S = 20.0
_HASHING_WHILE_STOPPING_S = 5.0
_MOST_ARTIFACTS = 10_000


def build_record(ending: Ending, attempt: str, wishes: Wishes, elapsed_s: float) -> contract.ExitRecord:
    """Build the record but for what is only known at the very end: checkpoint and offsets."""
    return contract.ExitRecord(
        version=contract.CAPSULE_VERSION,
        attempt=attempt,
        code=ending.code,
        signal=ending.signal,
        term_received_at=wishes.term_received_at,
        desired=wishes.desired,
        complete=ending.complete,
        reason=ending.reason,
        message=ending.message,
        started_at=ending.started_at,
        ended_at=time.time(),
        elapsed_s=round(elapsed_s, 6),
        memory=find_memory_counters(),
    )


def conclude(record: contract.ExitRecord, spool: Spool, places: Places) -> contract.ExitRecord:
    """Write the last events, bring the spool to the disk and write the exit record by rename; give it as written."""
    if places.is_leader:
        _report_artifacts(places.out, spool, is_hurried=record.desired != "run" or record.term_received_at is not None)
        record = replace(record, checkpoint=_find_own_newest(places))
    spool.event("ended", code=record.code, signal=record.signal, reason=record.reason, message=record.message)
    spool.sync()
    record = replace(record, offsets=spool.offsets())
    _write_whole(places.exit_record, json.dumps(record.to_json(), sort_keys=True) + "\n")
    return record


def _find_own_newest(places: Places) -> Optional[contract.CheckpointMark]:
    marks = find_committed(places.ckpt)
    return contract.CheckpointMark(marks[0].step, os.path.relpath(marks[0].path, places.attempt)) if marks else None


def _report_artifacts(out: str, spool: Spool, *, is_hurried: bool) -> None:
    """Tell of each file of the output directory; digests, small files first, as far as the time goes."""
    files = _list_artifacts(out)
    deadline = time.monotonic() + (_HASHING_WHILE_STOPPING_S if is_hurried else _HASHING_S)
    digests: Dict[str, Optional[str]] = {}
    for size, path in sorted(files):
        digests[path] = _find_digest(path, size, deadline)
    for size, path in sorted(files, key=lambda row: row[1])[:_MOST_ARTIFACTS]:
        spool.event("artifact", path=os.path.relpath(path, out), bytes=size, sha256=digests[path])
    if len(files) > _MOST_ARTIFACTS:
        text = f"{len(files)} files in the output directory: the first {_MOST_ARTIFACTS} are listed"
        spool.event("note", code="many_artifacts", message=text)


def _list_artifacts(out: str) -> List[Tuple[int, str]]:
    files = []
    for directory, _, names in os.walk(out):
        for name in names:
            path = os.path.join(directory, name)
            size = _find_size(path)
            if size is not None:
                files.append((size, path))
    return files


def _find_size(path: str) -> Optional[int]:
    """Give the size of a plain file; None for anything else, and for what is gone."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _find_digest(path: str, size_bytes: int, deadline: float) -> Optional[str]:
    """Digest a file if that will likely be over by the deadline, at 200 MB a second."""
    if time.monotonic() + size_bytes / 200e6 > deadline:
        return None
    try:
        return hash_file(path)
    except OSError:
        return None


def _write_whole(path: str, text: str) -> None:
    partial = path + ".tmp"
    with open(partial, "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
    directory = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(directory)
    except OSError:
        return  # some network file systems refuse to sync a directory; the rename stands
    finally:
        os.close(directory)

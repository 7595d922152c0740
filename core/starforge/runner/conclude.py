"""The end of an attempt: artifacts, the exit record, acknowledgements."""

from __future__ import annotations

import json
import os
import stat
import time
from dataclasses import replace
from typing import Dict, Iterator, Optional, Tuple

from starforge.contract import capsule as contract
from starforge.runner.checkpoints import find_committed
from starforge.runner.endings import Ending
from starforge.runner.last_words import TAIL_BYTES, find_last_line
from starforge.runner.memory import find_memory_counters
from starforge.runner.places import Places
from starforge.runner.plainfiles import Listing, Troubles, list_files, show_path, write_whole
from starforge.runner.spool import Spool, build_finite
from starforge.runner.steps import Steps
from starforge.runner.verify import hash_file
from starforge.runner.wishes import Wishes

_HASHING_S = 20.0
_HASHING_WHILE_STOPPING_S = 5.0
_FINDING_S = 5.0
_SYNCING_S = 10.0
_SLACK_S = 3.0
_MOST_ARTIFACTS = 10_000
_MOST_SHOWN = 5
_SHOWN_CHARACTERS = 200


def build_record(ending: Ending, attempt: str, wishes: Wishes, elapsed_s: float) -> contract.ExitRecord:
    """Build the record but for what is only known at the very end: checkpoint and offsets."""
    return contract.ExitRecord(
        version=contract.CAPSULE_VERSION,
        attempt=attempt,
        code=ending.code,
        signal=ending.signal,
        term_received_at=wishes.term_received_at,
        term_from_inside=wishes.term_from_inside,
        desired=wishes.desired,
        complete=ending.complete,
        reason=ending.reason,
        message=ending.message,
        started_at=ending.started_at,
        ended_at=time.time(),
        elapsed_s=round(elapsed_s, 6),
        memory=find_memory_counters(),
    )


def conclude(record: contract.ExitRecord, spool: Spool, places: Places, steps: Steps) -> contract.ExitRecord:
    """Write the last events, bring the spool to the disk and write the exit record by rename; give it as written.

    Each step stands for itself: what fails or takes too long is noted. Raises OSError when there is no record on disk.
    """
    for directory in (places.attempt, os.path.dirname(places.exit_record)):
        steps.bound("taking the attempt's directory back", lambda: _regain(directory), None, _FINDING_S)  # noqa: B023 - called at once
    if places.is_leader:
        hurries = record.desired != "run" or record.term_received_at is not None or record.term_from_inside
        time_s = _HASHING_WHILE_STOPPING_S if hurries else _HASHING_S
        steps.bound("listing artifacts", lambda: _report_artifacts(places.out, spool, time_s), None, time_s + _SLACK_S)
        newest = steps.bound("finding the checkpoint", lambda: _find_own_newest(places, steps), None, _FINDING_S)
        record = replace(record, checkpoint=newest)
    if record.code != 0 and record.started_at is not None:
        line = steps.bound("finding the last line", lambda: _find_last_line(spool), None, _FINDING_S)
        record = replace(record, last_line=line)
    spool.event("ended", code=record.code, signal=record.signal, reason=record.reason, message=record.message)
    steps.bound("syncing the spool", spool.sync, None, _SYNCING_S)
    record = replace(record, offsets=spool.offsets())
    write_whole(places.exit_record, json.dumps(build_finite(record.to_json()), sort_keys=True).encode("ascii") + b"\n")
    return record


def _regain(directory: str) -> None:
    """Take back what the job took from its own folder: it runs as our user, and the record is to be written there."""
    try:
        found = os.stat(directory)
        if found.st_uid == os.geteuid() and found.st_mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(directory, stat.S_IMODE(found.st_mode) | stat.S_IRWXU)
    except OSError:
        return  # the writing that follows says what is wrong


def _find_last_line(spool: Spool) -> Optional[str]:
    return find_last_line(spool.load_log_end(TAIL_BYTES))


def _find_own_newest(places: Places, steps: Steps) -> Optional[contract.CheckpointMark]:
    troubles = Troubles(places.ckpt)
    marks = find_committed(places.ckpt, troubles)
    for text in troubles.texts:
        steps.note("unlisted", f"checkpoints cannot be listed whole ({text}): what lies there is not known")
    return (
        contract.CheckpointMark(marks[0].step, show_path(os.path.relpath(marks[0].path, places.attempt)))
        if marks
        else None
    )


def _report_artifacts(out: str, spool: Spool, time_s: float) -> None:
    """Tell of each file of the output directory; digests, small files first, as far as the time goes."""
    deadline = time.monotonic() + time_s
    listing = list_files(out, deadline=deadline)
    files = [row for row in listing.files if not os.path.islink(os.path.join(out, row[0]))]
    named = [row for row in files if _is_text(row[0])]
    digests: Dict[str, Optional[str]] = {}
    for path, size, _ in sorted(named, key=lambda row: row[1]):
        digests[path] = _find_digest(os.path.join(out, path), size, deadline)
    for path, size, _ in named[:_MOST_ARTIFACTS]:
        spool.event("artifact", path=path, bytes=size, sha256=digests[path])
    for code, text in _list_omissions(listing, len(files), len(named)):
        spool.event("note", code=code, message=text)
    unnamed = [show_path(path)[:_SHOWN_CHARACTERS] for path, _, _ in files if not _is_text(path)]
    if unnamed:
        text = f"{len(unnamed)} outputs are kept and not listed, since their names are no UTF-8: rename them"
        spool.event("note", code="output_names", message=f"{text} ({', '.join(unnamed[:_MOST_SHOWN])})")


def _list_omissions(listing: Listing, files: int, named: int) -> Iterator[Tuple[str, str]]:
    """Say what of the output directory is not told of, as (code, text)."""
    for text in listing.problems:
        yield "unlisted", f"out cannot be listed whole ({text}): what lies there is not known"
    if named > _MOST_ARTIFACTS or not (listing.is_whole or listing.problems):
        count = f"{files}" if listing.is_whole else f"more than {files}"
        yield (
            "many_artifacts",
            f"{count} files in the output directory: the first {min(named, _MOST_ARTIFACTS)} are listed",
        )


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _find_digest(path: str, size_bytes: int, deadline: float) -> Optional[str]:
    """Digest a file if that will likely be over by the deadline, at 200 MB a second."""
    if time.monotonic() + size_bytes / 200e6 > deadline:
        return None
    try:
        return hash_file(path)
    except OSError:
        return None

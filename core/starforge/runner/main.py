"""`python runner.pex run`: one node of one attempt, from the capsule's check to the exit record."""

from __future__ import annotations

import errno
import os
import time
from dataclasses import replace
from typing import List, Optional, Tuple

from starforge.contract import capsule as contract
from starforge.runner.desk import Desk, open_desk
from starforge.runner.endings import Ending, Interrupted, Refusal
from starforge.runner.launch import start_training
from starforge.runner.masking import build_patterns
from starforge.runner.places import Places, build_places
from starforge.runner.prepare import Secrets, load_secrets
from starforge.runner.spool import Spool
from starforge.runner.verify import load_capsule

_USAGE = 2
_RUNNER_FAILED = 70
_ENDED_BEFORE_START = 143
_TAKEN_BY_THE_JOB = (errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_TELLING_S = 2.0  # the engine may be away and its pipe full
_WRITING_S = 60.0


def main(argv: List[str]) -> int:
    """Run the command; give the exit code: the training process's own, or the refusal's."""
    if argv[1:] != ["run"]:
        _say(b"starforge: usage: python runner.pex run")
        return _USAGE
    try:
        places = build_places(os.environ, os.getcwd(), os.path.abspath(argv[0]))
        secrets, refusal = _read_secrets(places)
        patterns = build_patterns(secrets.values.values())
        desk = open_desk(places, secrets, patterns, Spool(places.spool, patterns))
    except (OSError, ValueError) as error:
        _say(f"starforge: the attempt's directory cannot be used: {error}".encode("utf-8", "backslashreplace"))
        return contract.EXIT_REQUIREMENTS
    return _conclude(desk, _run(desk, refusal))


def _read_secrets(places: Places) -> Tuple[Secrets, Optional[Refusal]]:
    try:
        return load_secrets(places.secrets), None
    except Refusal as refusal:
        return Secrets({}, None), refusal


def _run(desk: Desk, refusal: Optional[Refusal]) -> Ending:
    try:
        return _run_attempt(desk, refusal)
    except Refusal as refused:
        return Ending(refused.code, reason=refused.cause, message=refused.message)
    except Interrupted:
        return Ending(_ENDED_BEFORE_START, message="ended before the training process was started")
    except Exception as error:  # noqa: BLE001 - the outermost frame: the record must be written whatever happened
        text = f"the runner itself failed: {type(error).__name__}: {error}"
        return Ending(_RUNNER_FAILED, reason="runner_failed", message=text)


def _run_attempt(desk: Desk, refusal: Optional[Refusal]) -> Ending:
    if refusal is not None:
        raise refusal
    capsule = load_capsule(desk.places.capsule, os.environ.get(contract.ENV_CAPSULE_DIGEST) or None)
    desk.wishes.grace_s = capsule.limits.grace_s
    desk.line.know(capsule.ingest, desk.secrets.ingest_token)
    started = start_training(capsule, desk)
    if started is None:
        return Ending(0, complete=True, reason="already_complete", message="every step was trained by earlier attempts")
    try:
        # The training process does not wait for it.
        from starforge.runner import rest  # noqa: PLC0415

        return rest.watch.watch(capsule, desk, started)
    finally:
        # Nothing runs on unwatched, also when the runner itself fails.
        left: List[int] = []
        desk.steps.attend("ending what is left of the job", started.child.end_descendants, left)


def _conclude(desk: Desk, ending: Ending) -> int:
    """Report the end. Whatever fails of that, the code is the ending's, unless the job made its record impossible."""
    from starforge.runner.conclude import build_record  # noqa: PLC0415 - the training process does not wait for it

    if ending.message is not None:
        text = f"starforge: {ending.message}"
        desk.steps.bound("saying how it ended", lambda: _tell(desk, text), None, _TELLING_S)
    attempt = os.environ.get(contract.ENV_ATTEMPT) or ""
    record = build_record(ending, attempt, desk.wishes, time.monotonic() - desk.started)
    record = desk.steps.bound("writing the exit record", lambda: _write_record(desk, record), record, _WRITING_S)
    desk.steps.attend("waiting for ingest", lambda: desk.line.finish(record.to_json()), False)  # noqa: FBT003
    return record.code


def _tell(desk: Desk, text: str) -> None:
    line = desk.mask(text)
    desk.spool.log(line + b"\n")
    _say(line)


def _write_record(desk: Desk, record: contract.ExitRecord) -> contract.ExitRecord:
    from starforge.runner.conclude import conclude  # noqa: PLC0415 - see above

    try:
        return conclude(record, desk.spool, desk.places, desk.steps)
    except OSError as error:
        _say(desk.mask(f"starforge: the exit record cannot be written: {error}"))
        return _build_unrecorded(desk, record, error)


def _build_unrecorded(desk: Desk, record: contract.ExitRecord, error: OSError) -> contract.ExitRecord:
    """Without a record an exit code 0 counts as a fault of the machine; it is the job's where the job caused it."""
    if error.errno not in _TAKEN_BY_THE_JOB or record.code != 0 or desk.wishes.must_end:
        return record
    text = f"the job ended with 0 and made its own folder unusable, so its exit record cannot be written: {error}"
    desk.spool.event("note", code="unrecorded", message=text)
    return replace(record, code=contract.EXIT_UNRECORDED, message=text)


def _say(masked: bytes) -> None:
    """Tell the engine's log, which is all there is before ingest works."""
    try:
        os.write(2, masked + b"\n")
    except OSError:
        return  # nobody listens; the record says it too

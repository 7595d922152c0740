"""Restores a backup into a console that is not set up yet, and says what is missing and what is newer."""

import contextlib
import os
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from starforge.contract.ids import Digest, JobId
from starforge.said.sentence import say
from starforge_console.assembly.layout import StorageLayout
from starforge_console.backup.logs import copy_file, copy_logs, find_gaps
from starforge_console.backup.manifest import DATABASES, LOGS, STATE, Gap, Manifest, check_files, load_manifest
from starforge_console.errors import SettingsError
from starforge_console.fleets.install import SCHEMAS, check_storage, locate, prepare_folder
from starforge_console.ledger.contents import Counts, count_rows, iterate_log_files, list_blobs, list_without_log
from starforge_console.ledger.copying import copy_in, cut_short, settle_file, skip_event_numbers
from starforge_console.ledger.database import Database, holds_install, lock_state, upgrade_schema
from starforge_console.ledger.restored import IN_STORAGE, Newer, Restored, list_numbers, mark_restored, note_newer
from starforge_console.settings.console import ConsoleSettings

_WORKING: Final = ".restoring"
_CUT: Final = "the backup could not be brought to its database"
_NEXT: Final = "look at its disk, or at the server of FORGE_DATABASE_URL, then restore the same backup again"
_JOB: Final = re.compile(r"j[0-9a-z]+")
_NUMBERS_SKIPPED: Final = 1_000_000
_NUMBERS_SKIPPED_A_SECOND: Final = 1000
"""More than the events of a busy install: what followed the backup had numbers that others were told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was restored, and what a person has to know of it."""

    manifest: Manifest
    counts: Counts
    gaps: list[Gap] = field(default_factory=list)
    blobs: list[Digest] = field(default_factory=list)
    newer: list[Newer] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Jobs that have a folder in the storage and none in the ledger: submitted after the backup, or deleted."""


def restore(settings: ConsoleSettings, source: Path) -> Outcome:
    """Restore the backup in `source` to where these settings point. The install stays the same one.

    Raises:
        SettingsError: the backup is damaged, a console is set up there already, or the storage is another one.
        LedgerFailed: the database went away, or its disk refused.
        OSError: a disk refuses.

    """
    manifest = load_manifest(source)
    state = settings.paths.console_state_dir
    _require_empty(settings)
    check_storage(settings.storage_root, manifest.storage)
    check_files(source, manifest)
    prepare_folder(state)
    with (
        contextlib.closing(_Descriptor(lock_state(state))),
        _working(state / _WORKING) as folder,
        cut_short(_CUT, _NEXT),
    ):
        _require_empty(settings)  # nobody sets one up any more
        _require_no_other(source / STATE, state)
        with _whole_or_nothing(state):
            for name in DATABASES:
                copy_file(source / name, folder / name)
                upgrade_schema(folder / name, name.removesuffix(".db"))
            _copy_tree(source / STATE, state)
            outcome = _prepare(settings, manifest, source, folder)
            for name in DATABASES:
                settle_file(folder / name)
        for schema in reversed(SCHEMAS):  # the ledger last: until it is there, nothing is set up
            copy_in(folder / f"{schema}.db", locate(settings, schema), schema)
        return outcome


def _prepare(settings: ConsoleSettings, manifest: Manifest, source: Path, folder: Path) -> Outcome:
    """Bring the logs to their place, and make of the copied ledger one that knows it was restored."""
    logs = settings.paths.console_state_dir / LOGS
    ledger, series = Database(folder / "ledger.db", "ledger"), Database(folder / "series.db", "series")
    try:
        without = ledger.read_now(list_without_log)
        series.read_now(lambda c: copy_logs(iterate_log_files(c), source / LOGS, logs))
        gaps = series.read_now(lambda c: list(find_gaps(iterate_log_files(c), logs, without)))
        storage = StorageLayout(settings.storage_root)
        numbers = ledger.read_now(list_numbers)
        found, unknown = _scan_runs(storage, numbers)
        restored = Restored(made_at=manifest.made_at, at=time.time())
        when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(manifest.made_at))
        skipped = _NUMBERS_SKIPPED + int(_NUMBERS_SKIPPED_A_SECOND * max(0.0, restored.at - restored.made_at))
        ledger.write_now(lambda c: mark_restored(c, restored, say("restored.from", when=when)))
        ledger.write_now(lambda c: skip_event_numbers(c, skipped))
        newer = ledger.write_now(lambda c: note_newer(c, found))
        blobs = [one for one in ledger.read_now(list_blobs) if not storage.blob(one).is_file()]
        counts = ledger.read_now(count_rows)
    finally:
        series.close()
        ledger.close()
    return Outcome(manifest=manifest, counts=counts, gaps=gaps, blobs=blobs, newer=newer, unknown=unknown)


def _scan_runs(storage: StorageLayout, numbers: dict[JobId, int]) -> tuple[list[Newer], list[str]]:
    """Attempts and jobs that the storage knows and the ledger does not.

    An attempt's folder is there before anything of it is launched, so none that ran is missed on the same storage.
    """
    newer: list[Newer] = []
    unknown: list[str] = []
    runs = storage.run(JobId("j")).parent
    for name in sorted(_list_names(runs)):
        if not _JOB.fullmatch(name):
            continue
        job = JobId(name)
        if job not in numbers:
            unknown.append(name)
            continue
        made = {*_list_names(runs / name / "attempts"), *_list_names(runs / name / "capsules")}
        found = sorted(int(one) for one in made if one.isdecimal())
        newer += [Newer(job, number, IN_STORAGE) for number in found if number > numbers[job]]
    return newer, unknown


def _require_empty(settings: ConsoleSettings) -> None:
    place = locate(settings, "ledger")
    if holds_install(place):
        raise SettingsError(
            "a console is set up here already",
            why="a backup is restored into an empty place alone: nothing is written over",
            next_step="move FORGE_CONSOLE_STATE_DIR aside, or name an empty database in FORGE_DATABASE_URL",
        )


def _require_no_other(source: Path, state: Path) -> None:
    """Keys open what a ledger keeps, which may lie in a database: other files of theirs are no empty place."""
    for root, _, names in os.walk(source):
        for name in names:
            given = Path(root) / name
            there = state / given.relative_to(source)
            if there.exists() and there.read_bytes() != given.read_bytes():
                raise SettingsError(
                    f"{there} is there already, and is not the backup's",
                    why="it may be the key of another console, whose ledger lies in a database: without it what is"
                    " sealed there is lost",
                    next_step="set FORGE_DATABASE_URL as that console has it, or move FORGE_CONSOLE_STATE_DIR aside",
                )


class _Descriptor:
    def __init__(self, number: int) -> None:
        self._number = number

    def close(self) -> None:
        os.close(self._number)


@contextlib.contextmanager
def _working(folder: Path) -> Iterator[Path]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _whole_or_nothing(state: Path) -> Iterator[None]:
    """Leave nothing new in `state` where it fails. Once databases are filled nobody may do so: the keys open them."""
    before = set(state.rglob("*"))
    try:
        yield
    except BaseException:
        for path in sorted(set(state.rglob("*")) - before, reverse=True):
            with contextlib.suppress(OSError):
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        raise


def _copy_tree(source: Path, target: Path) -> None:
    for root, _, names in os.walk(source):
        there = target / Path(root).relative_to(source)
        there.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in names:
            copy_file(Path(root) / name, there / name)
            shutil.copymode(Path(root) / name, there / name)


def _list_names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []

"""Takes a backup of a console that may be serving: databases first, each at one moment, then what they name."""

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from starforge import __version__
from starforge.durable import sync_folder
from starforge.errors import StarForgeError
from starforge.said.sentence import say
from starforge_console.backup.logs import copy_file, copy_logs, find_gaps
from starforge_console.backup.manifest import DATABASES, LOGS, STATE, Manifest, list_kept
from starforge_console.errors import SettingsError
from starforge_console.fleets.install import SCHEMAS, load_install, locate
from starforge_console.ledger.contents import iterate_log_files, list_without_log
from starforge_console.ledger.copying import copy_out, cut_short, settle_file
from starforge_console.ledger.database import Database
from starforge_console.ledger.place import Server
from starforge_console.ledger.retention_runs import BY_BACKUP, Hold, add_hold, end_hold, new_hold_id
from starforge_console.ledger.revisions import require_current
from starforge_console.settings.console import ConsoleSettings

_CUT: Final = "the database could not be copied, and nothing is left of this backup"
_NEXT: Final = "look at its disk, or at the server of FORGE_DATABASE_URL, then take the backup again"
HELD_S: Final = 24 * 3600.0
"""So long the hold of a backup that was killed stands at most."""
_LEFT_OUT: Final = frozenset({LOGS, "leader", ".restoring"})
"""Of the state directory: logs are copied by what names them, and the others are a process's own."""


def take_backup(settings: ConsoleSettings, target: Path) -> Manifest:
    """Write a whole backup to the new folder `target`, or none. The collector removes nothing meanwhile.

    Raises:
        SettingsError: there is something at `target`, or the database cannot be used.
        LedgerFailed: the database went away, or its disk refused.
        OSError: a disk refuses.

    """
    _require_room(settings, target)
    ledger = Database(locate(settings, "ledger"), "ledger")
    with contextlib.closing(ledger), cut_short(_CUT, _NEXT):
        ledger.read_now(lambda c: require_current(c, "ledger"))
        install = load_install(ledger, settings.storage_root)
        partial = target.with_name(f".{target.name}.partial")
        with _holding(ledger, target), _building(partial):
            made_at = time.time()
            copy_out({schema: locate(settings, schema) for schema in SCHEMAS}, partial)
            state = settings.paths.console_state_dir
            _copy_state(state, partial / STATE)
            series, without = Database(partial / "series.db", "series"), _find_without_log(partial)
            try:
                series.read_now(lambda c: copy_logs(iterate_log_files(c), state / LOGS, partial / LOGS))
                gaps = series.read_now(lambda c: list(find_gaps(iterate_log_files(c), partial / LOGS, without)))
            finally:
                series.close()
            for name in DATABASES:
                settle_file(partial / name)
            manifest = Manifest(
                version=__version__,
                made_at=made_at,
                install=install.id,
                storage=install.storage_id,
                database="postgresql" if isinstance(locate(settings, "ledger"), Server) else "sqlite",
                files=list_kept(partial),
                gaps=gaps,
            )
            manifest.write(partial)
            sync_folder(partial)
            partial.rename(target)
            sync_folder(target.parent)
            return manifest


def _require_room(settings: ConsoleSettings, target: Path) -> None:
    inside = (settings.paths.console_state_dir, settings.storage_root)
    if any(target.resolve().is_relative_to(folder.resolve()) for folder in inside):
        raise SettingsError(
            f"{target} lies in what is backed up", why="it would be lost with it", next_step="name a folder elsewhere"
        )
    if target.exists():
        raise SettingsError(
            f"{target} exists", why="a backup is a new folder: nothing is written over", next_step="name another one"
        )


@contextlib.contextmanager
def _holding(ledger: Database, target: Path) -> Iterator[None]:
    """Keep the collector from removing what the copy will name, by a hold of its own: any other may end meanwhile."""
    now = time.time()
    hold = Hold(
        id=new_hold_id(BY_BACKUP),
        until=now + HELD_S,
        by=BY_BACKUP,
        why=say("backup.to", folder=str(target)),
        by_console=True,
    )
    ledger.write_now(lambda c: add_hold(c, hold, now))
    try:
        yield
    finally:
        # Where the ledger went away the hold ends by itself: a backup that is whole is none the worse for that, and of
        # one that failed something else is told.
        with contextlib.suppress(StarForgeError):
            ledger.write_now(lambda c: end_hold(c, hold.id))


@contextlib.contextmanager
def _building(folder: Path) -> Iterator[None]:
    shutil.rmtree(folder, ignore_errors=True)  # of a backup that was cut
    folder.mkdir(mode=0o700, parents=True)
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _copy_state(state: Path, target: Path) -> None:
    """Keys, wheels and what else a console keeps in files; what goes meanwhile was a passing one."""
    for root, _, names in os.walk(state):
        relative = Path(root).relative_to(state)
        if relative.parts and relative.parts[0] in _LEFT_OUT:
            continue
        for name in names:
            if not relative.parts and (name in _LEFT_OUT or name.startswith(DATABASES)):
                continue
            source = Path(root) / name
            if source.is_symlink() or not source.is_file():
                continue
            (target / relative).mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                copy_file(source, target / relative / name)
                shutil.copymode(source, target / relative / name)


def _find_without_log(folder: Path) -> frozenset[str]:
    copied = Database(folder / "ledger.db", "ledger")
    try:
        return copied.read_now(list_without_log)
    finally:
        copied.close()

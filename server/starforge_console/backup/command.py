"""What `starforge-console backup` and `starforge-console restore` print."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from starforge.cli.output import note, say
from starforge.wording import count_of, describe_bytes
from starforge_console.backup.manifest import Gap
from starforge_console.backup.restoring import Outcome, restore
from starforge_console.backup.taking import take_backup
from starforge_console.settings.console import ConsoleSettings

_SHOWN: Final = 20


def back_up(settings: ConsoleSettings, target: Path, *, as_json: bool) -> None:
    """Take a backup and say what it holds. Raises SettingsError and OSError."""
    manifest = take_backup(settings, target)
    size_bytes = sum(one.bytes for one in manifest.files)
    if as_json:
        _print({"folder": str(target), "bytes": size_bytes, **_without_files(asdict(manifest))})
        return
    say(str(target))
    note(f"{count_of(len(manifest.files), 'file')}, {describe_bytes(size_bytes)}")
    _show_gaps(manifest.gaps)
    note("keep it like a password: it holds the keys that open users' secrets; next, copy the storage root")


def bring_back(settings: ConsoleSettings, source: Path, *, as_json: bool) -> None:
    """Restore a backup and say what a person has to know of it. Raises SettingsError and OSError."""
    outcome = restore(settings, source)
    if as_json:
        _print(_without_files(asdict(outcome.manifest)) | _describe(outcome))
        return
    counts = outcome.counts
    jobs, attempts = count_of(counts.jobs, "job"), count_of(counts.attempts, "attempt")
    say(f"{jobs}, {attempts}, {count_of(counts.events, 'event')}")
    _show_gaps(outcome.gaps)
    _show("missing blob", [str(one) for one in outcome.blobs])
    newer = [f"attempt {one.number} of job {one.job} ({one.place})" for one in outcome.newer]
    _show("newer than the backup, its job is held", newer)
    _show("job without a record", outcome.unknown)
    note("next: starforge-console serve; nothing starts until every machine has told what it holds")
    note("tokens that were revoked after the backup are valid again, and the collector removes nothing for 7 days")


def _describe(outcome: Outcome) -> dict[str, Any]:
    return {
        "counts": asdict(outcome.counts),
        "gaps": [asdict(one) for one in outcome.gaps],
        "blobs": list(outcome.blobs),
        "newer": [asdict(one) for one in outcome.newer],
        "unknown": outcome.unknown,
    }


def _without_files(manifest: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in manifest.items() if name != "files"}


def _show_gaps(gaps: Sequence[Gap]) -> None:
    found = [f"bytes {one.from_byte} to {one.to_byte} of {one.stream} of {one.attempt}: {one.why}" for one in gaps]
    _show("missing", found)


def _show(what: str, found: Sequence[str]) -> None:
    for one in found[:_SHOWN]:
        note(f"{what}: {one}")
    if len(found) > _SHOWN:
        note(f"{what}: {len(found) - _SHOWN} more; --json lists all")


def _print(answer: dict[str, Any]) -> None:
    say(json.dumps(answer, indent=2))

"""What a job does to its spool, or with its names, holds up nobody, fills nothing and tells no secret."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from server.tests.databases import read_stored
from server.tests.ingest.builders import (
    Site,
    ended,
    event_line,
    metrics_line,
    open_site,
    run,
    secret_of,
    token_of,
    write_exit,
)
from starforge.contract.capsule import CHECKPOINT_MANIFEST
from starforge.contract.ids import AttemptId
from starforge.errors import Busy
from starforge_console.assembly.layout import StorageLayout
from starforge_console.ingest.backfill import Backfill
from starforge_console.ingest.bounds import Bounds
from starforge_console.ingest.finalise import Finaliser, StillReading
from starforge_console.ingest.presence import Presence
from starforge_console.ledger.reports import ReportingAttempt, list_outputs

MIB = 1 << 20
TIB = 1 << 40
SOON_S = 20.0


def _finaliser(site: Site) -> Finaliser:
    return Finaliser(site.receiver, site.stores, site.storage, site.clock, {})


def _spool(site: Site, attempt: ReportingAttempt, name: str, content: bytes, size_bytes: int | None = None) -> Path:
    path = site.spool(attempt) / name
    path.write_bytes(content)
    if size_bytes is not None:
        os.truncate(path, size_bytes)
    return path


@pytest.mark.parametrize("has_record", [True, False], ids=["with a record", "killed"])
@pytest.mark.parametrize("name", ["log.bin", "metrics.jsonl", "events.jsonl"])
def test_a_spool_file_that_was_made_long_is_read_as_far_as_it_was_written(
    tmp_path: Path, name: str, *, has_record: bool
) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            content = {
                "log.bin": b"words",
                "metrics.jsonl": metrics_line(1, 0.5),
                "events.jsonl": event_line("started"),
            }
            for file, lines in content.items():
                _spool(site, attempt, file, lines, TIB if file == name else None)
            if has_record:
                write_exit(site, attempt, log=5, metrics=len(content["metrics.jsonl"]))
            began = time.monotonic()
            _, produced = await _finaliser(site).finalise(ended(attempt))
            assert time.monotonic() - began < SOON_S
            assert (await site.log_bytes(attempt))[:5] == b"words"
            assert len(await site.log_bytes(attempt)) <= 5 + MIB
            assert produced == len(await site.log_bytes(attempt))
            assert await site.points(attempt, "loss") == [(1, 0.5)]
            assert "training process started" in await site.notes(attempt)
            assert len([note for note in await site.notes(attempt) if "not read" in note]) == 1

    run(_scenario())


def test_a_hole_does_not_hold_up_the_look_at_a_silent_attempt(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            for name in ("log.bin", "metrics.jsonl", "events.jsonl"):
                _spool(site, attempt, name, event_line("started"), TIB)
            presence = Presence(site.clock)
            backfill = Backfill(site.receiver, site.stores, site.storage, presence)
            await backfill.run_once()
            site.clock.at += 15
            began = time.monotonic()
            await backfill.run_once()
            assert time.monotonic() - began < SOON_S
            assert (await site.log_bytes(attempt)).rstrip(b"\0") == event_line("started")

    run(_scenario())


def test_zeros_that_a_job_printed_are_no_hole(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            path = _spool(site, attempt, "log.bin", b"words", 2 * MIB)
            with path.open("ab") as file:
                file.write(b"more")
            await _finaliser(site).finalise(ended(attempt))
            assert await site.log_bytes(attempt) == b"words".ljust(2 * MIB, b"\0") + b"more"

    run(_scenario())


def test_what_the_runner_does_not_speak_of_is_not_read(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path, Bounds(slack_bytes=10)) as site:
            attempt = await site.start_attempt()
            _spool(site, attempt, "log.bin", b"x" * 5000)
            write_exit(site, attempt, log=1000)
            _, produced = await _finaliser(site).finalise(ended(attempt))
            assert produced == len(await site.log_bytes(attempt)) == 1010
            assert any("the runner wrote 1000" in note for note in await site.notes(attempt))

    run(_scenario())


def test_a_large_spool_is_read_in_turns(tmp_path: Path) -> None:
    content = os.urandom(5 * MIB)

    async def _scenario() -> int:
        async with open_site(tmp_path, Bounds(round_bytes=2 * MIB)) as site:
            attempt = await site.start_attempt()
            _spool(site, attempt, "log.bin", content)
            for turns in range(10):
                try:
                    await _finaliser(site).finalise(ended(attempt))
                except StillReading:
                    continue
                assert await site.log_bytes(attempt) == content
                return turns
        return -1

    assert run(_scenario()) == 2


@pytest.mark.parametrize("word_of", [token_of, secret_of])
def test_names_and_notes_do_not_carry_the_attempts_secrets_to_its_readers(
    tmp_path: Path, word_of: Callable[[AttemptId], str]
) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            token = word_of(attempt.id)
            layout, out = site.storage.attempt(attempt.id), site.storage.outputs(attempt.job, 1)
            for folder in (layout.checkpoints / f"step-1-{token}", layout.checkpoints / f"half-2-{token}", out):
                folder.mkdir(parents=True)
                (folder / f"{token}.bin").write_bytes(b"x")
            manifest = '{"version": "1.0", "step": 1, "committed_at": 1.0, "files": {}}'
            (layout.checkpoints / f"step-1-{token}" / CHECKPOINT_MANIFEST).write_text(manifest)
            lines = event_line("note", code="x", message=f"have {token}")
            lines += event_line("artifact", path=f"{token}.bin", bytes=1, sha256="ab" * 32)
            _spool(site, attempt, "events.jsonl", lines)
            _spool(site, attempt, "metrics.jsonl", metrics_line(1, 0.5, token) + metrics_line(2, 0.5, token))
            outputs, _ = await _finaliser(site).finalise(ended(attempt))
            assert {row["path"] for row in outputs["checkpoints"]} == {"ckpt/step-1-***", "ckpt/half-2-***"}
            assert [row["path"] for row in outputs["artifacts"]] == ["***.bin"]
            assert await site.points(attempt, "***") == [(1, 0.5), (2, 0.5)]
            told = await site.stores.ledger.read(lambda c: list_outputs(c, attempt.id))
            assert token not in repr((outputs, told, await site.notes(attempt)))
            assert any("have ***" in note for note in await site.notes(attempt))

    run(_scenario())
    kept = read_stored(tmp_path)
    assert b"***.bin" in kept
    assert b"sfa_secret-of" not in kept


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "none", folder], check=False).returncode != 0:
        pytest.skip("this user may not mount a tmpfs")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def test_an_almost_full_disk_is_left_to_the_ledger(small_disk: Path) -> None:
    async def _scenario() -> None:
        async with open_site(small_disk, Bounds(reserve_bytes=4 * MIB)) as site:
            attempt = await site.start_attempt()
            with pytest.raises(Busy, match="FORGE_STATE_RESERVE_BYTES"):
                await _send_log(site, attempt, 64 * MIB)
            at = (await site.receiver.find_mark(attempt, "log")).received_to
            assert at > MIB
            assert at == next((small_disk / "logs").rglob("log-*")).stat().st_size
            with pytest.raises(Busy):
                await site.receiver.take(attempt, "metrics", 0, metrics_line(1, 0.5))
            assert (await site.receiver.take(attempt, "events", 0, event_line("started"))).received_to > 0
            assert await site.notes(attempt) == ["training process started"]

    run(_scenario())


def test_reading_a_log_to_its_end_waits_for_room(small_disk: Path, tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(small_disk, Bounds(reserve_bytes=4 * MIB)) as site:
            site.storage = StorageLayout(tmp_path / "storage")
            attempt = await site.start_attempt()
            _spool(site, attempt, "log.bin", b"words")
            ballast = small_disk / "ballast"
            ballast.write_bytes(b"x" * (13 * MIB - _used_bytes(small_disk)))
            with pytest.raises(Busy):
                await _finaliser(site).finalise(ended(attempt))
            ballast.unlink()
            await _finaliser(site).finalise(ended(attempt))
            assert await site.log_bytes(attempt) == b"words"

    run(_scenario())


async def _send_log(site: Site, attempt: ReportingAttempt, size_bytes: int) -> None:
    at = 0
    while at < size_bytes:
        at = (await site.receiver.take(attempt, "log", at, os.urandom(MIB // 2))).received_to


def _used_bytes(folder: Path) -> int:
    disk = os.statvfs(folder)
    return (disk.f_blocks - disk.f_bfree) * disk.f_frsize

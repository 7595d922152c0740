import asyncio
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, select

from server.tests.ingest.builders import Site, ended, event_line, metrics_line, open_site, run, write_exit
from server.tests.ledger.builders import guard, in_flight, take
from starforge.contract.capsule import CHECKPOINT_MANIFEST
from starforge.contract.ids import JobId
from starforge.contract.states import Reason
from starforge_console.domain.reconcile import Move
from starforge_console.ingest.backfill import Backfill
from starforge_console.ingest.curves import Curves
from starforge_console.ingest.finalise import Finaliser
from starforge_console.ingest.presence import Presence
from starforge_console.ledger.apply import apply_move
from starforge_console.ledger.moves import move
from starforge_console.ledger.reports import ReportingAttempt
from starforge_console.ledger.share_tables import stored
from starforge_console.ledger.stored import list_stored

DIGEST = "cd" * 32
LOG = bytes(range(256)) * 9000  # more than two bodies
METRICS = b"".join(metrics_line(step, 1 / step) for step in range(1, 400))
EVENTS = event_line("started") + event_line("artifact", path="model.bin", bytes=5, sha256=DIGEST)
OFFSETS = {"log": len(LOG), "metrics": len(METRICS), "events": len(EVENTS)}


def _finaliser(site: Site) -> Finaliser:
    return Finaliser(site.receiver, site.stores, site.storage, site.clock, {})


def _leave_files(site: Site, attempt: ReportingAttempt) -> None:
    spool = site.spool(attempt)
    (spool / "log.bin").write_bytes(LOG)
    (spool / "metrics.jsonl").write_bytes(METRICS)
    (spool / "events.jsonl").write_bytes(EVENTS)
    layout = site.storage.attempt(attempt.id)
    committed = layout.checkpoints / "step-10"
    committed.mkdir(parents=True)
    (committed / "weights").write_bytes(b"12345")
    manifest = {"version": "1.0", "step": 10, "committed_at": 1.0, "files": {"weights": {"bytes": 5, "sha256": DIGEST}}}
    (committed / CHECKPOINT_MANIFEST).write_text(json.dumps(manifest))
    unfinished = layout.checkpoints / "checkpoint-20"
    unfinished.mkdir()
    (unfinished / "weights").write_bytes(b"123")
    write_exit(site, attempt, **OFFSETS)


async def _result(site: Site, attempt: ReportingAttempt) -> tuple[Any, ...]:
    outcome = await _finaliser(site).finalise(ended(attempt))
    curve = await Curves(site.stores.series).curve(attempt.job, "loss", 100)
    return await site.log_bytes(attempt), curve, sorted(await site.notes(attempt)), outcome


@pytest.mark.parametrize("reached", ["never", "in part", "always"])
def test_log_curve_and_outputs_are_the_same_whether_ingest_was_reached_or_not(tmp_path: Path, reached: str) -> None:
    share = {"never": 0, "in part": 1, "always": 2}[reached]

    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            _leave_files(site, attempt)
            for stream, content in (("log", LOG), ("metrics", METRICS), ("events", EVENTS)):
                size = len(content) * share // 2
                for at in range(0, size, 1 << 20):
                    part = content[at : min(at + (1 << 20), size)]
                    await site.receiver.take(attempt, stream, at, part)
            log, curve, notes, (outputs, produced) = await _result(site, attempt)
            assert log == LOG
            assert produced == len(LOG)
            assert curve.total_points == 399
            assert notes == ["training process started"]
            assert outputs == {
                "artifacts": [{"path": "model.bin", "bytes": 5, "sha256": DIGEST}],
                "checkpoints": [
                    {"step": 10, "path": "ckpt/step-10", "bytes": 5, "committed": True},
                    {"step": 20, "path": "ckpt/checkpoint-20", "bytes": 3, "committed": False},
                ],
            }
            assert await _result(site, attempt) == (log, curve, notes, (outputs, produced))

    run(_scenario())


def test_what_an_attempt_holds_on_the_storage_is_measured_whatever_it_told_and_nothing_behind_a_link(
    tmp_path: Path,
) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt(nodes=2)
            _leave_files(site, attempt)
            layout = site.storage.attempt(attempt.id)
            node = layout.root / "node-1"
            node.mkdir()
            (node / "log.bin").write_bytes(b"1234567")
            out = site.storage.outputs(attempt.job, 1)
            (out / "deep").mkdir(parents=True)
            (out / "model.bin").write_bytes(b"12345")
            (out / "deep" / "untold").write_bytes(b"123")
            (out / "again").hardlink_to(out / "model.bin")
            outside = tmp_path / "outside"
            outside.mkdir()
            (outside / "huge").write_bytes(b"1" * 10_000)
            (out / "link").symlink_to(outside)
            (out / "file").symlink_to(outside / "huge")
            manifest = len((layout.checkpoints / "step-10" / CHECKPOINT_MANIFEST).read_bytes())
            for _ in range(2):
                await _finaliser(site).finalise(ended(attempt))
                rows = await site.stores.ledger.read(lambda c: c.execute(select(stored)).all())
                assert {(row.kind, row.number): row.bytes for row in rows} == {
                    ("artifacts", 1): 5 + 3,
                    ("checkpoints", 1): 5 + 3 + manifest,
                    ("log", 1): len(LOG) + len(METRICS) + len(EVENTS) + 7,
                }
            out.rename(tmp_path / "away")
            out.symlink_to(outside)
            await _finaliser(site).finalise(ended(attempt))
            assert await site.stores.ledger.read(lambda c: list_stored(c, [1])) == {
                (1, attempt.job): 5 + 3 + manifest + len(LOG) + len(METRICS) + len(EVENTS) + 7
            }

    run(_scenario())


def test_an_attempt_that_never_started_leaves_nothing(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            empty: dict[str, list[object]] = {"artifacts": [], "checkpoints": []}
            assert await _finaliser(site).finalise(ended(attempt)) == (empty, None)
            site.spool(attempt)
            assert await _finaliser(site).finalise(ended(attempt)) == (empty, 0)
            assert await _finaliser(site).exit_record(attempt.id) is None

    run(_scenario())


def test_bytes_that_the_exit_record_speaks_of_and_nobody_has_count_as_produced(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            (site.spool(attempt) / "log.bin").write_bytes(b"only this")
            write_exit(site, attempt, log=500)
            _, produced = await _finaliser(site).finalise(ended(attempt))
            assert produced == 500

    run(_scenario())


def test_files_of_a_runner_that_was_killed_are_listed_without_digests(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            site.spool(attempt)
            out = site.storage.outputs(attempt.job, 1)
            (out / "sub").mkdir(parents=True)
            (out / "sub" / "model.bin").write_bytes(b"12345")
            (out / "link").symlink_to("/etc/passwd")
            outputs, _ = await _finaliser(site).finalise(ended(attempt))
            assert outputs["artifacts"] == [{"path": "sub/model.bin", "bytes": 5, "sha256": None}]

    run(_scenario())


def test_files_after_a_lost_attempt_are_looked_for_in_their_own_folder(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            lost = await site.start_attempt()
            retried = await site.stores.ledger.write(lambda c: retry_lost(c, lost.job))
            for name in ("out", "out-2"):
                folder = site.storage.run(lost.job) / name
                folder.mkdir(parents=True)
                (folder / f"of-{name}").touch()
            for attempt, path in ((lost, "of-out"), (retried, "of-out-2")):
                site.spool(attempt)
                outputs, _ = await _finaliser(site).finalise(ended(attempt))
                assert [one["path"] for one in outputs["artifacts"]] == [path]

    run(_scenario())


def retry_lost(connection: Connection, job: JobId) -> ReportingAttempt:
    failed = apply_move(connection, in_flight(connection, job), Move(reasons=(Reason.NODE_LOST,)), guard(20.0))
    assert failed is not None
    assert move(connection, failed, [Reason.RETRIED], guard(30.0, lease=None)) is not None
    attempt = take(connection, job).attempt
    return ReportingAttempt(id=attempt.id, job=job, number=attempt.number)


def test_a_line_cut_off_by_a_kill_and_a_line_too_long_do_not_hold_up_the_rest(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            content = b"x" * (3 << 20) + b"\n" + metrics_line(1, 0.5) + b'{"time": 1, "step": 2, "val'
            (site.spool(attempt) / "metrics.jsonl").write_bytes(content)
            await _finaliser(site).finalise(ended(attempt))
            assert await site.points(attempt, "loss") == [(1, 0.5)]
            assert (await site.receiver.find_mark(attempt, "metrics")).received_to == len(content)
            assert len([note for note in await site.notes(attempt) if "line of metrics" in note]) == 1

    run(_scenario())


@pytest.mark.parametrize("kind", ["link", "pipe", "folder link"])
def test_a_link_or_a_pipe_in_the_place_of_a_spool_file_is_not_read(tmp_path: Path, kind: str) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            (tmp_path / "secret").mkdir()
            (tmp_path / "secret" / "log.bin").write_text("of the host")
            spool = site.spool(attempt)
            if kind == "link":
                (spool / "log.bin").symlink_to(tmp_path / "secret" / "log.bin")
            elif kind == "pipe":
                os.mkfifo(spool / "log.bin")
            else:
                spool.rmdir()
                spool.symlink_to(tmp_path / "secret")
            await _finaliser(site).finalise(ended(attempt))
            assert await site.log_bytes(attempt) == b""
            assert any("is not read" in note for note in await site.notes(attempt))

    run(_scenario())


def test_folders_nested_without_end_do_not_hold_up_the_end(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            site.spool(attempt)
            layout = site.storage.attempt(attempt.id)
            _nest(layout.checkpoints, 1500)
            try:
                outputs, _ = await _finaliser(site).finalise(ended(attempt))
            finally:
                # Python's own removal, which pytest would use, does not get down there.
                await asyncio.to_thread(subprocess.run, ["rm", "-rf", str(layout.checkpoints)], check=True)
            assert outputs == {"artifacts": [], "checkpoints": []}

    run(_scenario())


def _nest(top: Path, depth: int) -> None:
    """Folders in folders, deeper than a path may be long."""
    top.mkdir(parents=True)
    descriptor = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=descriptor)
        inner = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)


def test_a_damaged_or_foreign_exit_record_is_none(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            other = replace(attempt, id=type(attempt.id)(attempt.id[:-1] + "z"))
            site.spool(attempt)
            write_exit(site, attempt, **OFFSETS)
            record = await _finaliser(site).exit_record(attempt.id)
            assert record is not None
            assert record.code == 0
            assert await _finaliser(site).exit_record(other.id) is None
            site.storage.attempt(attempt.id).exit_record.write_text("[" * 60_000)
            assert await _finaliser(site).exit_record(attempt.id) is None

    run(_scenario())


def test_a_silent_attempt_is_read_from_its_spool_while_it_runs(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            presence = Presence(site.clock)
            backfill = Backfill(site.receiver, site.stores, site.storage, presence)
            spool = site.spool(attempt)
            (spool / "log.bin").write_bytes(b"first words")
            (spool / "metrics.jsonl").write_bytes(metrics_line(1, 0.5) + metrics_line(2, 0.25)[:9])
            await backfill.run_once()
            assert await site.log_bytes(attempt) == b""
            site.clock.at += 15
            await backfill.run_once()
            assert presence.is_silent(attempt.id)
            assert await site.log_bytes(attempt) == b"first words"
            assert await site.points(attempt, "loss") == [(1, 0.5)]
            (spool / "metrics.jsonl").write_bytes(metrics_line(1, 0.5) + metrics_line(2, 0.25))
            await backfill.run_once()
            assert await site.points(attempt, "loss") == [(1, 0.5), (2, 0.25)]
            presence.note(attempt.id)
            await backfill.run_once()
            assert not presence.is_silent(attempt.id)

    run(_scenario())

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from server.tests.ingest.builders import Site, event_line, metrics_line, open_site, run
from starforge.errors import Busy, InputError, NotFound
from starforge_console.errors import StreamClosed, StreamGap
from starforge_console.ledger.reports import ReportingAttempt, list_outputs
from starforge_console.ledger.series import list_segments
from starforge_console.ledger.tables import jobs
from starforge_console.ledger.views import load_job

CONTENT = {
    "log": bytes(range(256)) * 8,
    "metrics": b"".join(metrics_line(step, step / 2) for step in range(60)),
    "events": b"".join(event_line("note", code="x", message=f"note {n}") for n in range(30)),
}


def _cuts(stream: str) -> list[int]:
    """Where a send may begin or end: anywhere in a log, at the lines' ends in others."""
    content = CONTENT[stream]
    if stream == "log":
        return list(range(0, len(content) + 1, 7))
    return [0, *(index + 1 for index, byte in enumerate(content) if byte == ord("\n"))]


@given(stream=st.sampled_from(sorted(CONTENT)), seed=st.integers(0, 2**32))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_duplicated_overlapping_and_reordered_sends_keep_each_byte_once(
    stream: str, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    chance = random.Random(seed)
    cuts = _cuts(stream)
    sends = [sorted(chance.sample(cuts, 2)) for _ in range(30)]

    async def _scenario(folder: Path) -> None:
        async with open_site(folder) as site:
            attempt = await site.start_attempt()
            for start, end in sends:
                await _send(site, attempt, stream, start, end)
                if chance.random() < 0.2:
                    await site.receiver.close()
                    site.receiver = site.new_receiver()  # as after a restart of the console
            mark = await site.receiver.find_mark(attempt, stream)
            await _send(site, attempt, stream, mark.received_to, len(CONTENT[stream]))
            assert (await site.receiver.find_mark(attempt, stream)).received_to == len(CONTENT[stream])
            await _check(site, attempt, stream)

    run(_scenario(tmp_path_factory.mktemp("site")))


async def _send(site: Site, attempt: ReportingAttempt, stream: str, start: int, end: int) -> None:
    before = (await site.receiver.find_mark(attempt, stream)).received_to
    if start > before:
        with pytest.raises(StreamGap) as gap:
            await site.receiver.take(attempt, stream, start, CONTENT[stream][start:end])
        assert gap.value.received_to == before
        return
    received = await site.receiver.take(attempt, stream, start, CONTENT[stream][start:end])
    assert received.received_to == max(before, end)


async def _check(site: Site, attempt: ReportingAttempt, stream: str) -> None:
    if stream == "log":
        assert await site.log_bytes(attempt) == CONTENT["log"]
    if stream == "metrics":
        assert await site.points(attempt, "loss") == [(step, step / 2) for step in range(60)]
    if stream == "events":
        assert await site.notes(attempt) == [f"note {n}" for n in range(30)]


def test_log_bytes_past_the_index_are_cut_after_a_crash(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            await site.receiver.take(attempt, "log", 0, b"acknowledged;")
            await site.receiver.close()
            file = next((tmp_path / "logs" / attempt.id).iterdir())
            with file.open("ab") as torn:
                torn.write(b"appended, and the console was killed before the index")
            site.receiver = site.new_receiver()
            received = await site.receiver.take(attempt, "log", 13, b"sent again")
            assert received.received_to == 23
            assert file.read_bytes() == b"acknowledged;sent again"

    run(_scenario())


def test_a_log_file_that_lost_bytes_is_not_written_over(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            await site.receiver.take(attempt, "log", 0, b"0123456789")
            await site.receiver.close()
            file = next((tmp_path / "logs" / attempt.id).iterdir())
            file.write_bytes(b"012")
            site.receiver = site.new_receiver()
            await site.receiver.take(attempt, "log", 10, b"more")
            assert file.read_bytes() == b"012"
            assert len(list((tmp_path / "logs" / attempt.id).iterdir())) == 2

    run(_scenario())


def test_many_small_sends_share_rows_of_the_index(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            for number in range(200):
                await site.receiver.take(attempt, "log", number * 10, b"0123456789")
            segments = await site.stores.series.read(lambda c: list_segments(c, attempt.id, "log", 0, 1000))
            assert len(segments) == 1
            assert await site.log_bytes(attempt) == b"0123456789" * 200

    run(_scenario())


def test_a_line_that_is_not_whole_stays_out(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            whole = metrics_line(1, 0.5)
            received = await site.receiver.take(attempt, "metrics", 0, whole + b'{"time": 1, "st')
            assert received.received_to == len(whole)
            with pytest.raises(InputError):
                await site.receiver.take(attempt, "metrics", len(whole), b'{"time": 1, "st')

    run(_scenario())


def test_malformed_lines_are_dropped_counted_and_told_once(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            bad = (
                b"no json\n"
                b'{"time": 1, "step": 1, "values": {"a": null}}\n'
                b'{"time": 1, "step": 99999999999999999999, "values": {"a": 1}}\n'
                + b"[" * 5000
                + b"\n"
                + b'{"time": 1, "step": 1, "values": {"a": "much", "loss": 2.0}}\n'
                + b"\xff\xfe\n"
            )
            content = metrics_line(1, "nan") + bad + metrics_line(2, "-inf")
            await site.receiver.take(attempt, "metrics", 0, content)
            await site.receiver.take(attempt, "metrics", len(content), bad)
            values = [value for _, value in await site.points(attempt, "loss")]
            assert [str(value) for value in values] == ["nan", "2.0", "-inf", "2.0"]
            assert await site.points(attempt, "a") == []
            assert len([note for note in await site.notes(attempt) if "line of metrics" in note]) == 1
            dropped = site.registry.get_sample_value("starforge_ingest_dropped_lines_total", {"stream": "metrics"})
            assert dropped == 12

    run(_scenario())


def test_events_become_entries_and_outputs_once(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            digest = "ab" * 32
            content = (
                event_line("started", resumed_from={"step": 7, "path": "/x"})
                + event_line("usage", memory={}, gpus=[])
                + event_line("checkpoint", step=10, path="step-10", committed=True)
                + event_line("artifact", path="model.bin", bytes=3, sha256=digest)
                + event_line("artifact", path="../../etc/passwd", bytes=3, sha256=digest)
                + event_line("stopping", why="stop", grace_s=30.0)
                + event_line("ended", code=143, signal=15, reason=None, message="a\0b")
            )
            await site.receiver.take(attempt, "events", 0, content)
            await site.receiver.take(attempt, "events", 0, content)
            notes = await site.notes(attempt)
            assert [note for note in notes if "line of events" not in note] == [
                "training process started, resumed from the checkpoint of step 7",
                "checkpoint of step 10 committed: ckpt/step-10",
                "stopping (stop), 30 s to end",
                "training ended: signal 15; a\N{REPLACEMENT CHARACTER}b",
            ]
            assert len(notes) == 5
            outputs = await site.stores.ledger.read(lambda c: list_outputs(c, attempt.id))
            assert [(output.kind, output.path, output.sha256) for output in outputs] == [
                ("artifact", "model.bin", digest),
                ("checkpoint", "ckpt/step-10", None),
            ]

    run(_scenario())


def test_the_newest_attempt_says_how_many_steps_there_will_be(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            job, at = attempt.job, 0
            for total, begun, shown in ((3000, 1, 3000), (4000, 1, 4000), (10, 2, 4000)):
                number = {"attempt_number": begun}
                await site.stores.ledger.write(lambda c: c.execute(update(jobs).values(number)))  # noqa: B023 - at once
                told = event_line("total_steps", total_steps=total)
                await site.receiver.take(attempt, "events", at, told)
                at += len(told)
                assert (await site.stores.ledger.read(lambda c: load_job(c, job))).total_steps == shown
            assert await site.notes(attempt) == []

    run(_scenario())


@pytest.mark.parametrize("total", [0, -1, 2**63, 1.5, "many", None])
def test_a_number_of_steps_that_can_be_none_is_dropped_and_told(tmp_path: Path, total: object) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            await site.receiver.take(attempt, "events", 0, event_line("total_steps", total_steps=total))
            assert (await site.stores.ledger.read(lambda c: load_job(c, attempt.job))).total_steps is None
            (note,) = await site.notes(attempt)
            assert "a line of events could not be used" in note

    run(_scenario())


def test_a_flood_of_events_does_not_fill_the_timeline(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            content = b"".join(event_line("note", code="n", message=f"note {n}") for n in range(1500))
            await site.receiver.take(attempt, "events", 0, content)
            notes = await site.notes(attempt)
            assert notes[:1000] == [f"note {n}" for n in range(1000)]
            assert notes[1000:] == ["attempt 1 tells more than 1000 events: the others are only in its spool"]

    run(_scenario())


def test_what_cannot_be_a_send_is_refused(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            with pytest.raises(NotFound):
                await site.receiver.take(attempt, "../log", 0, b"x")
            with pytest.raises(InputError):
                await site.receiver.take(attempt, "log", -1, b"x")
            with pytest.raises(InputError):
                await site.receiver.take(attempt, "log", 0, b"x" * ((1 << 20) + 1))

    run(_scenario())


def test_an_ended_stream_takes_repeats_and_nothing_new(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            await site.receiver.take(attempt, "log", 0, b"all")
            await site.receiver.end(attempt)
            assert (await site.receiver.take(attempt, "log", 0, b"all")).received_to == 3
            with pytest.raises(StreamClosed):
                await site.receiver.take(attempt, "log", 3, b"more")

    run(_scenario())


def test_a_full_disk_refuses_and_the_next_try_goes_on(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            (tmp_path / "logs").write_text("in the way")
            with pytest.raises(Exception, match="could not be written"):
                await site.receiver.take(attempt, "log", 0, b"first")
            (tmp_path / "logs").unlink()
            assert (await site.receiver.take(attempt, "log", 0, b"first")).received_to == 5
            assert await site.log_bytes(attempt) == b"first"

    run(_scenario())


@pytest.mark.parametrize("stream", sorted(CONTENT))
def test_a_second_receiver_with_an_old_mark_doubles_nothing(tmp_path: Path, stream: str) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            late = site.new_receiver()
            assert (await late.find_mark(attempt, stream)).received_to == 0
            await site.receiver.take(attempt, stream, 0, CONTENT[stream])
            with pytest.raises(Busy):
                await late.take(attempt, stream, 0, CONTENT[stream])
            assert (await late.take(attempt, stream, 0, CONTENT[stream])).received_to == len(CONTENT[stream])
            await late.close()
            await _check(site, attempt, stream)

    run(_scenario())

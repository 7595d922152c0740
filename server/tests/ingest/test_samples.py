"""Examples that a job reports: kept once, bounded, masked, and what of them is not kept is said."""

import asyncio
import json
from pathlib import Path

import pytest

from server.tests.ingest.builders import Site, event_line, open_site, run, token_of
from starforge_console.domain.samples import CHARACTERS_AT_MOST, COLUMNS_AT_MOST, ROWS_AT_MOST, Sample, build_rows
from starforge_console.ingest.lines import read_events
from starforge_console.ledger.reports import ReportingAttempt
from starforge_console.ledger.samples import (
    BYTES_AT_MOST,
    REPORTS_AT_MOST,
    find_sample,
    keep_samples,
    list_names,
    list_samples,
)


async def report(site: Site, attempt: ReportingAttempt, *lines: bytes, at: int = 0) -> int:
    content = b"".join(lines)
    return (await site.receiver.take(attempt, "events", at, content)).received_to


def samples_line(step: int, *rows: object, **members: object) -> bytes:
    return json.dumps({"kind": "samples", "time": 5.0, "step": step, "rows": rows, **members}).encode() + b"\n"


async def find(site: Site, attempt: ReportingAttempt, step: int | None = None, name: str = "samples") -> Sample:
    found = await site.stores.series.read(lambda c: find_sample(c, attempt.job, name, step))
    assert found is not None
    return found[1]


def test_rows_come_back_as_they_were_reported(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            row = {"prompt": "<b>你好</b>\n", "completion": "fine", "reward": 0.5, "tools": ["a"]}
            await report(site, attempt, samples_line(3, row), samples_line(7, {"prompt": "later"}, name="eval"))
            told = await find(site, attempt, 3)
            assert told.rows == ({"prompt": "<b>你好</b>\n", "completion": "fine", "reward": 0.5, "tools": '["a"]'},)
            assert (told.step, told.at) == (3, 5.0)
            assert await site.stores.series.read(lambda c: list_names(c, attempt.job)) == ["eval", "samples"]

    run(work())


def test_what_is_received_twice_is_kept_once(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            line = samples_line(1, {"a": "x"})
            sample = read_events(line, 0).samples
            kept = [await site.stores.series.write(lambda c: keep_samples(c, attempt.job, 1, sample)) for _ in range(2)]
            assert kept == [0, 0]
            assert await report(site, attempt, line) == len(line)
            steps = await site.stores.series.read(lambda c: list_samples(c, attempt.job, "samples", 0, 10))
            assert [(one.step, one.rows) for one in steps] == [(1, 1)]

    run(work())


def test_of_several_reports_at_one_step_the_last_counts(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            await report(site, attempt, samples_line(1, {"a": "first"}), samples_line(1, {"a": "last"}))
            assert (await find(site, attempt, 1)).rows == ({"a": "last"},)
            steps = await site.stores.series.read(lambda c: list_samples(c, attempt.job, "samples", -1, 10))
            assert [one.step for one in steps] == [1]

    run(work())


def test_the_attempts_token_is_masked_in_texts_and_names(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            token = token_of(attempt.id)
            await report(site, attempt, samples_line(1, {f"a{token}": f"see {token}!"}))
            assert token not in json.dumps((await find(site, attempt, 1)).rows)

    run(work())


def test_a_job_keeps_a_bounded_amount_and_says_so_once(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            many = [
                Sample(at_byte=at, name="samples", step=at, at=0.0, rows=({"a": "x"},))
                for at in range(1, REPORTS_AT_MOST)
            ]
            await site.stores.series.write(lambda c: keep_samples(c, attempt.job, 9, many))
            await report(site, attempt, *(samples_line(step, {"a": "y"}) for step in range(3)))
            notes = [note for note in await site.notes(attempt) if "examples" in note]
            assert len(notes) == 1
            assert str(REPORTS_AT_MOST) in notes[0]
            assert (await find(site, attempt, 0)).rows == ({"a": "y"},)

    run(work())


def test_a_large_text_counts_by_its_bytes(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            large = tuple({"a": "x" * CHARACTERS_AT_MOST} for _ in range(ROWS_AT_MOST))
            many = [
                Sample(at_byte=at, name="samples", step=at, at=0.0, rows=large)
                for at in range(BYTES_AT_MOST // (CHARACTERS_AT_MOST * ROWS_AT_MOST) + 1)
            ]
            refused = await site.stores.series.write(lambda c: keep_samples(c, attempt.job, 1, many))
            assert refused > 0

    run(work())


def test_rows_columns_and_texts_are_bounded_and_what_is_cut_is_said() -> None:
    rows, left_out = build_rows([{"a": "x" * 9000, **{str(n): n for n in range(40)}}] * 70)
    assert (len(rows), left_out, len(rows[0])) == (ROWS_AT_MOST, 6, COLUMNS_AT_MOST)
    assert str(rows[0]["a"]).endswith("x… [808 more characters]")


@pytest.mark.parametrize(
    "line",
    [
        {"kind": "samples", "step": "x", "rows": []},
        {"kind": "samples", "step": 1, "rows": "no list"},
        {"kind": "samples", "step": 1, "rows": [1, 2]},
        {"kind": "samples", "step": 2**63, "rows": []},
        {"kind": "samples", "step": 1, "rows": [], "name": "n" * 1000},
    ],
)
def test_what_are_no_examples_is_dropped_and_told(tmp_path: Path, line: dict[str, object]) -> None:
    async def work() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            await report(site, attempt, json.dumps(line).encode() + b"\n", event_line("note", message="goes on"))
            notes = await site.notes(attempt)
            assert any("a line of events could not be used" in note for note in notes)
            assert "goes on" in notes

    asyncio.run(work())

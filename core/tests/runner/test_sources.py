"""Metrics from files that frameworks write, and when a training counts as complete."""

import base64
import json
import os
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from core.tests.runner.support.attempt import Attempt
from starforge.contract import capsule as contract
from starforge.contract.bounds import LINE_BYTES
from starforge.runner.progress import Progress, decide_complete
from starforge.runner.sources import JsonlSource, LineTail, LmEvalSource, ReportSource
from starforge.runner.spool import Spool
from starforge.runner.tensorboard import TensorboardSource


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(str(tmp_path / "spool"), [])


def read(spool: Spool, name: str = "metrics") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(spool.streams[name].path).read_bytes().splitlines()]


def test_a_tail_gives_whole_lines_only_and_follows_a_replaced_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    tail = LineTail(str(path))
    assert tail.read_lines() == []
    path.write_bytes(b"one\ntw")
    assert tail.read_lines() == [b"one"]
    with path.open("ab") as file:
        file.write(b"o\n")
    assert tail.read_lines() == [b"two"]
    (tmp_path / "new").write_bytes(b"other\n")
    (tmp_path / "new").rename(path)
    assert tail.read_lines() == [b"other"]


def test_a_line_that_is_too_long_is_passed_over_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "file"
    tail = LineTail(str(path))
    path.write_bytes(b"x" * (3 * LINE_BYTES))
    assert tail.read_lines() == []
    with path.open("ab") as file:
        file.write(b"end of it\nnext\n" + b"y" * (LINE_BYTES - 1) + b"\n")
    assert tail.read_lines() == [b"next"]
    assert tail.read_lines() == [b"y" * (LINE_BYTES - 1)]
    assert tail.too_long == 1


def test_a_secret_that_a_complaint_would_cut_in_two_is_hidden_whole(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path / "spool"), [b"the-long-secret"])
    line = b"x" * 72 + b"the-long-secret"
    for source in (ReportSource, JsonlSource):
        (tmp_path / "file").write_bytes(line + b"\n")
        source(str(tmp_path / "file"), spool, Progress()).poll()
    told = [event["message"] for event in read(spool, "events")]
    assert [text.count("x********") for text in told] == [1, 1]


def test_a_file_without_end_is_left_at_the_deadline(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"line\n")
    assert LineTail(str(tmp_path / "file")).read_lines(time.monotonic()) == []


def test_lines_of_jsonl_become_metrics(tmp_path: Path, spool: Spool) -> None:
    path = tmp_path / "trainer_log.jsonl"
    path.write_text(
        '{"current_steps": 5, "loss": 0.5, "lr": 1e-05, "note": "x", "train": {"reward": 1}}\n'
        '{"loss": 0.25}\n'
        '{"step": 6, "loss": NaN}\n'
        "not json\n"
    )
    progress = Progress()
    JsonlSource(str(path), spool, progress).poll()

    assert [(line["step"], line["values"]) for line in read(spool)] == [
        (5, {"loss": 0.5, "lr": 1e-05, "train/reward": 1}),
        (6, {"loss": "nan"}),
    ]
    assert progress.last_step == 6
    assert len(read(spool, "events")) == 1  # one complaint, not one a line


def test_numbers_that_all_lie_below_data_keep_their_own_names(tmp_path: Path, spool: Spool) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 3, "data": {"actor/pg_loss": 0.5, "training/epoch": 0, "note": "x"}}\n')
    JsonlSource(str(path), spool, Progress()).poll()

    assert [(line["step"], line["values"]) for line in read(spool)] == [
        (3, {"actor/pg_loss": 0.5, "training/epoch": 0})
    ]


def test_what_is_no_report_is_left_out_with_one_note(tmp_path: Path, spool: Spool) -> None:
    path = tmp_path / "report"
    path.write_bytes(b'{"kind":"ended","code":0}\n\xff\n{"step":1,"values":{"a":1},"time":0}\n[[[[\n')
    ReportSource(str(path), spool, Progress()).poll()

    assert len(read(spool)) == 1
    assert [event["kind"] for event in read(spool, "events")] == ["note"]


def test_lines_by_another_hand_stay_json(tmp_path: Path, spool: Spool) -> None:
    path = tmp_path / "report"
    deep = b'{"kind":"note","deep":' + b"[" * 5000 + b"]" * 5000 + b"}\n"
    path.write_bytes(b'{"time":1,"step":2,"values":{"a":NaN,"b":-Infinity}}\n' + deep)
    ReportSource(str(path), spool, Progress()).poll()

    assert [line["values"] for line in read(spool)] == [{"a": "nan", "b": "-inf"}]
    assert [event["code"] for event in read(spool, "events")] == ["report_line"]


def test_packed_numbers_become_lines_of_values(tmp_path: Path, spool: Spool) -> None:
    path = tmp_path / "report"
    packed = base64.b64encode(struct.pack("=3d", 0.5, float("nan"), float("inf"))).decode()
    learned = {"time": 1, "step": 1, "values": {"a": 1, "b": 2, "c": 3}, "keys": "w"}
    lines = [learned, {"time": 2, "step": 2, "keys": "w", "packed": packed}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    progress = Progress()
    ReportSource(str(path), spool, progress).poll()
    assert [line["values"] for line in read(spool)] == [learned["values"], {"a": 0.5, "b": "nan", "c": "inf"}]
    assert progress.last_step == 2


@pytest.mark.parametrize("packed", ["", "AAAA", "é", 7, None, "A" * 44])
def test_a_packed_line_that_fits_no_names_is_told_of_and_left_out(tmp_path: Path, spool: Spool, packed: object) -> None:
    path = tmp_path / "report"
    learned = {"time": 1, "step": 1, "values": {"a": 1}, "keys": "w"}
    lines = [learned, {"time": 2, "step": 2, "keys": "w", "packed": packed}, {**learned, "step": 3}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    ReportSource(str(path), spool, Progress()).poll()
    assert [line["step"] for line in read(spool)] == [1, 3]
    assert [event["code"] for event in read(spool, "events")] == ["report_line"]


def test_an_event_may_have_any_member_names(tmp_path: Path, spool: Spool) -> None:
    path = tmp_path / "report"
    path.write_text('{"kind":"note","self":1,"a b":2,"time":3.0}\n')
    ReportSource(str(path), spool, Progress()).poll()
    assert read(spool, "events") == [{"time": 3.0, "kind": "note", "self": 1, "a b": 2}]


def encode_field(number: int, kind: int, content: bytes | int) -> bytes:
    head = bytes([number << 3 | kind])
    if isinstance(content, int):
        return head + (bytes([content]) if content < 128 else bytes([content & 0x7F | 0x80, content >> 7]))
    return head + (bytes([len(content)]) if kind == 2 else b"") + content


def encode_record(step: int, tag: str, scalar: bytes) -> bytes:
    value = encode_field(1, 2, tag.encode()) + scalar
    summary = encode_field(1, 2, value)
    event = encode_field(1, 1, struct.pack("<d", 1.5)) + encode_field(2, 0, step) + encode_field(5, 2, summary)
    return struct.pack("<QI", len(event), 0) + event + b"\0\0\0\0"


def test_scalars_of_tensorboard_files_become_metrics_as_the_file_grows(tmp_path: Path, spool: Spool) -> None:
    simple = encode_field(2, 5, struct.pack("<f", 0.5))
    tensor = encode_field(8, 2, encode_field(1, 0, 1) + encode_field(4, 2, struct.pack("<f", 0.25)))
    first, second = encode_record(200, "train/loss", simple), encode_record(3, "eval", tensor)
    path = tmp_path / "logs" / "a" / "events.out.tfevents.1.host"
    path.parent.mkdir(parents=True)
    source = TensorboardSource(str(tmp_path / "logs"), spool, Progress())
    path.write_bytes(first + second[:20])
    source.poll()
    assert read(spool) == [{"time": 1.5, "step": 200, "values": {"train/loss": 0.5}}]
    path.write_bytes(first + second)
    source.poll()
    assert read(spool)[1:] == [{"time": 1.5, "step": 3, "values": {"eval": 0.25}}]


def test_a_file_that_is_no_event_file_is_named_once(tmp_path: Path, spool: Spool) -> None:
    (tmp_path / "x.tfevents.1").write_bytes(b"\xff" * 100)
    source = TensorboardSource(str(tmp_path), spool, Progress())
    source.poll()
    source.poll()
    assert [event["code"] for event in read(spool, "events")] == ["tensorboard_file"]


def test_metrics_of_a_jsonl_file_reach_the_spool_of_a_short_job(attempt: Attempt) -> None:
    plan = contract.Plan(argv=(), metric_sources=(contract.MetricSource("jsonl", "out.jsonl"),))
    attempt.prepare("bash", "-c", """echo '{"step": 1, "loss": 2.5}' > out.jsonl""", plan=plan)
    assert attempt.run() == 0
    assert attempt.metrics()[0]["values"] == {"loss": 2.5}


@pytest.mark.parametrize(
    ("rule", "last_step", "announced", "finished", "code", "complete"),
    [
        (contract.CompleteRule("finish"), None, None, True, 0, True),
        (contract.CompleteRule("finish"), None, None, True, 1, False),
        (contract.CompleteRule("finish"), 5, None, False, 0, False),
        (contract.CompleteRule("unknown"), None, None, False, 0, None),
        (contract.CompleteRule("unknown"), None, None, True, 0, True),
        (contract.CompleteRule("steps", 80), 80, None, False, 143, True),
        (contract.CompleteRule("steps", 80), 79, None, False, 0, False),
        (contract.CompleteRule("steps"), 80, 80, False, 0, True),
        (contract.CompleteRule("steps"), 80, None, False, 0, None),
    ],
)
def test_complete_is_decided_by_the_plans_rule(  # noqa: PLR0913, PLR0917 - one column each
    rule: contract.CompleteRule,
    last_step: int | None,
    announced: int | None,
    finished: bool,  # noqa: FBT001 - a column of the table
    code: int,
    complete: bool | None,  # noqa: FBT001
) -> None:
    progress = Progress()
    progress.last_step, progress.total_steps, progress.finished = last_step, announced, finished
    assert decide_complete(rule, progress, code, "/nowhere") is complete


@pytest.mark.parametrize(
    "path", ["results/*/results_*.json", "{here}/results/model/results_?.json", "results/model/done"]
)
def test_a_file_that_matches_the_rule_completes_the_job(tmp_path: Path, path: str) -> None:
    rule = contract.CompleteRule("file", path=path.format(here=tmp_path))
    (tmp_path / "results" / "model").mkdir(parents=True)
    assert decide_complete(rule, Progress(), 0, str(tmp_path)) is False
    (tmp_path / "results" / "model" / "results_1.json").write_text("{}")
    (tmp_path / "results" / "model" / "done").write_text("")
    assert decide_complete(rule, Progress(), 1, str(tmp_path)) is True


RESULTS = {
    "results": {
        "capitals": {"name": "capitals", "sample_len": 8, "acc,none": 0.5, "acc_stderr,none": "N/A"},
        "sums": {"alias": "sums", "exact_match,strict-match": 0.25, "f1,none": float("nan")},
    },
    "n-samples": {"capitals": {"original": 8, "effective": 8}},
}


def test_scores_of_a_benchmark_are_metrics_at_step_0(tmp_path: Path, spool: Spool) -> None:
    progress = Progress()
    source = LmEvalSource(str(tmp_path), spool, progress)
    file = tmp_path / "a__model" / "results_2026-11-29T10-00-00.json"
    file.parent.mkdir()
    file.write_text(json.dumps(RESULTS)[:-20])
    (file.parent / "samples_capitals.jsonl").write_text("{}")
    source.poll()
    assert read(spool, "metrics") == []
    file.write_text(json.dumps(RESULTS))
    source.poll()
    source.poll()

    [line] = read(spool, "metrics")
    assert (line["step"], progress.last_step) == (0, 0)
    assert line["values"] == {"capitals/acc": 0.5, "sums/exact_match,strict-match": 0.25, "sums/f1": "nan"}
    assert read(spool, "events") == []


def test_results_that_cannot_be_read_are_told_of(tmp_path: Path, spool: Spool) -> None:
    source = LmEvalSource(str(tmp_path), spool, Progress())
    (tmp_path / "results_x.json").symlink_to("/dev/zero")
    source.poll()
    assert [event["code"] for event in read(spool, "events")] == ["results_unread"]


@pytest.mark.parametrize(
    ("words", "results", "complete"),
    [
        ("@FORGE_OUT_DIR@/lm_eval", RESULTS, True),
        ("results", {"results": {}}, True),
        ("@FORGE_WORK_DIR@/x", None, False),
    ],
)
def test_words_are_replaced_in_the_paths_of_sources_and_of_the_rule(
    attempt: Attempt,
    words: str,
    results: dict[str, object] | None,
    complete: bool,  # noqa: FBT001 - a column
) -> None:
    plan = contract.Plan(
        argv=(),
        metric_sources=(contract.MetricSource("lm_eval", words),),
        complete=contract.CompleteRule("file", path=f"{words}/results_*.json"),
        env={"RESULTS": f"{words}/results_1.json", "TEXT": json.dumps(results)},
    )
    script = """[ "$TEXT" = null ] || { mkdir -p "${RESULTS%/*}"; printf %s "$TEXT" > "$RESULTS"; }"""
    attempt.prepare("bash", "-c", script, plan=plan)
    assert attempt.run() == 0, attempt.log()
    assert attempt.record().complete is complete
    assert bool(attempt.metrics()) is bool(results and results["results"])


def test_a_record_of_images_is_passed_over_and_a_broken_number_ends_the_reading(tmp_path: Path, spool: Spool) -> None:
    scalar = encode_record(3, "loss", encode_field(2, 5, struct.pack("<f", 0.5)))
    image = struct.pack("<QI", 5 << 20, 0) + bytes(5 << 20) + b"\0\0\0\0"
    endless = struct.pack("<QI", 1 << 19, 0) + b"\xff" * (1 << 19) + b"\0\0\0\0"
    (tmp_path / "tfevents").write_bytes(scalar + image + scalar + endless)
    source = TensorboardSource(str(tmp_path), spool, Progress())
    source.poll()
    source.poll()

    assert [line["step"] for line in read(spool)] == [3, 3]
    assert "longer than 64 bits" in read(spool, "events")[0]["message"]


def test_a_source_that_is_a_pipe_says_so_and_does_not_wait(tmp_path: Path, spool: Spool) -> None:
    os.mkfifo(tmp_path / "metrics")
    with pytest.raises(OSError, match="no plain file"):
        JsonlSource(str(tmp_path / "metrics"), spool, Progress()).poll()

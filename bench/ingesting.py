"""What jobs report: points and log bytes a second over HTTP, and the drawing of a long curve."""

import asyncio
import contextlib
import json
import math
import sqlite3
import time
from pathlib import Path
from typing import Final

from bench.client import Client, Request
from bench.figures import Figure, Orientation, Ratio, Skipped, compare, timed
from bench.ground import Ground
from e2e.support.projects import Experiment, make_experiment
from server.tests.ingest.builders import Site, open_site
from starforge.contract.bounds import BODY_BYTES
from starforge.contract.capsule import INGEST_PREFIX
from starforge.contract.ids import AttemptId, JobId
from starforge_console.assembly.tokens import attempt_token, load_or_make_key
from starforge_console.ingest.curves import Curves

_POINTS: Final = 300_000
_KEYS: Final = 10
_LOG_BYTES: Final = 96 << 20
_CURVE_POINTS: Final = 1_000_000
_DRAWN: Final = 1000
_FASTER: Final = 50.0
_READ_ROUNDS: Final = 25
"""A drawing takes a few milliseconds, of which a busy machine makes twice as many: few rounds would tell of that."""
_FAR: Final = 10**15
_CONFLICT: Final = 409
_OK: Final = 200
_LINES: Final = _POINTS // _KEYS
_WIDTH: Final = _CURVE_POINTS // (_DRAWN // 2)
_GROUP_BY: Final = f"SELECT min(step), min(value), max(value) FROM points WHERE key = 'loss' GROUP BY step / {_WIDTH}"  # noqa: S608 - a number of ours
_LONG: Final = "while :; do sleep 1; done"


def ingest(ground: Ground) -> list[Figure]:
    """One connection to a whole console, from an attempt that runs: metrics with roll-ups, then log bytes."""
    with ground.console() as console:
        experiment = make_experiment(console, ground.image, _LONG, "first")
        job = experiment.submit()
        experiment.wait_state(job, "RUNNING")
        attempt = AttemptId(experiment.detail(job)["attempts"][-1]["id"])
        token = attempt_token(load_or_make_key(console.folder / "state" / "token-key"), attempt)
        points_s, _ = asyncio.run(send_stream(console.ingest_port, token, "metrics", _list_metrics()))
        log_s, log_to = asyncio.run(send_stream(console.ingest_port, token, "log", _list_log()))
        lost = log_to - _find_received(experiment, job)
    return [
        Ratio("log_ingest_loss", lost, 0, detail=f"bytes of {_LOG_BYTES >> 20} MiB"),
        Orientation("log_ingest", _LOG_BYTES / log_s / 1e6, "MB/s", aim=">=50"),
        Orientation("ingest_points", _POINTS / points_s, "points/s", aim=">=100000", detail=f"{_KEYS} keys a line"),
        Skipped("ingest_points_over_mlflow", "mlflow is not installed"),
    ]


def curve_read(ground: Ground) -> list[Figure]:
    """A curve of 1e6 points drawn with 1,000, over SQLite's GROUP BY on rows."""
    folder = ground.folder()
    with asyncio.Runner() as runner, contextlib.closing(_make_rows(folder / "rows.db")) as rows:
        stack = contextlib.AsyncExitStack()
        site = runner.run(stack.enter_async_context(open_site(folder)))
        job = runner.run(_receive_curve(site))
        curves = Curves(site.stores.series)
        try:
            pairs = compare(
                timed(lambda: rows.execute(_GROUP_BY).fetchall()),
                timed(lambda: runner.run(curves.curve(job, "loss", _DRAWN))),
                _READ_ROUNDS,
            )
        finally:
            runner.run(stack.aclose())
    detail = f"{_CURVE_POINTS:,} points, {pairs.describe()}"
    return [Ratio("curve_read", pairs.ratio, _FASTER, at_least=True, detail=detail)]


async def send_stream(port: int, token: str, stream: str, pieces: list[bytes]) -> tuple[float, int]:
    """Seconds that it took to make all pieces durable, and up to which byte the stream is received then."""
    client, path = Client(port), f"{INGEST_PREFIX}/streams/{stream}?offset="
    ahead = await client.send(Request("POST", f"{path}{_FAR}", token, b"\n"))
    if ahead.status != _CONFLICT:
        raise RuntimeError(f"{stream} was answered with {ahead.status} {ahead.body!r}")
    offset = int(ahead.json()["received_to"])
    began = time.perf_counter()
    for piece in pieces:
        answer = await client.send(Request("POST", f"{path}{offset}", token, piece))
        if answer.status != _OK:
            raise RuntimeError(f"{stream} was answered with {answer.status} {answer.body!r}")
        offset += len(piece)
    took_s = time.perf_counter() - began
    client.close()
    return took_s, offset


def _find_received(experiment: Experiment, job: str) -> int:
    return int(experiment.detail(job)["log"]["received_bytes"])


def _list_metrics() -> list[bytes]:
    """Whole lines in bodies as large as are taken."""
    lines = [_metrics_line(step, {f"metric_{n}": n + math.sin(step) for n in range(_KEYS)}) for step in range(_LINES)]
    return join_lines(lines)


def _list_log() -> list[bytes]:
    line = b"step 12345 loss 0.123456 lr 1.0e-05 tokens/s 34567.8\n"
    piece = line * (BODY_BYTES // len(line))
    return [piece] * (_LOG_BYTES // len(piece))


async def _receive_curve(site: Site) -> JobId:
    attempt = await site.start_attempt()
    offset = 0
    for piece in join_lines([_metrics_line(step, {"loss": math.sin(step / 1e4)}) for step in range(_CURVE_POINTS)]):
        offset = (await site.receiver.take(attempt, "metrics", offset, piece)).received_to
    return attempt.job


def _make_rows(file: Path) -> sqlite3.Connection:
    """The same points, a row each, with the index that the query wants."""
    rows = sqlite3.connect(file)
    rows.execute(
        "CREATE TABLE points (key TEXT, step INTEGER, value REAL, time REAL, PRIMARY KEY (key, step)) WITHOUT ROWID"
    )
    points = (("loss", step, math.sin(step / 1e4), step + 0.5) for step in range(_CURVE_POINTS))
    rows.executemany("INSERT INTO points VALUES (?, ?, ?, ?)", points)
    rows.commit()
    return rows


def _metrics_line(step: int, values: dict[str, float]) -> bytes:
    return json.dumps({"time": step + 0.5, "step": step, "values": values}).encode() + b"\n"


def join_lines(lines: list[bytes]) -> list[bytes]:
    """Whole lines in bodies as large as are taken."""
    pieces: list[bytes] = []
    piece: list[bytes] = []
    size = 0
    for line in lines:
        if size + len(line) > BODY_BYTES:
            pieces.append(b"".join(piece))
            piece, size = [], 0
        piece.append(line)
        size += len(line)
    return [*pieces, b"".join(piece)]

"""What jobs report: points and log bytes a second over HTTP, and the drawing of a long curve."""

import asyncio
import contextlib
import json
import math
import sqlite3
import statistics
import time
from pathlib import Path
from typing import Any, Final

from bench.client import Client, Request
from bench.figures import Figure, Orientation, Ratio, Skipped, compare, timed
from bench.ground import Ground, Unmeasurable
from bench.peers import free_port, open_peer, serve
from e2e.support.projects import Experiment, make_experiment
from server.tests.ingest.builders import Site, open_site
from starforge.contract.bounds import BODY_BYTES
from starforge.contract.capsule import INGEST_PREFIX
from starforge.contract.ids import AttemptId, JobId
from starforge_console.assembly.tokens import attempt_token, load_or_make_key
from starforge_console.ingest.curves import Curves

_POINTS: Final = 300_000
_KEYS: Final = 10
_BATCH: Final = 1000
_BATCHES: Final = 10
_MLFLOW_AT_LEAST: Final = 20.0
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
    figures: list[Figure] = [
        Ratio("log_ingest_loss", lost, 0, detail=f"bytes of {_LOG_BYTES >> 20} MiB"),
        Orientation("log_ingest", _LOG_BYTES / log_s / 1e6, "MB/s", aim=">=50"),
        Orientation("ingest_points", _POINTS / points_s, "points/s", aim=">=100000", detail=f"{_KEYS} keys a line"),
    ]
    try:
        return [*figures, _compare_mlflow(ground, _POINTS / points_s)]
    except Unmeasurable as error:
        return [*figures, Skipped("ingest_points_over_mlflow", str(error))]


def _compare_mlflow(ground: Ground, ours_per_s: float) -> Figure:
    """The same points to a tracking server on SQLite, as many in a request as it takes."""
    peer, port = open_peer("mlflow", ground.folder()), free_port()
    at, store = ("--host", "127.0.0.1", "--port", str(port)), f"sqlite:///{peer.home}/mlflow.db"
    with serve(peer, peer.command("server", "--backend-store-uri", store, *at, "--workers", "1"), port):
        theirs_per_s = asyncio.run(_send_batches(port))
    detail = f"{ours_per_s:,.0f} over {theirs_per_s:,.0f} points/s"
    ratio = ours_per_s / theirs_per_s
    return Ratio("ingest_points_over_mlflow", ratio, _MLFLOW_AT_LEAST, at_least=True, detail=detail)


async def _send_batches(port: int) -> float:
    """Points a second of the median batch of a run, after one that is not counted."""
    client = Client(port)
    experiment = await _call_mlflow(client, "experiments/create", {"name": "bench"})
    run = await _call_mlflow(client, "runs/create", {"experiment_id": experiment["experiment_id"], "start_time": 1})
    named, costs = {"run_id": run["run"]["info"]["run_id"]}, []
    for batch in range(_BATCHES + 1):
        steps = range(batch * _BATCH // _KEYS, (batch + 1) * _BATCH // _KEYS)
        points = [
            {"key": f"metric_{n}", "value": n + math.sin(step), "timestamp": step, "step": step}
            for step in steps
            for n in range(_KEYS)
        ]
        began = time.perf_counter()
        await _call_mlflow(client, "runs/log-batch", {**named, "metrics": points})
        costs.append(time.perf_counter() - began)
    client.close()
    return _BATCH / statistics.median(costs[1:])


async def _call_mlflow(client: Client, call: str, document: object) -> Any:  # noqa: ANN401 - a JSON answer
    answer = await client.send(Request("POST", f"/api/2.0/mlflow/{call}", "-", json.dumps(document).encode()))
    if answer.status != _OK:
        raise RuntimeError(f"mlflow answered {call} with {answer.status} {answer.body!r}")
    return answer.json()


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

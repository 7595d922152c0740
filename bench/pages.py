"""How long the page of a very large run takes to open, beside a small run's and an empty page in the same browser."""

import asyncio
import contextlib
import json
import math
import statistics
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from playwright.sync_api import Page, sync_playwright

from bench.figures import Figure, Measure, Orientation, Ratio, compare, timed
from bench.ground import Ground, Unmeasurable
from bench.ingesting import join_lines, send_stream
from e2e.support.browser import find_obstacle, open_chromium, sign_in
from e2e.support.console import ConsoleProcess
from e2e.support.projects import make_experiment
from starforge.contract.bounds import BODY_BYTES
from starforge.contract.ids import AttemptId
from starforge_console.assembly.tokens import attempt_token, load_or_make_key

_POINTS: Final = 1_000_000
_LOG_BYTES: Final = 1 << 30
_SMALL_POINTS: Final = 100
_ROUNDS: Final = 9
_OPENS_WITHIN_MS: Final = 1000.0
_TIMES_A_SMALL_ONE: Final = 2.0
_EMPTY: Final = b"<!doctype html><html lang=en><title>empty</title></html>"
_LONG: Final = "while :; do sleep 1; done"
_LINE: Final = b"step 12345 loss 0.123456 lr 1.0e-05 tokens/s 34567.8\n"


def page_job(ground: Ground) -> list[Figure]:
    """From the request to the drawn curve and the log's last lines: of a run with 1e6 points and 1 GiB of log."""
    obstacle = find_obstacle()
    if obstacle is not None:
        raise Unmeasurable(obstacle)
    with ground.console({"FORGE_LOG_MAX_BYTES": str(4 * _LOG_BYTES), "FORGE_LOCAL_GPU_COUNT": "2"}) as console:
        small = _fill(console, ground.image, _Size("small", _SMALL_POINTS, BODY_BYTES))
        large = _fill(console, ground.image, _Size("large", _POINTS, _LOG_BYTES))
        with _serve_empty() as empty, sync_playwright() as playwright:
            page = open_chromium(playwright).new_context(base_url=console.url).new_page()
            sign_in(page, console.token("--scopes", "read"))
            beside_small = compare(_open_job(page, large), _open_job(page, small), _ROUNDS)
            beside_empty = compare(_open_job(page, large), timed(lambda: page.goto(empty)), _ROUNDS)
    opened_ms = statistics.median((*beside_small.ours, *beside_empty.ours)) * 1e3
    detail = f"{_POINTS:,} points, {_LOG_BYTES >> 20} MiB of log"
    return [
        Ratio(
            "page_job", beside_small.ratio, _TIMES_A_SMALL_ONE, detail=f"over a small run, {beside_small.describe()}"
        ),
        Orientation("page_job_open", opened_ms, "ms", aim=f"<={_OPENS_WITHIN_MS:g}", detail=detail),
        Orientation("page_job_over_empty", beside_empty.ratio, "x", detail=beside_empty.describe()),
    ]


@dataclass(frozen=True, slots=True)
class _Size:
    name: str
    points: int
    log_bytes: int


def _fill(console: ConsoleProcess, image: str, size: _Size) -> str:
    """A job that runs, whose attempt has told so much."""
    experiment = make_experiment(console, image, _LONG, size.name)
    job = experiment.submit(profile="any:1")
    experiment.wait_state(job, "RUNNING")
    attempt = AttemptId(experiment.detail(job)["attempts"][-1]["id"])
    token = attempt_token(load_or_make_key(console.folder / "state" / "token-key"), attempt)
    lines = [_metrics_line(step) for step in range(size.points)]
    piece = _LINE * (BODY_BYTES // len(_LINE))
    pieces = [piece] * max(1, size.log_bytes // len(piece))
    asyncio.run(send_stream(console.ingest_port, token, "metrics", join_lines(lines)))
    asyncio.run(send_stream(console.ingest_port, token, "log", pieces))
    received = int(experiment.detail(job)["log"]["received_bytes"])
    points = int(console.get(f"/api/v1/jobs/{job}/metrics/train%2Floss?points=100", experiment.token)["total_points"])
    if received < sum(map(len, pieces)) or points != size.points:
        raise RuntimeError(f"job {job} has {received} bytes of log and {points} points")
    return job


def _metrics_line(step: int) -> bytes:
    values = {"train/loss": math.exp(-step / 1e5) + math.sin(step) / 50}
    return json.dumps({"time": 1e9 + step, "step": step, "values": values}).encode() + b"\n"


def _open_job(page: Page, job: str) -> Measure:
    def look() -> None:
        page.goto(f"/jobs/{job}")
        page.locator("#curves [data-curve] canvas").first.wait_for()
        page.locator("#log-lines li").last.wait_for(state="attached")

    return timed(look)


@contextlib.contextmanager
def _serve_empty() -> Iterator[str]:
    """The address of a page with nothing on it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(_EMPTY)))
            self.end_headers()
            self.wfile.write(_EMPTY)

        def log_message(self, *_told: object) -> None:
            """Say nothing: the bench's output is its figures."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()
            thread.join(timeout=10)

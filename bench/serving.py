"""The API under load: CPU a request over a bare sketch, and submissions at a fixed rate."""

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bench.client import Client, Load, Request, send_at_once, send_openly
from bench.figures import Figure, Measure, Orientation, Ratio, compare
from bench.ground import Ground
from bench.processes import read_cpu_s
from e2e.support.projects import make_experiment

_ROUNDS: Final = 5
_REQUESTS: Final = 200
_API_AT_MOST: Final = 3.0
_RATE_PER_S: Final = 200.0
_RATE_FOR_S: Final = 5.0
_AT_ONCE: Final = 500
_ALL_WITHIN_S: Final = 3.0
_PATH: Final = "/api/v1/jobs"
_LONG: Final = "while :; do sleep 1; done"


def api(ground: Ground) -> list[Figure]:
    """CPU of a list of one job, and of a submission with all gates and a durable commit, over the sketch's."""
    folder = ground.folder()
    with (
        _spawn("bench.sketch", folder / "sketch.db") as (sketch, told),
        _spawn("bench.api_console", ground.folder()) as (console, known),
    ):
        submission = json.dumps(known["submission"]).encode()
        ours, theirs = _Server(console.pid, known["port"]), _Server(sketch.pid, told["port"])
        insert = Request("POST", _PATH, known["token"], submission)
        inserts = compare(ours.measure(insert), theirs.measure(insert), _ROUNDS)
        read = Request("GET", f"{_PATH}?limit=1", known["token"])
        reads = compare(ours.measure(read), theirs.measure(read), _ROUNDS)
    unit, factor = "us", 1e6
    return [
        Ratio("api_read", reads.ratio, _API_AT_MOST, detail=f"CPU, {reads.describe(unit, factor)}"),
        Ratio("api_insert", inserts.ratio, _API_AT_MOST, detail=f"CPU, all gates, {inserts.describe(unit, factor)}"),
    ]


def submit_rate(ground: Ground) -> list[Figure]:
    """Submissions to a whole console whose one GPU is taken: an open loop, then many at once."""
    with ground.console({"FORGE_LOCAL_GPU_COUNT": "1"}) as console:
        experiment = make_experiment(console, ground.image, _LONG, "first")
        job = experiment.submit(profile="any:1")
        experiment.wait_state(job, "RUNNING")
        body = json.dumps({"spec": experiment.detail(job)["spec"]}).encode()
        steady, burst = asyncio.run(_submit(console.port, Request("POST", _PATH, experiment.token, body)))
    sent = f"{_RATE_PER_S:g}/s for {_RATE_FOR_S:g} s"
    return [
        Ratio("submit_rate_errors", steady.failed + burst.failed, 0, detail=f"{sent}, then {_AT_ONCE} at once"),
        Orientation("submit_rate_p99", _quantile(steady, 0.99) * 1e3, "ms", aim="<=150", detail=sent),
        Orientation("submit_rate_p50", _quantile(steady, 0.5) * 1e3, "ms", detail=sent),
        Orientation("submit_at_once", burst.waits_s[-1], "s", aim=f"<={_ALL_WITHIN_S:g}", detail=f"{_AT_ONCE} jobs"),
    ]


class _Server:
    """A server in a process of its own."""

    def __init__(self, pid: int, port: int) -> None:
        self._pid = pid
        self._port = port

    def measure(self, request: Request) -> Measure:
        """Seconds of the server's CPU that one request costs."""

        def cost() -> float:
            return asyncio.run(self._cost(request)) / _REQUESTS

        return cost

    async def _cost(self, request: Request) -> float:
        client = Client(self._port)
        before = read_cpu_s(self._pid)
        for _ in range(_REQUESTS):
            answer = await client.send(request)
            if answer.status >= 300:  # noqa: PLR2004 - no success
                raise RuntimeError(f"{request.method} {request.path} was answered with {answer.status} {answer.body!r}")
        client.close()
        return read_cpu_s(self._pid) - before


async def _submit(port: int, request: Request) -> tuple[Load, Load]:
    client = Client(port)
    steady = await send_openly(client, request, _RATE_PER_S, _RATE_FOR_S)
    burst = await send_at_once(client, request, _AT_ONCE)
    client.close()
    return steady, burst


def _quantile(load: Load, share: float) -> float:
    return load.waits_s[min(len(load.waits_s) - 1, int(len(load.waits_s) * share))]


@contextlib.contextmanager
def _spawn(module: str, argument: Path) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, Any]]]:
    """A server of the bench's own and the line that it prints once it listens."""
    command = [sys.executable, "-m", module, str(argument)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        if process.stdout is None or process.stdin is None:
            raise RuntimeError("the server has no pipes")
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            process.stdin.close()
            process.wait(timeout=20)

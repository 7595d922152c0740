import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path

from server.tests.ingest.builders import Site, open_site, run
from server.tests.ingest.victim import CONTENT, LINES, send
from starforge_console.ledger.reports import ReportingAttempt

DEADLINE_S = 30.0
REPOSITORY = Path(__file__).parents[3]


def test_a_console_killed_at_any_moment_neither_loses_nor_doubles(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            kills = 0
            for share in (0.1, 0.3, 0.6):
                kills += await asyncio.to_thread(_kill_at, site, attempt, share)
            assert kills > 0
            await send(site.new_receiver(), attempt)
            assert await site.log_bytes(attempt) == CONTENT["log"]
            assert await site.points(attempt, "loss") == [(step, step / 2) for step in range(LINES)]
            assert await site.notes(attempt) == [f"note {n}" for n in range(LINES)]

    run(_scenario())


def _kill_at(site: Site, attempt: ReportingAttempt, share: float) -> int:
    """Let another process receive until `share` of the log is there, then kill it; 1 when it was still at work."""
    folder = site.stores.logs_dir.parent
    command = [sys.executable, "-m", "server.tests.ingest.victim", str(folder), attempt.id, str(attempt.number)]
    deadline = time.monotonic() + DEADLINE_S
    with subprocess.Popen(command, cwd=REPOSITORY) as victim:
        try:
            while _log_size(site, attempt) < share * len(CONTENT["log"]) and time.monotonic() < deadline:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    victim.wait(0.002)
                    break
        finally:
            victim.kill()
    return int(victim.returncode == -signal.SIGKILL)


def _log_size(site: Site, attempt: ReportingAttempt) -> int:
    return sum(file.stat().st_size for file in (site.stores.logs_dir / attempt.id).glob("*"))

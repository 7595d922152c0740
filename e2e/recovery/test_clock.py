"""The clock of the console's machine is set, far ahead and far back, while it serves: it goes on as if it were not."""

import re
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from e2e.badinput.calls import Caller
from e2e.recovery.asking import Asker, sign_in
from e2e.recovery.conftest import Make
from e2e.support.console import ConsoleProcess, wait_for

FAKE_CLOCKS: Final = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
STEPS_S: Final = (86_400, -86_400, 0)
DAY_S: Final = 86_400


class Clock:
    """What the console's process takes for the time of day; its monotonic clock runs as it does."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.set(0)

    def set(self, offset_s: int) -> None:
        """Set it to the true time and so much more."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{offset_s:+d}s\n")
        new.replace(self._file)

    @property
    def settings(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(FAKE_CLOCKS[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_NO_CACHE": "1",
        }


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    if not FAKE_CLOCKS:
        pytest.skip("a clock that can be set needs the package libfaketime: run 'tools/needs.sh clock'")
    return Clock(tmp_path / "clock")


@contextmanager
def under(clock: Clock, console: ConsoleProcess) -> Iterator[Asker]:
    """The console, whose serving process alone has that clock."""
    asker = sign_in(console)
    console.stop()
    console.environment |= clock.settings
    console.start()
    for name in clock.settings:
        del console.environment[name]
    yield asker


def count_passes(console: ConsoleProcess) -> Counter[str]:
    """How often each loop has come to its end."""
    with urllib.request.urlopen(f"{console.url}/metrics", timeout=20) as answer:  # noqa: S310 - our own loopback address
        text = answer.read().decode()
    passes: Counter[str] = Counter()
    for labels, count in re.findall(r"^starforge_loop_passes_total\{(.*)\} (\S+)$", text, re.MULTILINE):
        passes[re.findall('loop="([^"]+)"', labels)[0]] += int(float(count))
    return passes


def test_loops_go_on_and_a_key_stays_one_job_wherever_the_clock_stands(make: Make, clock: Clock) -> None:
    console = make("console")
    with under(clock, console) as asker:
        first = asker.submit("first").job
        wait_for(lambda: {"dequeue", "reconcile"} <= set(count_passes(console)), "the loops to pass")
        jobs = {first: "first"}
        for number, offset_s in enumerate(STEPS_S):
            clock.set(offset_s)
            before = count_passes(console)
            assert asker.submit("first").job == first
            jobs[asker.submit(f"n{number}").job] = f"n{number}"
            for loop in ("dequeue", "reconcile"):
                wait_for(lambda: count_passes(console)[loop] > before[loop], f"{loop} to pass at {offset_s}")  # noqa: B023 - called at once
            assert asker.list_jobs() == jobs
        events = asker.get(f"/api/v1/jobs/{first}")["events"]
        assert [event["reason"] for event in events][:1] == ["admitted"]


def test_a_token_is_valid_for_as_long_as_the_clock_says(make: Make, clock: Clock) -> None:
    console = make("console")
    with under(clock, console) as asker:
        short = Caller(console.port, console.token("--days", "1"))
        for offset_s, status in ((0, 200), (2 * DAY_S, 401), (0, 200), (-DAY_S, 200)):
            clock.set(offset_s)
            assert short.call("GET", "/api/v1/jobs").status == status
        assert asker.submit("afterwards").status == 201

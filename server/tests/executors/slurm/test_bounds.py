"""A daemon whose answers do not end holds nobody up, and fills nobody's memory."""

from itertools import repeat
from pathlib import Path

import pytest

from server.tests.executors.slurm.daemon import Daemon, ask
from starforge.contract.ids import new_attempt_id, new_job_id
from starforge.contract.observation import NoSignal, Observation
from starforge_console.executors.slurm import rest
from starforge_console.executors.slurm.executor import SlurmExecutor

ATTEMPT = new_attempt_id(new_job_id(), 1)
LIST = "/slurm/v0.0.41/jobs"


async def observe(executor: SlurmExecutor) -> Observation:
    return (await executor.observe([ATTEMPT]))[ATTEMPT]


def test_an_answer_that_never_ends_is_no_signal_once_its_time_is_over(daemon: Daemon, tmp_path: Path) -> None:
    daemon.answers[LIST] = (200, repeat(b" "))
    seen = ask(daemon, tmp_path, observe, request_timeout_s=0.5)
    assert isinstance(seen, NoSignal)
    assert "within 0.5 s" in seen.reason


def test_an_answer_that_is_too_large_is_no_signal(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest, "MOST_REPLY_BYTES", 2 * 1024**2)
    daemon.answers[LIST] = (200, repeat(b" " * 65_536))
    seen = ask(daemon, tmp_path, observe)
    assert isinstance(seen, NoSignal)
    assert "more than 2 MiB" in seen.reason

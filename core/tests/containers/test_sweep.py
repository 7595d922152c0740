"""A sweep removes what nobody knows, and never makes room for a second run of it."""

import os
from pathlib import Path

import pytest

from core.tests.containers.builders import make_host, make_request, make_settings
from core.tests.containers.fake_engine import FakeDaemon, FakeEngine, Fault, Job, Kind, ProcessKilled
from e2e.support.images import HOST_IMAGE
from starforge.contract.launch import LaunchRequest
from starforge.errors import LaunchRefused

USER = f"{os.geteuid()}:{os.getegid()}"


@pytest.fixture
def daemon() -> FakeDaemon:
    return FakeDaemon(images={HOST_IMAGE}, jobs={"ends": Job(ends_after_s=1.0)})


@pytest.fixture
def request_to_end(tmp_path: Path) -> LaunchRequest:
    return make_request(tmp_path, "ends", user=USER)


def test_what_had_ended_when_it_was_swept_never_starts_again(
    daemon: FakeDaemon, request_to_end: LaunchRequest, tmp_path: Path, secrets_root: Path
) -> None:
    host = make_host(FakeEngine(daemon), make_settings(tmp_path, secrets_root))
    host.launch(request_to_end)
    daemon.advance(2)
    assert host.sweep(known=[]).removed == (request_to_end.attempt,)
    with pytest.raises(LaunchRefused, match="fenced"):
        host.launch(request_to_end)  # a delivery that was under way for long
    assert not daemon.boxes


def test_what_was_swept_before_it_ran_may_still_start(
    daemon: FakeDaemon, request_to_end: LaunchRequest, tmp_path: Path, secrets_root: Path
) -> None:
    engine = FakeEngine(daemon)
    engine.arm(Fault(Kind.KILLED_BEFORE, "start"))
    with pytest.raises(ProcessKilled):
        make_host(engine, make_settings(tmp_path, secrets_root)).launch(request_to_end)
    host = make_host(FakeEngine(daemon), make_settings(tmp_path, secrets_root))
    assert host.sweep(known=[]).removed == (request_to_end.attempt,)
    host.launch(request_to_end)
    assert [box.attempt for box in daemon.boxes.values()] == [request_to_end.attempt]

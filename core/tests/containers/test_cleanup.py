"""A cleanup is the last word on its attempt, also in the middle of a launch."""

import contextlib
import os
from pathlib import Path

import pytest

from core.tests.containers.builders import make_host, make_request, make_settings
from core.tests.containers.fake_engine import FakeDaemon, FakeEngine, Fault, Kind, ProcessKilled
from e2e.support.images import HOST_IMAGE
from starforge.errors import BackendUnreachable

USER = f"{os.geteuid()}:{os.getegid()}"


def test_nothing_starts_after_a_cleanup_in_the_middle_of_its_launch(tmp_path: Path, secrets_root: Path) -> None:
    daemon = FakeDaemon(images={HOST_IMAGE})
    settings = make_settings(tmp_path, secrets_root, lock_timeout_s=0.0)
    dying, engine = FakeEngine(daemon), FakeEngine(daemon)
    dying.arm(Fault(Kind.KILLED_BEFORE, "start"))
    with pytest.raises(ProcessKilled):
        make_host(dying, settings).launch(make_request(tmp_path, user=USER))  # leaves what the next launch removes
    request = make_request(tmp_path, user=USER)
    other = make_host(FakeEngine(daemon), settings)
    cleaned: list[bool] = []

    def clean_up() -> None:
        with contextlib.suppress(BackendUnreachable):
            other.cleanup(request.attempt)
            cleaned.append(True)

    engine.arm(Fault(Kind.BEFORE, "remove", act=clean_up))
    make_host(engine, settings).launch(request)
    assert not cleaned, "it was said to be cleaned up and has started"
    assert daemon.find_box(request.attempt) is not None

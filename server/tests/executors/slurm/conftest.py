"""What tests of the Slurm executor have in common."""

from collections.abc import Iterator

import pytest

from server.tests.executors.slurm.daemon import Daemon, serving


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    daemon = Daemon()
    daemon.serve("v0.0.41")
    with serving(daemon):
        yield daemon

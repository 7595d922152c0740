"""An engine that tests share: with the host image, and with live restore, so that it may be restarted under jobs."""

import contextlib
from collections.abc import Iterator

import pytest

from e2e.support.engines import PrivateEngine, find_obstacle, private_engine
from e2e.support.images import host_image
from e2e.support.owned import owned_folder


@contextlib.contextmanager
def ready_engine() -> Iterator[PrivateEngine]:
    """One private engine for as long as the block lasts; the test is skipped, with the reason, where none can run."""
    obstacle = find_obstacle()
    if obstacle:
        pytest.skip(obstacle)
    with owned_folder() as root, private_engine(root, "--live-restore") as machine:
        host_image(machine)
        yield machine

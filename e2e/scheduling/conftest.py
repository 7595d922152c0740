"""Two private machines for the leg; one console and a fleet of them for each module."""

from collections.abc import Iterator

import pytest

from e2e.support.engines import PrivateEngine
from e2e.support.fleet_fixtures import (
    fleet,
    folder,
    machine_settings,
    open_machines,
    probe,
    shared_work,
    work,
)

__all__ = ["fleet", "folder", "machine_settings", "probe", "shared_work", "work"]


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[PrivateEngine]]:
    with open_machines(tmp_path_factory.mktemp("engines"), ((), ())) as made:
        yield made

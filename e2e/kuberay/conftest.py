"""The API server that a test asks for: the made-up one, or a real one where its programs lie beside the project."""

from collections.abc import Iterator

import pytest

from e2e.support.kube.real import RealApi, find_obstacle, real_api

BOTH = [pytest.param("fake", marks=pytest.mark.kube_fake), pytest.param("real", marks=pytest.mark.kube_real)]
"""For a fixture: each test on the made-up API server, and on the real one."""


@pytest.fixture(scope="session")
def real_server() -> Iterator[RealApi]:
    """One for all tests of a process; skipped, with the reason, where none can run."""
    obstacle = find_obstacle()
    if obstacle:
        pytest.skip(obstacle)
    with real_api() as api:
        yield api


@pytest.fixture(scope="module", params=BOTH)
def real(request: pytest.FixtureRequest) -> RealApi | None:
    """The real server for tests on that, and None for the others."""
    return request.getfixturevalue("real_server") if request.param == "real" else None

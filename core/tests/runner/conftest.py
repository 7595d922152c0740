from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.tests.runner.support.attempt import Attempt
from core.tests.runner.support.ingest import Ingest
from starforge.runner.archive import build_runner

TOKEN = "ingest-token-of-the-test"  # noqa: S105 - it opens nothing


@pytest.fixture(scope="session")
def runner_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("archive") / "runner.pex"
    build_runner(target)
    return target


@pytest.fixture
def attempt(tmp_path: Path, runner_archive: Path) -> Iterator[Attempt]:
    made = Attempt(tmp_path / "attempt", runner_archive)
    yield made
    made.close()


@pytest.fixture
def ingest(attempt: Attempt) -> Iterator[Ingest]:
    served = Ingest(TOKEN)
    attempt.secret("ingest-token", TOKEN)
    yield served
    served.close()


@pytest.fixture
def make_attempt(tmp_path: Path, runner_archive: Path) -> Iterator[Callable[[str], Attempt]]:
    made: list[Attempt] = []

    def make(name: str) -> Attempt:
        made.append(Attempt(tmp_path / name, runner_archive))
        return made[-1]

    yield make
    for one in made:
        one.close()

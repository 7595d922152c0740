"""Fixtures of legs that work on a fleet: one console and its daemons for each module, over the leg's own `engines`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from e2e.support.engines import PrivateEngine, find_obstacle, private_engine
from e2e.support.farm import Farm, farm
from e2e.support.images import host_image
from e2e.support.projects import Experiment, make_experiment
from e2e.support.work import Work, make_work


@contextmanager
def open_machines(folder: Path, arguments: Sequence[Sequence[str]]) -> Iterator[list[PrivateEngine]]:
    """A private machine for each of `arguments`, which its engine is given; skips where there can be none."""
    obstacle = find_obstacle()
    if obstacle is not None:
        pytest.skip(obstacle)
    with ExitStack() as machines:
        made = [
            machines.enter_context(private_engine(folder / str(number), *given))
            for number, given in enumerate(arguments)
        ]
        for engine in made:
            host_image(engine)
        yield made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose parents the job's user can pass."""
    made = tmp_path_factory.mktemp("farm")
    for parent in (made, *made.parents[:3]):
        parent.chmod(parent.stat().st_mode | 0o055)
    return made


@pytest.fixture(scope="module")
def machine_settings() -> Sequence[Mapping[str, str]]:
    """Settings of the daemons, in the order of the machines; a module may have its own."""
    return ()


@pytest.fixture(scope="module")
def fleet(engines: list[PrivateEngine], folder: Path, machine_settings: Sequence[Mapping[str, str]]) -> Iterator[Farm]:
    with farm(folder, engines, machine_settings=machine_settings) as made:
        yield made


@pytest.fixture(scope="module")
def probe(fleet: Farm, engines: list[PrivateEngine]) -> Experiment:
    return make_experiment(fleet.console, host_image(engines[0]), "exit 0")


@pytest.fixture(scope="module")
def shared_work(fleet: Farm, probe: Experiment) -> Work:
    return make_work(fleet, probe)


@pytest.fixture
def work(shared_work: Work) -> Iterator[Work]:
    """The module's fleet; after the test everything is brought back, ended, and every invariant must hold."""
    yield shared_work
    shared_work.mend()
    shared_work.fleet.wait_ready()
    shared_work.end_all()
    shared_work.check()

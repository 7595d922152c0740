"""Whatever is asked of hosts and befalls them, what they promise holds; and a host without a guard is found out.

The seeds are fixed, so that every run takes the same steps. A run prints what happened, by kind.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from core.tests.containers.builders import memory_folder
from core.tests.containers.fake_engine import Kind
from core.tests.containers.machine import ACTS, ASKS, ASKS_MORE, COURSE, MISFORTUNES, HostMachine, MakeHost
from core.tests.containers.mutants import MUTANTS
from starforge.containers.host import ContainerHost

SEEDS: Final = range(4)
SEEDS_OF_MUTANTS: Final = range(10)
EXAMPLES: Final = 60
STEPS: Final = 50
STEPS_AT_LEAST: Final = 2500
"""Of each seed: ten thousand in all."""

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def memory() -> Iterator[Path]:
    with memory_folder() as folder:
        yield folder


def drive(root: Path, number: int, tally: Counter[str], make_host: MakeHost = ContainerHost) -> None:
    """Run the machine with the seed `number`, and count in `tally` what happens. Raises what the machine finds."""

    @seed(number)
    def build() -> HostMachine:
        return HostMachine(root, tally, make_host)

    run_state_machine_as_test(
        build,  # type: ignore[arg-type]  # whatever makes a machine will do, its own documentation says
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("number", SEEDS)
def test_the_promises_hold_whatever_happens(memory: Path, number: int) -> None:
    tally: Counter[str] = Counter()
    drive(memory, number, tally)
    print(f"seed {number}: {dict(sorted(tally.items()))}")  # noqa: T201 - what happened, for whoever looks
    assert tally["steps"] >= STEPS_AT_LEAST
    kinds = {*Kind, *ASKS, *ASKS_MORE, *COURSE, *MISFORTUNES, *(f"meanwhile: {act}" for act in ACTS)}
    assert not sorted(kind for kind in kinds if not tally[kind])


@pytest.mark.parametrize("name", MUTANTS)
def test_a_host_without_a_guard_is_found_out(memory: Path, name: str) -> None:
    found, tally = "", Counter[str]()
    for number in SEEDS_OF_MUTANTS:
        try:
            drive(memory, number, tally, MUTANTS[name])
        except AssertionError as error:
            found = str(error).partition("\n")[0]
            break
    print(f"{name}: found after {tally['steps']} steps: {found}")  # noqa: T201 - what happened, for whoever looks
    assert found, f"nobody noticed in {tally['steps']} steps"

"""The Slurm executor on a real Slurm behind a proxy that can lose, hold and refuse."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.support.slurm_lab import SlurmLab
from server.tests.executors.conformance import Conformance
from server.tests.executors.slurm.on_slurm import SlurmHarness, ready_lab, slurm_harness

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def lab() -> Iterator[SlurmLab]:
    with ready_lab() as lab:
        yield lab


@pytest.fixture
def harness(lab: SlurmLab, tmp_path: Path) -> Iterator[SlurmHarness]:
    with slurm_harness(lab, tmp_path) as harness:
        yield harness


class TestSlurmKeepsThePromises(Conformance):
    pass

"""What a job's user and other users of the cluster may do: it harms no attempt but their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.support.slurm_lab import SlurmLab
from server.tests.executors.conformance import run
from server.tests.executors.slurm.on_slurm import SlurmHarness, ready_lab, slurm_harness
from starforge.contract.observation import Phase

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def lab() -> Iterator[SlurmLab]:
    with ready_lab() as lab:
        yield lab


@pytest.fixture
def harness(lab: SlurmLab, tmp_path: Path) -> Iterator[SlurmHarness]:
    with slurm_harness(lab, tmp_path) as harness:
        yield harness


@pytest.mark.parametrize(
    "lay",
    [
        "mv .slurm .old; ln -s .old .slurm",
        "rm .slurm/start; ln -s /etc/passwd .slurm/start",
        "rm .slurm/start; mkfifo .slurm/start",
        "rm .slurm/start; mkdir .slurm/start",
    ],
)
def test_a_job_that_replaces_what_tells_of_its_start_ends_like_any_other(harness: SlurmHarness, lay: str) -> None:
    async def scenario() -> None:
        request = harness.make_request(script=f"{lay}; exit 3")
        await harness.launch(request)
        ended = await harness.settle(request.attempt, Phase.EXITED)
        assert ended.exit is not None
        assert ended.exit.code == 3
        assert await harness.executor.fence(request.attempt) == ended
        await harness.executor.cleanup(request.attempt)

    run(harness, scenario())

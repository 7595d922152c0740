"""What a launch leaves when the console's own disk refuses at a bad moment."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.support.slurm_lab import SlurmLab
from server.tests.executors.conformance import SECRET, run
from server.tests.executors.slurm.on_slurm import SlurmHarness, ready_lab, slurm_harness
from starforge.contract.launch import LaunchRequest
from starforge.contract.observation import Gone, Phase
from starforge.errors import NodeFault

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def lab() -> Iterator[SlurmLab]:
    with ready_lab() as lab:
        yield lab


@pytest.fixture
def harness(lab: SlurmLab, tmp_path: Path) -> Iterator[SlurmHarness]:
    with slurm_harness(lab, tmp_path) as harness:
        yield harness


def list_files(request: LaunchRequest) -> list[str]:
    return sorted(path.name for path in Path(request.workdir).rglob("*") if path.is_file())


@pytest.mark.parametrize("lost", ["launches", "sent"])
def test_a_launch_that_cannot_be_remembered_leaves_no_secret_and_starts_nothing(
    harness: SlurmHarness, lost: str
) -> None:
    async def scenario() -> None:
        request = harness.make_request(secret=SECRET)
        before = list_files(request)
        (harness.root / "state" / lost).rename(harness.root / "away")
        with pytest.raises(NodeFault, match="cannot be written"):
            await harness.launch(request)
        assert list_files(request) == before
        assert isinstance((await harness.executor.observe([request.attempt]))[request.attempt], Gone)

    run(harness, scenario())


def test_a_job_whose_id_cannot_be_kept_runs_and_is_found_by_its_name(harness: SlurmHarness) -> None:
    async def scenario() -> None:
        request = harness.make_request()
        held = await harness.hold_next_launch(lambda: harness.launch(request))
        launches = harness.root / "state" / "launches"
        launches.rename(harness.root / "away")
        await held.let_pass()
        (harness.root / "away").rename(launches)
        await harness.settle(request.attempt, Phase.RUNNING)
        await harness.launch(request)
        assert harness.count_starts(request.attempt) == 1

    run(harness, scenario())

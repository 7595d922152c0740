"""What a job's user and other users of the cluster may do: it harms no attempt but their own."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.support.slurm_lab import USERS, SlurmLab
from server.tests.executors.conformance import run
from server.tests.executors.slurm.on_slurm import SlurmHarness, ready_lab, slurm_harness
from starforge.contract.observation import Phase
from starforge_console.executors.slurm.submission import write_owner
from starforge_console.settings.slurm import ClusterUser

pytestmark = pytest.mark.slurm
ADA = ClusterUser("ada", USERS["ada"], USERS["ada"])
BOB = ClusterUser("bob", USERS["bob"], USERS["bob"])


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


def test_another_users_job_of_the_same_name_is_not_taken_for_the_attempt(lab: SlurmLab, tmp_path: Path) -> None:
    with slurm_harness(lab, tmp_path, submitters={"ada": ADA, "robert": BOB}) as harness:

        async def scenario() -> None:
            request = harness.make_request()
            words = ("--job-name", f"starforge-{request.attempt}", "--wrap", "true")
            lab.submit_as("bob", "--hold", "--comment", write_owner(harness.install, request.attempt), *words)
            await harness.launch(request)
            await harness.settle(request.attempt, Phase.RUNNING)

        run(harness, scenario())


def test_jobs_that_the_cluster_shows_to_their_users_alone_are_stopped(tmp_path: Path) -> None:
    with ready_lab() as lab:
        conf = lab.root / "etc/slurm.conf"
        conf.write_text(f"{conf.read_text()}\nPrivateData=jobs\n")
        lab.control("reconfigure")
        with slurm_harness(lab, tmp_path, submitters={"robert": BOB}) as harness:

            async def scenario() -> None:
                request = replace(harness.make_request(), user=f"{BOB.uid}:{BOB.gid}")
                os.chown(request.workdir, BOB.uid, BOB.gid)
                await harness.launch(request)
                await harness.settle(request.attempt, Phase.RUNNING)
                await harness.executor.stop(request.attempt, 5)
                ended = await harness.settle(request.attempt, Phase.EXITED)
                assert ended.exit is not None
                await harness.executor.cleanup(request.attempt)

            run(harness, scenario())

"""Who a job is in the cluster, and how the console is known to it."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.support.slurm_lab import USERS, SlurmLab
from server.tests.executors.conformance import SECRET, run
from server.tests.executors.on_engine import COUNTS
from server.tests.executors.slurm.on_slurm import ADA, SlurmHarness, ready_lab, slurm_harness
from starforge.contract.launch import LaunchRequest, Mount, Secret
from starforge.contract.observation import Failure, Gone, Phase, Seen
from starforge.errors import LaunchRefused
from starforge_console.executors.slurm.settings import StaticToken, TokenFile, TokenSource
from starforge_console.settings.slurm import ClusterUser

pytestmark = pytest.mark.slurm
BOB = ClusterUser("bob", USERS["bob"], USERS["bob"])


@pytest.fixture(scope="module")
def lab() -> Iterator[SlurmLab]:
    with ready_lab() as lab:
        yield lab


async def run_whole(harness: SlurmHarness, request: LaunchRequest) -> None:
    """From launch to cleanup, all of which asks as somebody."""
    await harness.launch(request)
    await harness.settle(request.attempt, Phase.RUNNING)
    await harness.executor.stop(request.attempt, 5)
    ended = await harness.settle(request.attempt, Phase.EXITED)
    assert ended.exit is not None
    await harness.executor.cleanup(request.attempt)


def read(request: LaunchRequest, name: str) -> str:
    return Path(request.workdir, name).read_text().strip()


def test_a_job_runs_as_its_submitters_own_user(lab: SlurmLab, tmp_path: Path) -> None:
    with slurm_harness(lab, tmp_path, submitters={"robert": BOB}) as harness:

        async def scenario() -> None:
            request = harness.make_request(
                script=f"id -u >who; umask >mask; cat $FORGE_SECRETS_DIR/TOKEN >secret; {COUNTS}", secret=SECRET
            )
            os.chown(request.workdir, BOB.uid, BOB.gid)
            await run_whole(harness, replace(request, user=f"{BOB.uid}:{BOB.gid}"))
            assert (read(request, "who"), read(request, "secret")) == (str(BOB.uid), SECRET)
            assert read(request, "mask") == "0022"
            stranger = harness.make_request()
            with pytest.raises(LaunchRefused, match=f"no user of the cluster is known for {ADA}"):
                await harness.launch(stranger)

        run(harness, scenario())


@pytest.mark.parametrize("kind", ["static", "file"])
def test_a_token_may_be_given_or_lie_in_a_file(lab: SlurmLab, tmp_path: Path, kind: str) -> None:
    token = lab.make_token("ada")
    (tmp_path / "token").write_text(f"SLURM_JWT={token}\n")
    source: TokenSource = StaticToken(Secret(token)) if kind == "static" else TokenFile(tmp_path / "token")
    with slurm_harness(lab, tmp_path, token=source) as harness:
        run(harness, run_whole(harness, harness.make_request()))


def test_a_socket_of_the_users_own_daemon_needs_no_token(lab: SlurmLab, tmp_path: Path) -> None:
    with slurm_harness(lab, tmp_path) as harness, lab.short_folder() as short:
        os.chown(short, USERS["ada"], USERS["ada"])
        with lab.local_rest(short / "r.sock", "ada") as url:
            harness.executor = harness.open(url=url, token=None)
            run(harness, run_whole(harness, harness.make_request()))


def test_a_user_whose_number_is_another_there_is_told_what_to_look_at(lab: SlurmLab, tmp_path: Path) -> None:
    with slurm_harness(lab, tmp_path) as harness:

        async def scenario() -> None:
            request = replace(harness.make_request(), user=f"{BOB.uid}:{BOB.gid}")
            await harness.launch(request)
            ended = await harness.settle(request.attempt, Phase.EXITED)
            assert ended.failure is Failure.NODE_FAULT
            assert "cannot use the attempt's directory" in ended.note
            assert harness.count_starts(request.attempt) == 0

        run(harness, scenario())


def test_a_strangers_name_and_comment_that_are_no_text_hide_no_job_of_ours(lab: SlurmLab, tmp_path: Path) -> None:
    with slurm_harness(lab, tmp_path) as harness:

        async def scenario() -> None:
            request = harness.make_request()
            await harness.launch(request)
            await harness.settle(request.attempt, Phase.RUNNING)
            odd = os.fsdecode(b"\xff\xc3(")
            lab.submit_as("bob", "--hold", "--job-name", odd, "--comment", odd, "--wrap", "true")
            assert isinstance((await harness.executor.observe([request.attempt]))[request.attempt], Seen)
            await run_whole(harness, harness.make_request())

        run(harness, scenario())


def test_an_older_version_of_the_daemon_is_spoken_too(tmp_path: Path) -> None:
    with ready_lab(api="openapi/v0.0.37") as lab, slurm_harness(lab, tmp_path) as harness:
        run(harness, run_whole(harness, harness.make_request()))


def test_what_would_have_to_be_mounted_is_refused_where_there_is_no_container(lab: SlurmLab, tmp_path: Path) -> None:
    with slurm_harness(lab, tmp_path) as harness:
        request = harness.make_request()
        mounted = replace(request, mounts=(Mount("/data", f"{request.workdir}/data", read_only=True),))

        async def scenario() -> None:
            with pytest.raises(LaunchRefused, match="without a container"):
                await harness.launch(mounted)
            assert isinstance((await harness.executor.observe([request.attempt]))[request.attempt], Gone)

        run(harness, scenario())

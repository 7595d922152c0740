"""The folder in which a machine that joins tries the storage as the jobs' user."""

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from server.tests.fleets.machines import Machine
from server.tests.fleets.yard import Yard, open_yard
from starforge.contract.registration import JoinAnswer
from starforge_console.fleets.served import build_fleet

Test = Callable[[Yard], Awaitable[None]]
AS_ROOT = os.geteuid() == 0


def run(root: Path, test: Test) -> None:
    async def _run() -> None:
        async with open_yard(root) as yard:
            await test(yard)

    asyncio.run(_run())


@pytest.fixture
def share(tmp_path: Path) -> Path:
    storage = tmp_path / "storage"
    storage.mkdir()
    (storage / ".starforge-storage").write_text("storage1\n")
    return storage


async def let_join(yard: Yard, fleet: str = "gpu") -> JoinAnswer:
    return await Machine(fleet=fleet).join(yard.registration, await yard.mint(fleet))


def test_a_join_finds_a_folder_of_the_jobs_user_and_is_told_of_it(tmp_path: Path, share: Path) -> None:
    async def test(yard: Yard) -> None:
        answer = await let_join(yard)
        folder = share / ".starforge-trial" / "12345-12345"
        assert (answer.job_user, answer.trial_folder, answer.trial_trouble) == ("12345:12345", str(folder), "")
        found = folder.stat()
        assert stat.S_IMODE(found.st_mode) == 0o750
        assert found.st_uid == (12_345 if AS_ROOT else os.geteuid())
        assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o755
        assert (await let_join(yard)).trial_trouble == ""

    run(tmp_path, test)


@pytest.mark.parametrize(("user", "folder", "mode"), [("image", "image", 0o777), ("2000:3000", "2000-3000", 0o750)])
def test_a_fleets_own_user_goes_before_the_consoles(
    tmp_path: Path, share: Path, user: str, folder: str, mode: int
) -> None:
    async def test(yard: Yard) -> None:
        await yard.fleets.create(build_fleet("own", "node", user=user))
        answer = await let_join(yard, "own")
        assert (answer.job_user, answer.trial_folder) == (user, str(share / ".starforge-trial" / folder))

    run(tmp_path, test)
    assert stat.S_IMODE((share / ".starforge-trial" / folder).stat().st_mode) == mode


def test_nothing_is_made_where_the_share_is_not_mounted_and_the_machine_joins_all_the_same(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        (tmp_path / "storage").mkdir()
        answer = await let_join(yard)
        assert "storage not mounted" in answer.trial_trouble
        assert list((tmp_path / "storage").iterdir()) == []

    run(tmp_path, test)


def test_what_keeps_the_folder_from_being_made_is_told(tmp_path: Path, share: Path) -> None:
    async def test(yard: Yard) -> None:
        (share / ".starforge-trial").write_text("in the way")
        answer = await let_join(yard)
        assert str(share / ".starforge-trial") in answer.trial_trouble

    run(tmp_path, test)

"""What assembly finds on the storage: its own earlier work, a job's traps, a share that is not there."""

import asyncio
import copy
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, insert

from server.tests.assembly.support import ATTEMPT, SPEC, Yard, in_flight, open_yard
from starforge.contract.ids import Digest
from starforge.contract.launch import Mount
from starforge.errors import LaunchRefused, NodeFault
from starforge_console.assembly.capsule import _create
from starforge_console.assembly.tokens import load_or_make_key
from starforge_console.errors import SettingsError
from starforge_console.ledger.tables import attempts

JOB = in_flight().id


def within(folder: Path, work: Callable[[Yard], Awaitable[None]], spec: dict[str, Any] | None = None) -> None:
    async def go() -> None:
        async with open_yard(folder, spec) as yard:
            await work(yard)

    asyncio.run(go())


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_ino) for path in folder.iterdir()}


def test_preparing_twice_gives_the_same_request_and_leaves_the_files_alone(tmp_path: Path) -> None:
    async def work(yard: Yard) -> None:
        first = await yard.assembler.prepare(in_flight())
        before = contents(yard.layout.capsule)
        assert await yard.assembler.prepare(in_flight()) == first
        assert contents(yard.layout.capsule) == before

    within(tmp_path, work)


def test_a_newer_console_keeps_the_capsule_of_an_attempt_that_an_older_one_made(tmp_path: Path) -> None:
    async def work(yard: Yard) -> None:
        first = await yard.assembler.prepare(in_flight())
        before = contents(yard.layout.capsule)
        newer = yard.storage.root / "blobs" / ("f" * 64)
        newer.write_bytes(b"the runner of the next release")
        yard.change(runner=newer, ingest_url="http://moved.test:7081")
        again = await yard.assembler.prepare(in_flight())
        assert contents(yard.layout.capsule) == before
        assert again.capsule_digest == first.capsule_digest
        assert again.env == first.env
        fourth = type(ATTEMPT)("j234567abc-4-abcdef")
        other = await yard.assembler.prepare(in_flight(fourth))
        assert other.capsule_digest != first.capsule_digest
        assert (yard.storage.attempt(fourth).capsule / "runner.pex").read_bytes() == newer.read_bytes()

    within(tmp_path, work)


def test_a_capsule_that_was_cut_short_is_written_anew(tmp_path: Path) -> None:
    async def work(yard: Yard) -> None:
        first = await yard.assembler.prepare(in_flight())
        before = {name: content for name, (content, _) in contents(yard.layout.capsule).items()}
        (yard.layout.capsule / "SHA256SUMS").unlink()
        (yard.layout.capsule / "capsule.json").unlink()
        (yard.layout.capsule / "capsule.json").write_text("{")
        assert await yard.assembler.prepare(in_flight()) == first
        assert {name: content for name, (content, _) in contents(yard.layout.capsule).items()} == before

    within(tmp_path, work)


@pytest.mark.parametrize("mark", [None, "another share\n"])
def test_a_share_that_is_not_mounted_is_the_machines_fault_and_gets_no_folder(tmp_path: Path, mark: str | None) -> None:
    async def work(yard: Yard) -> None:
        yard.storage.mark.unlink()
        if mark is not None:
            yard.storage.mark.write_text(mark)
        with pytest.raises(NodeFault, match="storage not mounted"):
            await yard.assembler.prepare(in_flight())
        assert not yard.storage.run(JOB).exists()

    within(tmp_path, work)


def test_a_storage_that_refuses_is_the_machines_fault(tmp_path: Path) -> None:
    async def work(yard: Yard) -> None:
        (yard.storage.root / "runs").write_text("in the way")
        with pytest.raises(NodeFault, match="the storage refused the attempt's files"):
            await yard.assembler.prepare(in_flight())

    within(tmp_path, work)


def test_a_runner_archive_that_is_missing_is_the_machines_fault(tmp_path: Path) -> None:
    async def work(yard: Yard) -> None:
        yard.settings.runner.unlink()
        with pytest.raises(NodeFault, match="No such file"):
            await yard.assembler.prepare(in_flight())
        assert not (yard.layout.capsule / "SHA256SUMS").exists()

    within(tmp_path, work)


@pytest.mark.parametrize("name", ["work", "ckpt", "spool", "node-0", "home", ".starforge"])
def test_a_link_in_place_of_a_folder_is_refused_and_nothing_is_written_behind_it(tmp_path: Path, name: str) -> None:
    async def work(yard: Yard) -> None:
        outside = tmp_path / "outside"
        outside.mkdir(mode=0o700)
        yard.layout.root.mkdir(parents=True)
        (yard.layout.root / name).symlink_to(outside)
        with pytest.raises(NodeFault, match=f"{name} is a link"):
            await yard.assembler.prepare(in_flight())
        assert list(outside.iterdir()) == []
        assert oct(outside.stat().st_mode & 0o777) == "0o700"

    within(tmp_path, work)


def test_the_capsule_lies_outside_of_what_the_job_may_write_and_shares_no_file(tmp_path: Path) -> None:
    async def work(yard: Yard) -> None:
        request = await yard.assembler.prepare(in_flight())
        writable = [mount.source for mount in request.mounts if not mount.read_only]
        for file in yard.layout.capsule.iterdir():
            assert file.stat().st_nlink == 1
            assert not [folder for folder in writable if file.is_relative_to(folder)]

    within(tmp_path, work)


def test_what_other_attempts_mount_lies_in_no_folder_that_a_job_may_write(tmp_path: Path) -> None:
    async def work(yard: Yard) -> None:
        request = await yard.assembler.prepare(in_flight())
        writable = [Path(mount.source) for mount in request.mounts if not mount.read_only]
        # Who may write the folder above could lay a link in its place while another container is being made.
        assert yard.layout.checkpoints in writable
        assert not [folder for folder in writable if folder in yard.layout.checkpoints.parents]

    within(tmp_path, work)


def test_a_workspace_that_is_gone_is_a_refusal_that_no_machine_can_mend(tmp_path: Path) -> None:
    async def work(yard: Yard) -> None:
        yard.storage.blob(Digest("sha256:" + "2" * 64)).unlink()
        with pytest.raises(LaunchRefused, match="is not in the storage any more"):
            await yard.assembler.prepare(in_flight())

    within(tmp_path, work)


def test_a_key_appears_whole_and_a_broken_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token-key"
    key = load_or_make_key(path)
    assert len(key) == 32
    assert load_or_make_key(path) == key
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["token-key"]
    for broken in (b"", key[:31]):
        path.chmod(0o600)
        path.write_bytes(broken)
        with pytest.raises(SettingsError, match=f"holds {len(broken)} bytes"):
            load_or_make_key(path)


def test_a_link_in_place_of_the_mount_point_is_refused(tmp_path: Path) -> None:
    async def work(yard: Yard) -> None:
        outside = tmp_path / "outside"
        outside.mkdir(mode=0o700)
        yard.layout.mount.parent.mkdir(parents=True)
        yard.layout.mount.symlink_to(outside)
        with pytest.raises(NodeFault, match="is a link"):
            await yard.assembler.prepare(in_flight())
        assert oct(outside.stat().st_mode & 0o777) == "0o700"

    within(tmp_path, work)


def test_a_link_in_place_of_the_control_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    async def work(yard: Yard) -> None:
        await yard.assembler.prepare(in_flight())
        victim = tmp_path / "victim"
        victim.write_text("untouched")
        yard.layout.control.symlink_to(victim)
        await yard.assembler.tell(ATTEMPT, "stop", 12.5, 7)
        assert victim.read_text() == "untouched"
        assert not yard.layout.control.is_symlink()
        assert yard.layout.control.read_text() == '{"desired": "stop", "grace_s": 12.5, "sequence": 7}'

    within(tmp_path, work)


def test_a_link_that_waits_under_the_temporary_name_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    partial = tmp_path / ".control.json.guessed"
    for target in (victim, tmp_path / "nowhere"):
        partial.symlink_to(target)
        with pytest.raises(FileExistsError):
            _create(partial)
        partial.unlink()
    assert victim.read_text() == "untouched"
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_in_place_of_the_control_file_is_told_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async def work(yard: Yard) -> None:
        await yard.assembler.prepare(in_flight())
        yard.layout.control.mkdir()
        before = sorted(path.name for path in yard.layout.root.iterdir())
        with pytest.raises(IsADirectoryError):
            await yard.assembler.tell(ATTEMPT, "stop", 1.0, 1)
        assert sorted(path.name for path in yard.layout.root.iterdir()) == before

    within(tmp_path, work)


def test_an_attempt_whose_folder_is_gone_needs_no_telling(tmp_path: Path) -> None:
    async def work(yard: Yard) -> None:
        await yard.assembler.tell(ATTEMPT, "stop", 1.0, 1)
        assert not yard.layout.root.exists()

    within(tmp_path, work)


def test_older_checkpoints_are_mounted_newest_first_and_only_where_they_are_real_folders_that_hold_something(
    tmp_path: Path,
) -> None:
    async def work(yard: Yard) -> None:
        sixth = type(ATTEMPT)("j234567abc-6-abcdef")
        layouts = {number: yard.storage.attempt_number(JOB, number) for number in range(1, 6)}
        folders = {number: layout.checkpoints for number, layout in layouts.items()}
        for number, folder in folders.items():
            folder.parent.mkdir(parents=True)
            if number in {1, 4}:
                (folder / "step-10").mkdir(parents=True)
        folders[2].mkdir()  # holds nothing
        secret = tmp_path / "secret"
        (secret / "x").mkdir(parents=True)
        folders[3].symlink_to(secret)
        folders[5].write_text("a file")
        request = await yard.assembler.prepare(in_flight(sixth))
        older = [
            Mount(str(folders[number]), str(layouts[number].checkpoints_mount), read_only=True) for number in (4, 1)
        ]
        assert list(request.mounts[5:-1]) == older
        assert str(secret) not in repr(request.mounts)

    within(tmp_path, work)


def note_attempts(connection: Connection, **reasons: str) -> None:
    for word, reason in reasons.items():
        number = int(word.removeprefix("n"))
        row = {"id": f"{JOB}-{number}-abcdef", "job_id": JOB, "number": number, "fleet": "lab", "node": "n1"}
        row |= {"target_name": "x", "dequeued_at": 1.0, "reason": reason, "costs_retry": False, "gpus": "[]"}
        connection.execute(insert(attempts), row)


def test_after_a_lost_attempt_the_outputs_go_elsewhere_and_the_earlier_ones_are_read_only(tmp_path: Path) -> None:
    async def work(yard: Yard) -> None:
        sixth = type(ATTEMPT)("j234567abc-6-abcdef")
        reasons = {"n1": "exited_nonzero", "n2": "node_lost", "n3": "node_lost", "n4": "node_lost", "n5": "interrupted"}
        await yard.ledger.write(lambda connection: note_attempts(connection, **reasons))
        run = yard.storage.run(JOB)
        (run / "out").mkdir(parents=True)
        (run / "out-3").mkdir()
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        (run / "out-4").symlink_to(elsewhere)
        request = await yard.assembler.prepare(in_flight(sixth))
        outputs = [mount for mount in request.mounts if mount.source.startswith(f"{run}/out")]
        assert outputs == [
            Mount(f"{run}/out-5", f"{run}/out-5", read_only=False),
            Mount(f"{run}/out-3", f"{run}/out-3", read_only=True),
            Mount(f"{run}/out", f"{run}/out", read_only=True),
        ]
        assert request.env["FORGE_OUT_DIR"] == f"{run}/out-5"
        assert request.env["FORGE_EARLIER_OUT_DIRS"] == f"{run}/out-3:{run}/out"
        assert oct((run / "out-5").stat().st_mode & 0o777) == "0o750"
        assert await yard.assembler.prepare(in_flight(sixth)) == request

    within(tmp_path, work)


def test_attempts_that_ended_for_sure_share_their_outputs(tmp_path: Path) -> None:
    async def work(yard: Yard) -> None:
        await yard.ledger.write(lambda connection: note_attempts(connection, n1="interrupted", n2="gpu_lost"))
        request = await yard.assembler.prepare(in_flight())
        assert request.env["FORGE_OUT_DIR"] == f"{yard.storage.run(JOB)}/out"
        assert "FORGE_EARLIER_OUT_DIRS" not in request.env

    within(tmp_path, work)


def test_a_job_that_never_resumes_gets_no_older_checkpoint(tmp_path: Path) -> None:
    spec = copy.deepcopy(SPEC)
    spec["spec"]["lifecycle"]["resume"] = "never"

    async def work(yard: Yard) -> None:
        (yard.storage.attempt_number(JOB, 2).checkpoints / "step-10").mkdir(parents=True)
        assert len((await yard.assembler.prepare(in_flight())).mounts) == 6

    within(tmp_path, work, spec)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_the_jobs_user_owns_what_the_job_writes_and_nothing_of_the_capsule(tmp_path: Path) -> None:
    async def work(yard: Yard) -> None:
        yard.change(job_user=(12_345, 23_456))
        await yard.assembler.prepare(in_flight())
        assert {(path.stat().st_uid, path.stat().st_gid) for path in yard.layout.writable()} == {(12_345, 23_456)}
        own = [yard.layout.capsule, yard.layout.mount, *yard.layout.capsule.iterdir()]
        assert {path.stat().st_uid for path in own} == {0}

    within(tmp_path, work)
